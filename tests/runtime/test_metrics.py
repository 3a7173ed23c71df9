"""session.metrics(): every number of stats(), once, in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.core.time import SECOND
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.mailbox import Mailbox
from sash.runtime.answers.outlet import Outlet
from sash.runtime.explaining.metrics import exposition
from sash.runtime.statistics import GroupStatistics, ReadStatistics, StreamStatistics
from tests.runtime.test_live_scheduling import FILES, four_files
from tests.runtime.test_session import create
from tests.support.prometheus import parsed
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

NAMES = st.text(max_size=8)
NUMBERS = st.one_of(st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.none())
FIELDS = st.dictionaries(st.sampled_from(["tuples", "late_tuples", "work_saved", "something_new"]), NUMBERS)


TASK = {"group": "G", "slide": "2 sec", "exactly": True, "queries": ["q"]}

# What the collections inside of stats() are called in metrics, and which of their fields are labels. Members of lists
# may be alike but for their place.
PARTS = {
    "work": ("work", ()),
    "streams": ("stream", ()),
    "pane_tables": ("pane_table", (("table", "name"),)),
    "tasks": ("task", (("group", "group"), ("slide", "slide"))),
    "queries": ("query", ()),
    "sinks": ("sink", (("sink", "sink"),)),
    "subscribers": ("subscriber", (("when_full", "when_full"),)),
    "archives": ("archive", ()),
}
Sample = tuple[str, frozenset[tuple[str, str]]]


def value_of(name: str, value: Any) -> float | None:
    """What a sample of a field should say; None: there is none."""
    if name == "error":
        return float(value is not None)
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    if value is None or isinstance(value, str):
        return None
    # Whatever else is in stats() is a number, or float() refuses it and the test fails.
    return float(value)


def walked(facts: dict[str, Any], part: str = "session", **labels: str) -> Iterator[tuple[Sample, float]]:
    """Every number of stats(), however deep. It goes wherever stats() goes: a collection unknown to it is an error."""
    for name, value in facts.items():
        if isinstance(value, dict | list):
            yield from members(name, value, labels)
        elif (number := value_of(name, value)) is not None:
            yield (f"sash_{part}_{name}", frozenset(labels.items())), number


def members(name: str, those: dict[str, Any] | list[Any], labels: dict[str, str]) -> Iterator[tuple[Sample, float]]:
    by_name = isinstance(those, dict)
    for key, member in those.items() if isinstance(those, dict) else enumerate(those):
        if isinstance(member, dict):
            part, fields = PARTS[name]
            place = {part: key} if by_name else {} if name == "pane_tables" else {"number": str(key)}
            yield from walked(member, part, **labels, **place, **{label: member[field] for label, field in fields})
        elif isinstance(member, list):
            yield from members(name, member, labels)
        elif name == "unreduced":
            yield ("sash_pane_table_unreduced", frozenset({**labels, "table": key}.items())), member
        else:
            assert isinstance(member, str), f"{name}: nobody has thought of {member!r}"


def expected(stats: dict[str, Any]) -> dict[Sample, float]:
    samples = list(walked(stats))
    assert len({sample for sample, _ in samples}) == len(samples), "two numbers have one name"
    return dict(samples)


def told(text: str) -> dict[Sample, float]:
    found = {}
    for name, family in parsed(text).items():
        assert (family.kind == "counter") == name.endswith("_total")
        assert family.about
        for labels, value in family.samples.items():
            found[name.removesuffix("_total"), labels] = value
    return found


def same(found: dict[Any, float], wanted: dict[Any, float]) -> bool:
    alike = (math.isclose(found[key], wanted[key]) or str(found[key]) == str(wanted[key]) for key in wanted)
    return found.keys() == wanted.keys() and all(alike)


@given(
    fields=FIELDS,
    streams=st.dictionaries(NAMES, FIELDS, max_size=3),
    queries=st.dictionaries(NAMES, st.tuples(FIELDS, st.lists(NAMES, max_size=3)), max_size=3),
    archives=st.dictionaries(NAMES, FIELDS, max_size=2),
)
def test_every_number_is_one_sample_whatever_things_are_called(
    fields: dict[str, Any],
    streams: dict[str, Any],
    queries: dict[str, Any],
    archives: dict[str, Any],
) -> None:
    stats = {
        **fields,
        "streams": {
            name: {
                **numbers,
                "watermark": datetime(2026, 1, 2, tzinfo=UTC),
                "unreduced": {"(a, b)": 0.75},
                "pane_tables": [
                    {"name": "(a, b)", "keys": ["a", "b"], "panes": 3, "tasks": [TASK, TASK]},
                    {"name": "()", "panes": 1, "tasks": []},
                ],
            }
            for name, numbers in streams.items()
        },
        "queries": {
            name: {
                **numbers,
                "error": None if name else "no name",
                "sinks": [{"sink": sink, "written": 2, "error": "no\nroom"} for sink in sinks],
                "subscribers": [{"when_full": "drop_oldest", "delivered": len(sink), "waiting": 2} for sink in sinks],
            }
            for name, (numbers, sinks) in queries.items()
        },
        "archives": archives,
    }
    assert same(told(exposition(stats)), expected(stats))


class Memory:
    """A sink."""

    name = "memory"
    channel: str | None = None

    def write(self, answers: Sequence[Answer]) -> None:
        return None


def test_no_number_of_stats_is_left_out(tmp_path: Path) -> None:
    """All that a session without Spark can have: windows of time and rows, queues, a sink, an archive, a failure."""
    with SparklessSession() as session:
        session.declare(stream(keep=60 * SECOND))
        totals = session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k", name="totals")
        session.register("SELECT COUNT(*) AS n FROM s [ROWS 5 SLIDE EXACTLY 5]", name="rows")
        session.register("SELECT 1 / SUM(v - v) AS one FROM s [WINDOW 2 sec SLIDE 2 sec]", name="fails")
        for when_full in ("drop_oldest", "drop_newest", "drop_newest"):
            totals.subscribe(lambda answer: None, when_full=when_full)
        totals.outward.add(Outlet("totals", Memory(), None, str))
        session.push("s", tuples(*((second, second % 2, second) for second in range(1, 13))))
        place = tmp_path / "archive"
        session.sql(f"CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec IN '{place}'")
        totals.outward.settle(None, set())
        stats, text = session.stats(), session.metrics()
    facts = stats["queries"]["totals"]
    assert stats["queries"]["fails"]["error"] and stats["streams"]["s"]["pane_tables"][0]["tasks"]
    assert [each["delivered"] for each in facts["subscribers"]] == [facts["answers"]] * 3
    assert same(told(text), expected(stats))
    assert not [name for name, family in parsed(text).items() if family.about.endswith("in stats()")]
    labels = '{query="totals",when_full="drop_newest",number="2"}'
    assert f"sash_subscriber_delivered_total{labels} {facts['answers']}\n" in text


def test_what_is_counted_is_a_counter() -> None:
    counted = {**vars(StreamStatistics()), **vars(GroupStatistics()), **ReadStatistics().counts()}
    queue = Mailbox("q", lambda answer: None, 1, "drop_oldest", lambda: None).statistics()
    query = {"sinks": [], "subscribers": [queue]}
    text = exposition({**counted, "streams": {}, "queries": {"q": query}, "archives": {}})
    gauges = {name for name, family in parsed(text).items() if family.kind == "gauge"}
    assert gauges == {"sash_subscriber_waiting"}


@pytest.mark.spark
def test_metrics_are_the_numbers_of_stats(spark: Any, tmp_path: Path) -> None:
    four_files(tmp_path / "data")
    with sash.connect(spark=spark) as session:
        create(session, tmp_path / "data", "KEEP 10 sec")
        clauses = f"KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec IN '{tmp_path / 'archive'}'"
        session.sql(f"CREATE ARCHIVE old FROM s {clauses}")
        session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k", name="q")
        session.register("SELECT COUNT(*) AS n FROM s [ROWS 5 SLIDE 5]", name="rows")
        changes = session.register("SELECT DISTINCT k FROM s [RANGE 4 sec]", name="c")
        changes.write_to("noop")
        changes.subscribe(lambda answer: None, when_full="drop_oldest")
        session.run()
        text, stats = session.metrics(), session.stats()
        assert same(told(text), expected(stats))
    assert f'sash_stream_tuples_total{{stream="s"}} {8 * FILES}\n' in text
    assert 'sash_query_answers_total{query="q"}' in text
    assert 'sash_sink_written_total{query="c",sink="noop",number="0"}' in text
    assert 'sash_subscriber_delivered_total{query="c",when_full="drop_oldest",number="0"}' in text
    assert 'sash_archive_rows{archive="old"}' in text
