"""Since when plans have everything: the same as panes."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sash.catalog import Stream
from sash.core.time import SECOND, to_micros
from sash.core.window import TimeWindow
from sash.plan.outputs import Sampled
from sash.plan.reach import complete_from, pane_of, reaches
from sash.runtime.continuous.beginnings import PlanPanes
from sash.runtime.spark_pass import BatchTimes
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.plans import window

parts_of = st.lists(st.lists(st.integers(1, 6_000), min_size=1, max_size=4), min_size=2, max_size=6)


@given(
    parts=parts_of, length=st.integers(1, 8), slide=st.integers(1, 6), offset=st.sampled_from([0, 250]),
    delay=st.sampled_from([0, 1, 30]), comes=st.integers(0, 2),
)  # fmt: skip
@example(parts=[[1], [101], [1, 301, 401]], length=2, slide=1, offset=0, delay=0, comes=2)
@settings(max_examples=examples(150), deadline=None)
def test_plans_are_complete_when_panes_are(
    parts: list[list[int]], length: int, slide: int, offset: int, delay: int, comes: int
) -> None:
    """Whatever comes out of order; late tuples are left out."""
    fields = [("ts", pa.timestamp("us", "UTC")), ("_us", pa.int64())]
    declared = Stream("s", pa.schema(fields), "ts", offset=offset * 1_000, delay=delay * SECOND)
    text = f"SELECT COUNT(*) AS n FROM s [WINDOW {length} sec SLIDE {slide} sec]"
    feed, panes = Feed(declared), None
    known, latest, late, is_any_late = None, None, None, False
    for number, milliseconds in enumerate(parts):
        stamps = [10 * each * 1_000 for each in milliseconds]
        if number == comes:
            feed.runtime.synchronise(compiled({"q": text}, declared))
            plan = Sampled(window("s", TimeWindow(length * SECOND)), slide * SECOND, offset * 1_000)
            panes = PlanPanes(pane_of(plan, plan.slide), plan.offset)
        seen = BatchTimes(max(stamps), min(stamps), latest, late)
        is_any_late |= late is not None and min(stamps) < late
        if panes is not None:
            known = panes.begun(seen) if known is None else panes.noted(known, seen, late)
        latest = max(stamps) if latest is None else max(latest, *stamps)
        late = latest - declared.delay
        table = pa.table({"ts": pa.array(stamps, fields[0][1]), "_us": pa.array(stamps)})
        for answer in feed.push(table):
            assert known is not None
            begins = complete_from(reaches(plan), {} if known.since is None else {"s": known.since}, [])
            is_complete = begins is not None and to_micros(answer.as_of) >= begins
            assert is_complete <= answer.complete, "never more than panes say"
            assert is_complete == answer.complete or is_any_late
