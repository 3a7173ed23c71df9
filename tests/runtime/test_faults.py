"""A stream and a continuous plan under faults of their own writing: whatever happens, nothing is lost or counted twice.

A process dies before or after each write, sync, rename and removal, or finds its disk full from there on; the next one
goes on. What subscribers are told, and what is stored in the end, is that of a process which nothing happened to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sash.storage.epochs
from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.core.time import SECOND
from sash.runtime.periodic.stream_runtime import Progress
from tests.support.examples import examples
from tests.support.faults import DAMAGES, Death, FullDisk, survived
from tests.support.streams import START, stream, to_table
from tests.support.without_spark import Sparkless, Step, Told, World, story_told

DECLARED: Any = stream(delay=SECOND, keep=4 * SECOND)
QUERIES = {
    "totals": "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k",
    "rows": "SELECT g, COUNT(*) AS n, MAX(v) AS m FROM s [ROWS 7 SLIDE 3] GROUP BY g",
}
LATER = {"ever": "SELECT COUNT(*) AS n, MIN(v) AS m FROM s [UNBOUNDED SLIDE 2 sec]"}


def part(number: int) -> Any:
    rows: list[Any] = [
        (START + number * 2 * SECOND + i * 400_000, (i + number) % 3, "ab"[i % 2], i * number % 11, i, 0.5)
        for i in range(5)
    ]
    return to_table(rows)


STORY: list[Step] = [
    (QUERIES, [], part(0)),
    ({}, [], part(1)),
    (LATER, [], part(2)),
    ({}, ["totals"], part(3)),
    ({}, [], part(4)),
]


@pytest.fixture(scope="module", autouse=True)
def many_snapshots_and_no_syncs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 2)
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, list[Any], int]:
    """The answers and the files without any fault, and how many moments there are."""
    world = World(tmp_path_factory.mktemp("whole") / "c")
    with listening(counting := Death(at=-1)):
        story_told(DECLARED, STORY, world)
    assert {query for query, _ in world.told} == {*QUERIES, *LATER} and len(world.told) > 10 and world.kept
    return world.told, world.kept, counting.moments


def check(expected: tuple[Told, list[Any], int], directory: Path, *faults: Any) -> None:
    world = story_told(DECLARED, STORY, World(directory / "c"), *faults)
    assert world.told == expected[0]
    assert world.kept == expected[1]


def check_moments(expected: tuple[Told, list[Any], int], directory: Path, step: int) -> None:
    for at in range(1, expected[2] + 1, step):
        for name, fault in {"dead": Death(at), "torn": Death(at, half=True), "full": FullDisk(at)}.items():
            check(expected, directory / f"{at}-{name}", survived(fault))


def test_faults_at_some_moments(expected: tuple[Told, list[Any], int], tmp_path: Path) -> None:
    check_moments(expected, tmp_path, step=71)


@pytest.mark.deep
def test_faults_at_every_moment(expected: tuple[Told, list[Any], int], tmp_path: Path) -> None:
    check_moments(expected, tmp_path, step=1)


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moments=st.lists(st.tuples(st.integers(1, 120), st.booleans()), min_size=2, max_size=4))
def test_one_fault_after_the_other(
    expected: tuple[Told, list[Any], int],
    tmp_path_factory: pytest.TempPathFactory,
    moments: list[tuple[int, bool]],
) -> None:
    faults = [survived(FullDisk(at) if full else Death(at, half=at % 2 == 0)) for at, full in moments]
    check(expected, tmp_path_factory.mktemp("faults"), *faults)


# -- damaged files -----------------------------------------------------------------------------------------


def interrupted(directory: Path, batches: int) -> World:
    """A process that ended after some micro-batches, as SIGTERM ends it: everything is committed."""
    world = World(directory / "c")
    process = Sparkless(DECLARED, world)
    process.run(STORY[:batches], ends=False)
    process.vanish()
    return world


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_snapshot_is_gone_back_behind(
    expected: tuple[Told, list[Any], int],
    tmp_path: Path,
    damage: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for batches in (2, 3, 4):
        world = interrupted(tmp_path / str(batches), batches)
        for path in sorted(world.checkpoint.rglob("snapshot-*"))[-1:]:
            damage(path)
            with caplog.at_level(logging.WARNING):
                story_told(DECLARED, STORY, world)
            assert f"{path.name} is damaged" in caplog.text and "recovery goes back to" in caplog.text
            assert world.told == expected[0] and world.kept == expected[1]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_whatever_else_is_damaged_is_refused_by_its_name(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    world = interrupted(tmp_path, 3)
    files = sorted(path for path in world.checkpoint.rglob("*") if path.is_file() and path.name != "owner.lock")
    refused = set()
    for path in files:
        if damage is Path.unlink and path.name == "sash.json":
            # Then it is no checkpoint at all.
            continue
        kept = path.read_bytes()
        damage(path)
        said = attempted(world)
        if said is not None:
            assert path.name in said and "damaged" in said, (path, said)
            refused.add(path.name.split("-")[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(kept)
    # Snapshots have something behind them; and what is behind is asked for by nobody else.
    noticed = {"manifest.json", "entry", "catalog.jsonl"}
    assert refused == (noticed if damage is Path.unlink else {*noticed, "sash.json", "intent.json"})
    assert attempted(world) is None


def attempted(world: World) -> str | None:
    try:
        Sparkless(DECLARED, World(world.checkpoint)).vanish()
    except CheckpointError as error:
        return str(error)
    return None


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_torn_last_micro_batch_is_brought_again_by_spark(
    expected: tuple[Told, list[Any], int], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """As long as Spark has not noted that it is done."""
    world = interrupted(tmp_path, 3)
    damage(sorted(world.checkpoint.rglob("entry-*-batch.arrow"))[-1])
    said = attempted(world)
    assert said is not None and "entry-" in said
    (log,) = (world.checkpoint / "streams").iterdir()
    offsets = world.checkpoint / "spark" / log.name / "offsets"
    offsets.mkdir(parents=True)
    for epoch in range(3):
        (offsets / str(epoch)).touch()
    story_told(DECLARED, STORY, world)
    assert world.told == expected[0] and world.kept == expected[1]


class Failures(World):
    """Notes which queries have failed, and why."""

    def __init__(self, checkpoint: Path) -> None:
        super().__init__(checkpoint)
        self.failed: dict[str, str] = {}

    def take(self, progress: Progress, delivered: bool) -> None:
        self.failed |= progress.outcome.failed


def test_a_query_that_fails_after_a_snapshot_was_running_at_the_snapshot(tmp_path: Path) -> None:
    """A restart loads the panes that the query had then, and lets it fail again."""
    bad = "SELECT 1 / (COUNT(*) - 11) AS x FROM s [UNBOUNDED SLIDE 2 sec] WHERE v >= 0"
    story = [({**QUERIES, "bad": bad}, [], part(0)), *STORY[1:3]]
    for _ in range(2):
        world = Failures(tmp_path / "c")
        process = Sparkless(DECLARED, world)
        process.run(story, ends=False)
        process.vanish()
        assert list(world.failed) == ["bad"] and "division by zero" in world.failed["bad"]
    assert any(world.checkpoint.rglob("snapshot-*"))


def test_a_log_without_sparks_part_and_the_other_way_round(tmp_path: Path) -> None:
    world = interrupted(tmp_path, 2)
    (log,) = (world.checkpoint / "streams").iterdir()
    commits = world.checkpoint / "spark" / log.name / "commits"
    commits.mkdir(parents=True)
    (commits / "1").touch()
    for path in log.iterdir():
        path.unlink()
    said = attempted(world)
    assert said is not None and "the checkpoint lacks" in said and log.name in said
