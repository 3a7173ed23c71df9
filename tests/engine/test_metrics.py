"""session.metrics(): every number of stats(), once, in Prometheus' text format."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.engine.reporting.metrics import exposition
from tests.engine.test_session import create, ten_files
from tests.support.prometheus import parsed

NAMES = st.text(max_size=8)
NUMBERS = st.one_of(st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.none())
FIELDS = st.dictionaries(st.sampled_from(["tuples", "late_tuples", "work_saved", "something_new"]), NUMBERS)


def value_of(name: str, value: Any) -> float | None:
    """What a sample of a field should say; None: there is none."""
    if name == "error":
        return float(value is not None)
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    return float(value) if isinstance(value, bool | int | float) else None


def expected(stats: dict[str, Any]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """By a walk through stats() that knows nothing of how the text is made."""
    parts: list[tuple[str, dict[str, str], dict[str, Any]]] = [("session", {}, stats)]
    for stream, facts in stats["streams"].items():
        parts.append(("stream", {"stream": stream}, facts))
        tables = [(table["name"], table) for table in facts["pane_tables"]]
        tables += [(name, {"unreduced": part}) for name, part in facts["unreduced"].items()]
        parts += [("pane_table", {"stream": stream, "table": name}, table) for name, table in tables]
    for query, facts in stats["queries"].items():
        parts.append(("query", {"query": query}, facts))
        for i, sink in enumerate(facts["sinks"]):
            parts.append(("sink", {"query": query, "sink": sink["sink"], "number": str(i)}, sink))
    for archive, facts in stats["archives"].items():
        parts.append(("archive", {"archive": archive}, facts))
    return {
        (f"sash_{part}_{name}", frozenset(labels.items())): number
        for part, labels, fields in parts
        for name, value in fields.items()
        if (number := value_of(name, value)) is not None
    }


def told(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
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
                "pane_tables": [{"name": "(a, b)", "keys": ["a", "b"], "panes": 3}, {"name": "()", "panes": 1}],
            }
            for name, numbers in streams.items()
        },
        "queries": {
            name: {
                **numbers,
                "error": None if name else "no name",
                "sinks": [{"sink": sink, "written": 2, "error": "no\nroom"} for sink in sinks],
            }
            for name, (numbers, sinks) in queries.items()
        },
        "archives": archives,
    }
    assert same(told(exposition(stats)), expected(stats))


@pytest.mark.spark
def test_metrics_are_the_numbers_of_stats(spark: Any, tmp_path: Path) -> None:
    ten_files(tmp_path / "data")
    with sash.connect(spark=spark) as session:
        create(session, tmp_path / "data", "KEEP 10 sec")
        clauses = f"KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec IN '{tmp_path / 'archive'}'"
        session.sql(f"CREATE ARCHIVE old FROM s {clauses}")
        session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k", name="q")
        session.register("SELECT COUNT(*) AS n FROM s [ROWS 5 SLIDE 5]", name="rows")
        session.register("SELECT DISTINCT k FROM s [RANGE 4 sec]", name="c").write_to("noop")
        session.run()
        text, stats = session.metrics(), session.stats()
        assert same(told(text), expected(stats))
    assert 'sash_stream_tuples_total{stream="s"} 80\n' in text
    assert 'sash_query_answers_total{query="q"}' in text
    assert 'sash_sink_written_total{query="c",sink="noop",number="0"}' in text
    assert 'sash_archive_rows{archive="old"}' in text
