"""Closed in the middle and opened again with the checkpoint: every kind of window answers as if nothing had been.

What is expected is the same story told to the engine without Spark and without a break (`tests/support/feed.py`); for
estimates, that of their exact twins, which they equal as long as windows have few values.
"""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
import sash.storage.epochs
from sash.core.clock import ManualClock
from sash.core.time import SECOND, to_micros
from tests.runtime.test_streaming_oracle import declare, write
from tests.support.feed import Feed, compiled
from tests.support.oracle import same_rows
from tests.support.streams import START, stream, to_table

pytestmark = pytest.mark.spark

DELAY = 2 * SECOND
FILES, PER_FILE = 8, 36
SEVERAL = (
    "SELECT k, a.d, COALESCE(b.m, -1) AS m "
    "FROM (SELECT k, COUNT(DISTINCT v) AS d FROM s [WINDOW 12 sec SLIDE 2 sec] GROUP BY k) a "
    "LEFT JOIN (SELECT k, MEDIAN(v) AS m FROM s [WINDOW 4 sec SLIDE 2 sec LAG 2 sec] GROUP BY k) b USING (k)"
)
# (query, its exact twin if it is an estimate, the synopsis that it insists on)
QUERIES: dict[str, tuple[str, str | None, str | None]] = {
    "rows": ("SELECT k, SUM(v) AS t, COUNT(DISTINCT g) AS d FROM s [ROWS 25 SLIDE 10] GROUP BY k", None, None),
    "lagging": ("SELECT TOP(2, v, SUM(w)) FROM s [ROWS 20 SLIDE 5 LAG 15] WHERE v > 3", None, None),
    "last": ("SELECT k, MAX(v) AS m, MIN(g) AS g FROM s [PARTITION BY k ROWS 3 SLIDE 8] GROUP BY k", None, None),
    "ever": (
        "SELECT k, COUNT(*) AS n, AVG(x) AS a, STDDEV(v) AS d FROM s [UNBOUNDED SLIDE 4 sec] GROUP BY k",
        None,
        None,
    ),
    "values": ("SELECT COUNT(DISTINCT v) AS d, MODE(v) AS m FROM s [UNBOUNDED SLIDE 4 sec LAG 2 sec]", None, None),
    "before": ("SELECT SUM(w) AS t, MAX(g) AS m FROM s [WINDOW 6 sec SLIDE 2 sec LAG 8 sec]", None, None),
    "top": ("SELECT k, TOP(2, g) FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k", None, None),
    "frequent": ("SELECT FREQUENT(9, v) FROM s [WINDOW 12 sec SLIDE 4 sec] WITH BOUNDS", None, None),
    "frequent_lists": ("SELECT FREQUENT(2, g) FROM s [WINDOW 12 sec SLIDE 4 sec] WITH BOUNDS", None, None),
    "frequent_by": ("SELECT k, FREQUENT(2, g) FROM s [WINDOW 12 sec SLIDE 4 sec] WHERE v > 3 GROUP BY k", None, None),
    "frequent_rows": ("SELECT FREQUENT(9, v) FROM s [ROWS 40 SLIDE 10]", None, None),
    "running": ("SELECT k, SUM(w) AS t, COUNT(v) AS n FROM s [WINDOW 20 sec SLIDE 1 sec] GROUP BY k", None, "running"),
    "interval": (
        "SELECT k, MIN(v) AS lo, MAX(v) AS hi FROM s [WINDOW 16 sec SLIDE 2 sec] GROUP BY k",
        None,
        "interval",
    ),
    "landmark": ("SELECT SUM(v) AS t FROM s [ROWS 30 SLIDE 5]", None, "landmark"),
    "several": (SEVERAL, None, None),
    "hll": (
        "SELECT k, APPROX_COUNT_DISTINCT(v) AS d FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k",
        "SELECT k, COUNT(DISTINCT v) AS d FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k",
        None,
    ),
    "kll": (
        "SELECT APPROX_QUANTILE(v, 0.3) AS q FROM s [ROWS 60 SLIDE 20]",
        "SELECT CAST(QUANTILE(v, 0.3) AS DOUBLE) AS q FROM s [ROWS 60 SLIDE 20]",
        None,
    ),
    "items": (
        "SELECT APPROX_TOP(2, v) FROM s [UNBOUNDED SLIDE 4 sec]",
        "SELECT TOP(2, v) FROM s [UNBOUNDED SLIDE 4 sec]",
        None,
    ),
    "point": ("SELECT k, COUNT_MIN(v, 7) AS n FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k", None, None),
}
# What goes and what comes when the session is opened for the second time.
GOING = ("rows", "top")
LATER = {
    "rows": "SELECT g, COUNT(*) AS n, MEDIAN(v) AS m FROM s [ROWS 15 SLIDE 5] GROUP BY g",
    "others": "SELECT SUM(v) AS t FROM s [ROWS 12 SLIDE 4]",
}
BREAKS, SNAPSHOT_EVERY = (3, 7), 4


def files() -> list[pa.Table]:
    """3.6 seconds a file, a second out of order at most, with ties."""
    chance = random.Random(11)
    parts = []
    for part in range(FILES):
        stamps = [
            START + (part * PER_FILE + i) * SECOND // 10 - chance.randrange(3) * SECOND // 3 for i in range(PER_FILE)
        ]
        parts.append(
            to_table(
                [
                    (
                        stamp,
                        chance.choice([1, 2, 3, None]),
                        chance.choice(["a", "b", "ü", None]),
                        chance.choice([*range(12), None]),
                        chance.randrange(-(2**40), 2**40),
                        chance.randrange(100) / 4,
                    )
                    for stamp in stamps
                ]
            )
        )
    return parts


