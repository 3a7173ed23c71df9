"""Streams and query sets for the oracle matrices: ties, gaps, bursts, disorder within the delay, NULLs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from sash.catalog import Stream
from sash.core.time import SECOND

START = 1_700_000_000 * SECOND
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.int32()),
        ("g", pa.string()),
        ("v", pa.int32()),
        ("w", pa.int64()),
        ("x", pa.float64()),
    ]
)

# (text with {w} for the window clause); every form stays within the SQL that Spark and DuckDB read alike
FORMS = [
    "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s {w} GROUP BY k",
    "SELECT COUNT(*) AS n, COUNT(v) AS nv, SUM(w) AS total, AVG(v) AS mean FROM s {w}",
    "SELECT g, MAX(v) AS hi, MIN(x) AS lo FROM s {w} WHERE v > 10 GROUP BY g",
    "SELECT MAX(g) AS last, MIN(g) AS first FROM s {w} WHERE k = 1 OR k IS NULL",
    "SELECT k, g, AVG(x) AS mean, STDDEV(v) AS spread FROM s {w} GROUP BY k, g",
    "SELECT g, k, VARIANCE(x) AS var FROM s {w} WHERE v % 2 = 0 GROUP BY g, k",
    "SELECT k, MAX(v) - MIN(v) AS span FROM s {w} GROUP BY k HAVING COUNT(*) > 1",
    "SELECT v % 3 AS r, SUM(v + 1) AS t FROM s {w} WHERE v IS NOT NULL GROUP BY v % 3",
    "SELECT k, SUM(v) / COUNT(*) AS mean FROM s {w} WHERE x < 50.5e0 GROUP BY k",
    "SELECT k, COUNT(*) AS n FROM s {w} GROUP BY k ORDER BY n DESC NULLS LAST, k ASC NULLS FIRST LIMIT 2",
]


def stream(
    delay: int = 0, closed_left: bool = False, offset: int = 0, late_revise: bool = False, keep: int | None = None
) -> Stream:
    return Stream(
        "s", SCHEMA, "ts", delay=delay, closed_left=closed_left, offset=offset, late_revise=late_revise, keep=keep
    )


def to_table(
    rows: Sequence[tuple[int | None, int | None, str | None, int | None, int | None, float | None]],
) -> pa.Table:
    """Rows as the stream's columns plus `_us`, the timestamp as a number."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return table.append_column("_us", table["ts"].cast(pa.int64()))


@dataclass(frozen=True)
class Registered:
    name: str
    text: str
    length: int
    slide: int
    lag: int = 0

    @property
    def ordered(self) -> bool:
        return "ORDER BY" in self.text


@st.composite
def query_sets(draw: st.DrawFn, most: int = 6) -> list[Registered]:
    """Up to `most` queries of any form, with windows, slides and lags of a few seconds.

    No two differ in nothing but SLIDE: the slower would be answered whenever the faster is (CS8).
    """
    queries, seen = [], set()
    for i in range(draw(st.integers(1, most))):
        length, slide = draw(st.integers(1, 12)), draw(st.integers(1, 8))
        lag = draw(st.sampled_from([0, 0, 0, 2, 5]))
        exactly = draw(st.sampled_from(["", "EXACTLY "]))
        clause = f"[WINDOW {length} sec SLIDE {exactly}{slide} sec{f' LAG {lag} sec' if lag else ''}]"
        form = draw(st.sampled_from(FORMS))
        if (form, length, lag) in seen:
            continue
        seen.add((form, length, lag))
        queries.append(Registered(f"q{i}", form.format(w=clause), length * SECOND, slide * SECOND, lag * SECOND))
    return queries


_VALUES = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, "a", "b", "äöü"]),
    st.one_of(st.none(), st.integers(-20, 60)),
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    st.one_of(st.none(), st.sampled_from([0.0, -1.5, 2.25, 50.25, 1e6])),
)


@st.composite
def batches(draw: st.DrawFn, disorder: int = 0, most: int = 60, start: int = START) -> list[pa.Table]:
    """Micro-batches of a stream in which no tuple is more than `disorder` microseconds behind the greatest before."""
    now = start + draw(st.integers(0, 5 * SECOND))
    stamps = []
    for _ in range(draw(st.integers(1, most))):
        # a tie, a step to an exact multiple, a small step, a gap
        step = draw(st.sampled_from([0, 0, 100_000, 700_000, SECOND, 1_300_000, 3 * SECOND, 40 * SECOND]))
        now += step
        if step == SECOND:
            now -= now % SECOND
        stamps.append(now - draw(st.integers(0, disorder)) if disorder else now)
    rows = [(stamp, *draw(_VALUES)) for stamp in stamps]
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    return [to_table(rows[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
