"""Aggregates over a join whose results several tasks find: each folds its own, and the answers stay the same."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Stage
from sash.changes.bucket_state import State
from sash.changes.operator import Share
from sash.plan.outputs import Sampled
from sash.runtime.continuous.join_group import JoinAnswer, JoinGroup
from sash.spark.exchange import Piece, packed, tables_in
from tests.runtime.test_join_group import (
    END,
    SEC,
    Tuples,
    _rounded,
    alone,
    arrivals,
    begins,
    cuts,
    listed,
    plan_of,
    query_of,
    rows,
    stamps,
    workloads,
)
from tests.runtime.test_join_group import given as given_tuples
from tests.support.examples import examples
from tests.support.relational import answer

# Of six tuples five have the value 1.
skewed = st.builds(lambda row, value: {**row, "b": value}, rows, st.sampled_from([1, 1, 1, 1, 1, 2]))
streams = st.lists(st.tuples(stamps, skewed), max_size=14).map(lambda each: sorted(each, key=lambda pair: pair[0]))


def divided(texts: dict[str, str], tuples: Tuples, cuts: list[int], of: int) -> list[JoinAnswer]:
    """The answers of a group whose join has several shares; what they fold travels as from executors."""
    group, found, low, state = JoinGroup({name: query_of(text) for name, text in texts.items()}), [], 0, State()
    stage = Stage(group.plan)
    assert stage.is_divisible
    for high in cuts:
        arrived = arrivals(group.plan, tuples, low, high)
        steps = [stage.step(state, arrived, low, high, share=Share(number, of)) for number in range(of)]
        sent = [Piece(0, 0, task, 1, packed(group.rows(changes))) for task, (changes, _) in enumerate(steps)]
        group.absorb(tables_in(sent, group.fold, group.plan.schema))
        found += list(group.advance(high - 1, begins(tuples, high)))
        state, low = steps[-1][1], high
    assert not group.failed
    return found


@given(workloads(), st.fixed_dictionaries({"s": streams, "t": streams}), cuts, st.integers(2, 4))
@settings(max_examples=examples(60), deadline=None)
def test_shares_change_no_answer(texts: dict[str, str], tuples: Tuples, cuts: list[int], of: int) -> None:
    """Those of each query's own plan, which is not divided, and of the definition."""
    found = divided(texts, tuples, cuts, of)
    for name, text in texts.items():
        mine = [(each.as_of, listed(each.table)) for each in found if each.query == name]
        assert mine == alone(text, tuples, cuts, 0), text
        plan = plan_of(text)
        if "GROUP BY" in text and "VARIANCE" not in text:
            assert isinstance(plan, Sampled)
            for at, table in mine:
                expected = answer(plan.input, given_tuples(plan, tuples), at)
                assert table == sorted(map(_rounded, expected.elements()), key=repr), (text, at)


def test_groups_and_firsts_that_every_share_has() -> None:
    """All pairs have one value and nearly all one group, so every share has a part of each answer."""
    source = "s [WINDOW 4 sec SLIDE 1 sec], t [WINDOW 3 sec SLIDE 1 sec] WHERE s.b = t.b"
    asked = "COUNT(*) AS n, COUNT(t.a) AS m, SUM(s.e) AS x, MIN(s.a) AS y, MAX(t.c) AS z, AVG(t.a) AS w"
    texts = {
        "groups": f"SELECT s.c, {asked} FROM {source} GROUP BY s.c",
        "all": f"SELECT {asked} FROM {source}",
        # Windows that no result is in at first: what the shares say of their first results must be the least.
        "short": f"SELECT COUNT(*) AS n FROM {source.replace('4 sec', '1 sec').replace('3 sec', '1 sec')}",
    }

    def row(i: int) -> dict[str, object]:
        return {"a": i % 7 - 3, "b": 1, "c": "xxxy"[i % 4], "d": None, "e": i * i}

    tuples: Tuples = {
        "s": [(i * SEC // 4, row(i)) for i in range(60)],
        "t": [(i * SEC // 3 + 4 * SEC, row(i + 2)) for i in range(60)],
    }
    ends = [3 * SEC, 9 * SEC, 17 * SEC, END * SEC]
    for name, of in product(texts, (2, 3, 4)):
        found = divided(texts, tuples, ends, of)
        mine = [(each.as_of, listed(each.table)) for each in found if each.query == name]
        assert len(mine) > 10 and mine == alone(texts[name], tuples, ends, 0), name