Told = dict[str, list[tuple[Any, bool, bool, list[dict[str, Any]]]]]


def note(told: Told, title: str, answer: sash.Answer) -> None:
    told.setdefault(title, []).append((answer.as_of, answer.complete, answer.scheduled, answer.table.to_pylist()))


def expected(parts: list[pa.Table]) -> Told:
    """The story without Spark and without a break. The later query of a name is told under another one."""
    declared: Any = stream(delay=DELAY)
    told: Told = {}
    first = [q for name, (text, twin, kind) in QUERIES.items() for q in compiled({name: twin or text}, declared, kind)]
    second = compiled({f"later {name}": text for name, text in LATER.items()}, declared)
    feed = Feed(declared)
    for number, part in enumerate(parts):
        stay = [query for query in first if query.name not in GOING]
        feed.runtime.synchronise(first if number < BREAKS[0] else [*stay, *second])
        for answer in feed.push(part):
            note(told, answer.query, answer)
    for answer in feed.finish():
        note(told, answer.query, answer)
    return told


def hide(data: Path, kept: int) -> list[Path]:
    """Put the files after the first ones aside; those that are to come, in order."""
    aside = data.parent / "aside"
    aside.mkdir()
    return [path.rename(aside / path.name) for path in sorted(data.iterdir())[kept:]]


def read_live(session: sash.Session, tuples: int) -> None:
    """Read so many tuples in all and stop: what waits for the watermark goes on waiting."""
    session.start(trigger="0 seconds")
    while session.streams["s"].runtime.statistics.tuples < tuples:
        assert not session.wait(0.05)
    session.stop()


def change(session: sash.Session) -> None:
    """A row-based query and another one go, one of the same name and another row-based one come."""
    for name in GOING:
        session.queries[name].drop()
    for name, text in LATER.items():
        session.register(text, name)


def test_closed_twice_in_the_middle(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First with entries of the log alone, then with a snapshot before them; tuples wait each time."""
    assert BREAKS[0] < SNAPSHOT_EVERY < BREAKS[1] < 2 * SNAPSHOT_EVERY
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", SNAPSHOT_EVERY)
    parts, told = files(), dict[str, Any]()
    write(parts, tmp_path / "data")
    to_come = hide(tmp_path / "data", 0)
    for begin, end in pairwise((0, *BREAKS, FILES)):
        for path in to_come[begin:end]:
            path.rename(tmp_path / "data" / path.name)
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", clock=ManualClock()) as session:
            declare(session, tmp_path / "data", DELAY)
            if begin == 0:
                for name, (text, _, kind) in QUERIES.items():
                    session.register(text, name, synopsis=kind)
            if begin == BREAKS[0]:
                change(session)
            for name, query in session.queries.items():
                title = f"later {name}" if begin and name in LATER else name
                query.subscribe(partial(note, told, title))
            if end == FILES:
                session.run()
            else:
                read_live(session, end * PER_FILE)
                waiting = session.streams["s"].panes.passes.pending
                assert waiting is not None and len(waiting)
            assert all(query.error is None for query in session.queries.values())
            assert session.stats()["late_tuples"] == 0
    check_same(told, expected(parts))


def check_same(ours: Told, theirs: Told) -> None:
    assert ours.keys() == theirs.keys()
    for name, answers in theirs.items():
        mine, others = ours[name], answers
        if name in QUERIES and QUERIES[name][1]:
            # A twin's panes may be longer: so may be what counts as the beginning of the data, and the last pane.
            assert len(others) - len(mine) in (0, 1), name
            mine, others = [[(a[0], True, *a[2:]) for a in each[: len(mine)]] for each in (mine, others)]
        assert [answer[:3] for answer in mine] == [answer[:3] for answer in others], name
        for one, other in zip(mine, others, strict=True):
            assert same_rows(one[3], other[3]), (name, one, other)
        assert len(mine) >= 3


def test_estimates_of_many_values_stay_within_their_bounds(spark: Any, tmp_path: Path) -> None:
    """Full sketches are written, read and merged on. KLL tosses coins, so its bounds are what holds."""
    values = [[(part * 7919 + i * 31) % 3_000 for i in range(600)] for part in range(4)]
    parts = [
        to_table(
            [(START + (part * 600 + i) * SECOND // 300, 1, None, v, None, None) for i, v in enumerate(values[part])]
        )
        for part in range(4)
    ]
    write(parts, tmp_path / "data")
    to_come = hide(tmp_path / "data", 2)
    estimates = "APPROX_QUANTILE(v, 0.5) AS q, APPROX_COUNT_DISTINCT(v) AS d"
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
        declare(session, tmp_path / "data", 0)
        session.register(f"SELECT {estimates} FROM s [UNBOUNDED SLIDE 2 sec] WITH BOUNDS", "q")
        read_live(session, 1_200)
    for path in to_come:
        path.rename(tmp_path / "data" / path.name)
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
        declare(session, tmp_path / "data", 0)
        session.run()
        answer = session.queries["q"].latest()
    assert answer is not None and answer.complete
    (row,) = answer.table.to_pylist()
    whole = pa.concat_tables(parts)
    seen = sorted(whole.filter(pc.field("_us") <= to_micros(answer.as_of))["v"].to_pylist())
    assert len(seen) > 2_000
    assert row["d_lower"] <= len(set(seen)) <= row["d_upper"]
    # Three times the error that holds in 99 of 100 cases.
    assert seen[int(0.46 * len(seen))] <= row["q"] <= seen[int(0.54 * len(seen))]
    assert row["q_lower"] <= row["q"] <= row["q_upper"]
