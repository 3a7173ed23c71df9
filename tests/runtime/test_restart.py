"""Restarting between micro-batches, with queries that come, go and fail: nothing differs from an uninterrupted run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import sash
import sash.storage.epochs
from sash.core.clock import ManualClock
from sash.core.errors import CheckpointError
from tests.runtime.test_session import create, write
from tests.support import checkpoints
from tests.support.oracle import same_rows

pytestmark = pytest.mark.spark

# What happens before each micro-batch: queries registered, queries dropped.
STORY: list[tuple[dict[str, str], list[str]]] = [
    (
        {
            "a": "SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k",
            "b": "SELECT COUNT(*) AS n, MAX(v) AS m FROM s [WINDOW 4 sec SLIDE 2 sec]",
            "c": "SELECT k, AVG(v) AS m, STDDEV(v) AS d FROM s [WINDOW 10 sec SLIDE 4 sec] WHERE v > 3 GROUP BY k",
        },
        [],
    ),
    ({"bad": "SELECT SUM(10 / (v - 7)) AS t FROM s [WINDOW 4 sec SLIDE 2 sec]"}, []),
    ({"fine": "SELECT k, MIN(v) AS m FROM s [WINDOW 3 sec SLIDE 1 sec] GROUP BY k"}, ["a"]),
    ({}, []),
    ({"a": "SELECT v % 2 AS odd, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY v % 2"}, ["fine"]),
    ({"short": "SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] LIFETIME 6 sec"}, []),
    ({}, ["b"]),
    ({"b": "SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] WHERE k = 1"}, []),
]


@contextmanager
def opened(spark: Any, data: Path, checkpoint: Path | None) -> Iterator[sash.Session]:
    with sash.connect(spark=spark, checkpoint=checkpoint, clock=ManualClock()) as session:
        create(session, data, "DELAY 1 sec")
        yield session


def tell(session: sash.Session, data: Path, step: int, seen: list[sash.Answer]) -> None:
    """One micro-batch of the story."""
    come, go = STORY[step]
    for name in go:
        session.queries[name].drop()
    for name, text in come.items():
        session.sql(f"REGISTER QUERY {name} AS {text}")
    for query in session.queries.values():
        if seen.append not in query.outward.subscribers:
            query.subscribe(seen.append)
    rows: list[tuple[float | None, int, int]] = [(step * 4 + i / 4 + 0.1, i % 3, (i + step) % 9) for i in range(16)]
    write(data, step, rows)
    session.start(trigger="0 seconds")
    while session.streams["s"].runtime.statistics.tuples < 16 * (step + 1):
        assert not session.wait(0.05)
    session.stop()


def by_time(answers: list[sash.Answer]) -> dict[tuple[str, Any], tuple[bool, bool, list[dict[str, Any]]]]:
    return {(a.query, a.as_of): (a.complete, a.scheduled, a.table.to_pylist()) for a in answers}


def test_restart_before_every_micro_batch(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 3)
    whole: list[sash.Answer] = []
    write(tmp_path / "whole", -1, [])
    with opened(spark, tmp_path / "whole", tmp_path / "c-whole") as session:
        for step in range(len(STORY)):
            tell(session, tmp_path / "whole", step, whole)
        failure = str(session.queries["bad"].error)
    pieces: list[sash.Answer] = []
    write(tmp_path / "pieces", -1, [])
    for step in range(len(STORY)):
        with opened(spark, tmp_path / "pieces", tmp_path / "c-pieces") as session:
            tell(session, tmp_path / "pieces", step, pieces)
            if step == len(STORY) - 1:
                assert str(session.queries["bad"].error) == failure
                assert set(session.queries) == {"a", "b", "bad", "c"}
    ours, theirs = by_time(pieces), by_time(whole)
    assert ours.keys() == theirs.keys()
    assert len(ours) == len(pieces) > 30
    for key, (complete, scheduled, rows) in theirs.items():
        assert ours[key][:2] == (complete, scheduled), key
        assert same_rows(ours[key][2], rows), key


@pytest.mark.parametrize("lost", ["", "offsets"], ids=["all of it", "its offsets"])
def test_without_sparks_part_of_the_checkpoint_nothing_is_read(spark: Any, tmp_path: Path, lost: str) -> None:
    """Without its offsets Spark would begin anew, and Sash would skip its micro-batches. With them, all goes on."""
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    write(data, 0, [(0.5, 1, 1)])
    with opened(spark, data, checkpoint) as session:
        session.sql("REGISTER QUERY q AS SELECT COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 1 sec]")
        session.run()
    (place,) = (checkpoint / "spark").iterdir()
    (place / lost).rename(tmp_path / "lost")
    write(data, 1, [(4.5, 1, 1)])
    with opened(spark, data, checkpoint) as session:
        for start in (session.run, session.start):
            with pytest.raises(CheckpointError, match=rf"the checkpoint lacks .*{place.name}, which says how far"):
                start()
        assert session.stats()["tuples"] == 1 and not (place / lost).exists()
    (tmp_path / "lost").rename(place / lost)
    with opened(spark, data, checkpoint) as session:
        session.run()
        assert session.queries["q"].answers()[-1].table.to_pylist() == [{"n": 2}]


@pytest.mark.parametrize("name", checkpoints.SNAPSHOTS)
def test_a_packed_checkpoint_goes_on_as_with_the_version_that_wrote_it(spark: Any, tmp_path: Path, name: str) -> None:
    """Periodic queries, plans, groups of joins, set operations, stored rows, archives, tables, answers that wait."""
    expected = checkpoints.unpacked(name, tmp_path, spark)
    found = json.loads(json.dumps(checkpoints.told_second(tmp_path, spark)))
    assert found.keys() == expected.keys()
    for part in expected:
        assert found[part] == expected[part], part
