"""Answers in two steps: whatever happens to the panes after they were taken, the answer is that of the moment."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog
from sash.core.errors import SashError
from sash.core.time import SECOND
from sash.panes import basic_interval, partitioned
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.runtime.explaining.explain import explain
from sash.runtime.periodic.onetime import PaneLookup, look_up, offered, stamped
from sash.runtime.periodic.stream_runtime import newest_common
from sash.sql import bind
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.oracle import same_rows
from tests.support.streams import START, batches, stream, to_table

REGISTERED = {
    "time": "SELECT k, SUM(v) AS t, MAX(v) AS m, MIN(g) AS f, AVG(x) AS d FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k",
    "sums": "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec] WHERE v > 5 GROUP BY k",
    "ever": "SELECT g, COUNT(*) AS n, SUM(v) AS t FROM s [UNBOUNDED SLIDE 2 sec LAG 2 sec] GROUP BY g",
    "values": "SELECT COUNT(DISTINCT v) AS d, SUM(w) AS t FROM s [WINDOW 6 sec SLIDE 2 sec]",
    "rows": "SELECT k, SUM(v) AS t, MAX(g) AS m FROM s [ROWS 6 SLIDE 2] GROUP BY k",
    "last": "SELECT k, SUM(v) AS t, MIN(g) AS f FROM s [PARTITION BY k ROWS 3 SLIDE 2] GROUP BY k",
}
KINDS = [None, "running", "interval", "landmark"]
QUESTIONS = [
    "SELECT k, SUM(v) AS t, MAX(v) AS m, MIN(g) AS f, AVG(x) AS d FROM s [WINDOW 6 sec] GROUP BY k ORDER BY t LIMIT 3",
    "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 4 sec] WHERE v > 5 GROUP BY k HAVING COUNT(*) > 1",
    "SELECT g, COUNT(*) AS n, SUM(v) AS t FROM s [UNBOUNDED LAG 2 sec] GROUP BY g",
    "SELECT COUNT(DISTINCT v) AS d, SUM(w) AS t FROM s [WINDOW 6 sec]",
    "SELECT k, SUM(v) AS t, MAX(g) AS m FROM s [ROWS 6] GROUP BY k",
    "SELECT k, SUM(v) AS t, MIN(g) AS f FROM s [PARTITION BY k ROWS 3] GROUP BY k",
]


@pytest.fixture(autouse=True)
def _panes_that_change_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dictionaries are compacted, panes merged and rows dropped all the time."""
    monkeypatch.setattr(basic_interval, "LEAST_COMPACTED", 1)
    monkeypatch.setattr(basic_interval, "MOST_UNMERGED", 2)
    monkeypatch.setattr(partitioned, "LEAST_DROPPED", 1)


def questions(feed: Feed) -> list[CompiledQuery]:
    catalog = Catalog()
    catalog.add_stream(feed.declared)
    return [compile_panes(bind(as_select(text), catalog), "(one-time)", one_time=True) for text in QUESTIONS]


def taken(feed: Feed, question: CompiledQuery) -> Iterator[tuple[PaneLookup, pa.Table]]:
    """The taken panes, with the answer of the live panes at that moment."""
    try:
        lookup, now = look_up(question, feed.runtime), stamped(look_up(question, feed.runtime).compute())
    except SashError:
        return
    active = feed.runtime.covers(question)
    assert active is not None and newest_common(active) is not None
    live = feed.runtime.probe(active)
    assert live is not None and same_rows(now.to_pylist(), live.table.to_pylist())
    yield lookup, now


@pytest.mark.parametrize(("text", "error", "shown"), [
    ("SELECT k, MIN(w) AS m FROM s [WINDOW 6 sec] GROUP BY k", "holds MIN(w) by (k)", "keeps min(w)"),
    ("SELECT k, SUM(v) AS t FROM s [WINDOW 7 sec] GROUP BY k", "the question looks back 7 sec", "(k) keeps 6 sec in"),
    ("SELECT k, SUM(v) AS t FROM s [UNBOUNDED] GROUP BY k", "forgets what its windows", "(k) keeps 6 sec in panes of"),
    ("SELECT k, MAX(v) AS m FROM s [WINDOW 3 sec] GROUP BY k", "take multiples of 2 sec", "in panes of 2 sec"),
    ("SELECT k, MAX(v) AS m FROM s [WINDOW 6 sec] GROUP BY k", None, "answered from pane table s by (k)"),
])  # fmt: skip
def test_a_question_and_its_explanation_read_one_offer(text: str, error: str | None, shown: str) -> None:
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"time": REGISTERED["time"]}, feed.declared))
    feed.push(to_table([(START + i * SECOND // 4, 1, "a", i, i, 1.0) for i in range(50)]))
    catalog = Catalog()
    catalog.add_stream(feed.declared)
    question = compile_panes(bind(as_select(text), catalog), "(one-time)", one_time=True)
    lacks = offered(question, feed.runtime).lacks
    assert shown in explain(question, feed.runtime)
    if error is None:
        assert not lacks and look_up(question, feed.runtime).compute().table.num_rows
        return
    assert error in lacks[0].error
    with pytest.raises(SashError, match=re.escape(lacks[0].error)):
        look_up(question, feed.runtime)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches(disorder=2 * SECOND), st.booleans(), st.sampled_from(KINDS), st.integers(1, 3))
def test_answers_are_those_of_the_moment(parts: list[pa.Table], late: bool, kind: str | None, ahead: int) -> None:
    feed = Feed(stream(delay=SECOND, late_revise=late))
    others = {name: text for name, text in REGISTERED.items() if name != "sums"}
    sums = compiled({"sums": REGISTERED["sums"]}, feed.declared, kind)
    feed.runtime.synchronise([*compiled(others, feed.declared), *sums])
    held: list[tuple[PaneLookup, pa.Table]] = []
    asked = questions(feed)
    for part in parts:
        feed.push(part)
        check(held[: -ahead * len(asked)])
        for question in asked:
            held += taken(feed, question)
    feed.finish()
    check(held)


def check(held: list[tuple[PaneLookup, pa.Table]]) -> None:
    for lookup, known in held:
        later = stamped(lookup.compute())
        assert later.schema.equals(known.schema, check_metadata=True)
        assert repr(later.to_pylist()) == repr(known.to_pylist())
