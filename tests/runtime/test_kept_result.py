"""The stored results of a query with KEEP, against the answers that were given, and against the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import KeptForm, RegisteredQuery, StoredIndex
from sash.core.changes import EXP, TS, Changes
from sash.core.errors import SashError
from sash.core.time import to_datetime
from sash.plan.continuous import STRATEGIES, windows
from sash.runtime.answers import change_view
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.kept_result import KeptResult
from sash.sql import ROW_KINDS
from tests.changes.test_plans_oracle import END, run
from tests.runtime.test_change_view import as_changes
from tests.support.examples import examples
from tests.support.plans import plans, tuples
from tests.support.relational import Row, answer

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def kept_result(keep: int, form: KeptForm = KeptForm.ANSWERS, most: int = 10**6) -> KeptResult:
    return KeptResult(RegisteredQuery("q", "", "s", serial=1, keep=keep, kept_form=form), most)


def an_answer(as_of: int, rows: Sequence[Row], number: int | None = None) -> Answer:
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(COLUMNS)]
    return Answer("q", to_datetime(as_of), True, True, pa.table(columns, schema=COLUMNS), number)


def of_changes(as_of: int, changes: Changes) -> Answer:
    return Answer("q", to_datetime(as_of), True, True, changes.to_table())


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Instants as numbers."""
    times = [name for name in table.schema.names if pa.types.is_timestamp(table.schema.field(name).type)]
    plain = [table[name].cast(pa.int64()) if name in times else table[name] for name in table.schema.names]
    return Counter(zip(*(column.to_pylist() for column in plain), strict=True)) if len(table) else Counter()


def restarted(kept: KeptResult, keep: int, form: KeptForm = KeptForm.ANSWERS) -> KeptResult:
    saved, again = kept.save(), kept_result(keep, form)
    if saved is not None:
        again.load(saved)
    return again


@given(st.data())
@settings(max_examples=examples(150))
def test_stored_answers_are_those_that_were_given_lately(data: st.DataObject) -> None:
    """Whoever looks, by an index or not, after restarts, and after answers that came again."""
    keep = data.draw(st.integers(1, 30), label="keep")
    kept, given_answers, as_of = kept_result(keep), list[tuple[int, list[Row]]](), 0
    kept.begin(RegisteredQuery("q", "", "s", keep=keep).asked_schema(COLUMNS))
    index = StoredIndex("q", "k", data.draw(st.sampled_from(ROW_KINDS), label="kind"), 1)
    values = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(change_view, "FEW", data.draw(st.integers(0, 8), label="few"))
        for _ in range(data.draw(st.integers(0, 15), label="answers")):
            as_of += data.draw(st.integers(1, 12), label="later")
            rows = data.draw(st.lists(values, max_size=4), label="rows")
            given_answers.append((as_of, rows))
            for _ in range(data.draw(st.sampled_from([1, 1, 2]), label="times")):
                kept.take(an_answer(as_of, rows))
            if data.draw(st.booleans(), label="restarts"):
                kept = restarted(kept, keep)
            expected = Counter((*row, t) for t, found in given_answers for row in found if t > as_of - keep)
            if data.draw(st.booleans(), label="by index"):
                wanted = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=2), label="wanted")
                found = kept.rows(None, index, pa.array(wanted))
                assert rows_of(found.rows) == {row: n for row, n in expected.items() if row[0] in wanted}
            else:
                found = kept.rows()
                assert rows_of(found.rows) == expected
            assert (found.as_of, found.complete) == (as_of, given_answers[0][0] <= as_of - keep)
    assert given_answers or (kept.rows().as_of, len(kept.rows().rows)) == (None, 0)


def test_rows_of_several_answers_as_of_one_time_are_apart_by_their_numbers() -> None:
    """Windows of rows."""
    kept = kept_result(10)
    kept.take(an_answer(5, [(1, 1)], number=7))
    kept.take(an_answer(5, [(1, 2)], number=8))
    assert rows_of(kept.rows().rows) == {(1, 1, 5): 1, (1, 2, 5): 1}


def test_a_column_of_the_answers_with_the_name_of_their_time_stays() -> None:
    kept, answered = kept_result(10), an_answer(5, [(1, 2)])
    kept.take(replace(answered, table=answered.table.rename_columns(["as_of", "v"])))
    assert kept.rows().rows.to_pylist() == [{"as_of": 1, "v": 2}]


def lived(table: pa.Table, instant: int) -> Counter[Row]:
    """The rows that were there at an instant."""
    ends = table[EXP].cast(pa.int64()).fill_null(10**9)
    times = zip(table[TS].cast(pa.int64()).to_pylist(), ends.to_pylist(), strict=True)
    rows = zip(*(column.to_pylist() for column in table.drop_columns([TS, EXP]).columns), strict=True)
    return Counter(row for row, (came, left) in zip(rows, times, strict=True) if came <= instant < left)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(60))
def test_stored_rows_of_a_relation_are_the_definitions_at_each_instant(strategy: str, data: st.DataObject) -> None:
    """Whatever the plan and the epochs, after restarts, and after epochs that come again."""
    plan = data.draw(plans(3), label="plan")
    inputs = [data.draw(tuples, label=window.alias) for window in windows(plan)]
    listed, keep = run(plan, inputs, [], strategy=strategy), data.draw(st.integers(1, END), label="keep")
    kept, low = kept_result(keep, KeptForm.RELATION), 0
    kept.begin(kept.query.asked_schema(plan.schema))
    index = StoredIndex("q", plan.schema.names[0], data.draw(st.sampled_from(ROW_KINDS), label="kind"), 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(change_view, "FEW", data.draw(st.integers(0, 8), label="few"))
        for high in [*sorted(set(data.draw(st.lists(st.integers(1, END - 1), max_size=8), label="cuts"))), END]:
            came = [change for change in listed if low <= change[0] < high]
            if came:
                kept.take(of_changes(high - 1, as_changes(came, plan.schema)))
            if came and data.draw(st.booleans(), label="again"):
                kept.take(of_changes(high - 1, as_changes(came, plan.schema)))
            if data.draw(st.booleans(), label="restarts"):
                kept = restarted(kept, keep, KeptForm.RELATION)
                kept.begin(kept.query.asked_schema(plan.schema))
            now, wanted = (
                high - 1,
                data.draw(st.one_of(st.none(), st.lists(st.integers(-1, 4), min_size=1)), label="of"),
            )
            values = pa.array(wanted or [], plan.schema.field(0).type)
            found = kept.rows(now) if wanted is None else kept.rows(now, index, values)
            for instant in range(max(0, now - keep + 1), now + 1):
                expected = answer(plan, inputs, instant)
                if wanted is not None:
                    expected = Counter({row: n for row, n in expected.items() if row[0] in wanted})
                assert lived(found.rows, instant) == expected, instant
            began, ends = (found.rows[name].cast(pa.int64()).to_pylist() for name in (TS, EXP))
            lives = [(came, left) for came, left in zip(began, ends, strict=True) if left is not None]
            assert all(came < left and now - keep < left <= now for came, left in lives) and found.as_of == now
            low = high


def test_results_of_a_stream_are_stored_from_when_they_come() -> None:
    kept = kept_result(10, KeptForm.STREAM)
    for first in (0, 6, 12):
        listed = [(ts, 2**62, 1, (ts, 0)) for ts in range(first, first + 6)]
        kept.take(of_changes(first + 5, as_changes(listed, COLUMNS)))
    # The last epoch is not committed, and then it is.
    assert rows_of(kept.rows(14).rows) == {(ts, 0, ts): 1 for ts in range(5, 15)}
    assert rows_of(kept.rows(17).rows) == {(ts, 0, ts): 1 for ts in range(8, 18)}
    assert rows_of(restarted(kept, 10, KeptForm.STREAM).rows(17).rows) == rows_of(kept.rows(17).rows)
    # Without results, time goes on.
    assert rows_of(kept.rows(25).rows) == {(ts, 0, ts): 1 for ts in (16, 17)}


def test_memory_is_bounded_by_keep_and_counted() -> None:
    kept = kept_result(100)
    kept.begin(kept.query.asked_schema(COLUMNS))
    index, most = StoredIndex("q", "v", "db", 1), 0
    assert kept.index_values(index) == 0
    for as_of in range(2_000):
        kept.take(an_answer(as_of, [(0, as_of), (1, as_of)]))
        most = max(most, kept.statistics()["kept_rows"])
    assert most == 200 and kept.index_values(index) < 150
    assert 200 * 3 * 8 <= kept.statistics()["kept_bytes"] < 200 * 10 * 8
    kept.drop_index(index)
    assert len(kept.rows().rows) == 200
    for as_of in range(2_000, 4_000):
        kept.take(an_answer(as_of, [(0, as_of), (1, as_of)]))
        most = max(most, kept.statistics()["kept_rows"])
    # Rows that somebody has looked at are in one part, and leave together.
    assert most <= 2 * 200 + 1_000 + 2


def test_too_many_rows_give_up_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    kept = kept_result(100, most=10)
    for as_of in range(0, 1_000, 20):
        kept.take(an_answer(as_of, [(0, 0), (1, 1)]))
    assert len(kept.rows().rows) == 10
    kept.take(an_answer(981, [(0, 0)]))
    with pytest.raises(
        SashError, match=r"query 'q': KEEP stored 11 rows .* max_rows is 10, so nothing is stored any more"
    ):
        kept.rows()
    kept.take(an_answer(990, [(0, 0)]))
    assert kept.statistics() == {"kept_rows": 0, "kept_bytes": 0} and kept.save() is None
    assert "KEEP stored 11 rows" in caplog.text


def test_a_row_that_came_and_went_at_one_instant_was_never_there() -> None:
    kept, end = kept_result(10, KeptForm.RELATION), 2**62
    kept.take(of_changes(5, as_changes([(4, end, 1, (1, 1)), (5, end, 1, (1, 1)), (5, end, 1, (2, 2))], COLUMNS)))
    kept.take(of_changes(6, as_changes([(6, end, -1, (1, 1)), (6, end, -1, (3, 3)), (6, end, 1, (3, 3))], COLUMNS)))
    assert rows_of(kept.rows(6).rows) == {(1, 1, 4, 6): 1, (1, 1, 5, None): 1, (2, 2, 5, None): 1}
