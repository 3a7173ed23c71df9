"""A continuous join under faults of its own writing: state files, changes, manifests. Without Spark, in two buckets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash.storage.epochs
from sash.catalog import KeptForm, RegisteredQuery, Stream
from sash.changes import bucket_state
from sash.core.changes import Changes
from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.core.time import to_datetime
from sash.core.window import TimeWindow
from sash.plan.continuous import Join
from sash.runtime.answers.kept_result import KeptResult, KeptResults
from sash.runtime.continuous.plan_runtime import EpochInstants, PlanParts, PlanRuntime
from sash.runtime.spark_pass import Batch, BatchTimes
from sash.spark.buckets import BucketedPlan
from sash.storage.epochs import EpochLog
from tests.support.faults import DAMAGES, Death, FullDisk, survived
from tests.support.plans import INT, window

PLAN = Join(window("S", TimeWindow(7)), window("T", TimeWindow(5)), (("S.a", "T.a"),))
STREAMS = [Stream(name, pa.schema([("a", INT), ("b", INT)]), "b") for name in "ST"]
BUCKETS, EPOCHS = 2, 7
Told = dict[tuple[int | None, int], list[Any]]
# What was told, the view in the end, how many moments there were, and the stored rows.
Expected = tuple[Told, list[Any], int, list[Any]]


def tuples(epoch: int) -> pa.Table:
    """Four tuples of each window, one per instant."""
    times = [1 + epoch * 4 + i for i in range(4) for _ in "ST"]
    keys = [(epoch + i) % 3 for i in range(4) for _ in "ST"]
    leaves = [0, 1] * 4
    columns = {"_leaf": pa.array(leaves, pa.int32()), "_t": pa.array(times, INT), "_arrival": pa.array(range(8), INT)}
    columns |= {"_bucket": pa.array([key % BUCKETS for key in keys], pa.int32())}
    return pa.table({**columns, "s0": pa.array(keys, INT), "s1": pa.array(times, INT)})


class Reader:
    """Checks that an answer that comes twice is the same, and stores the rows of the last nine instants."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self.outward, self.outlets, self.subscribers = self, list[Any](), [self.tell]
        self.memory, self.answers, self.answered = SimpleNamespace(add=lambda told: None), list[Any](), 0
        self.kept_result = KeptResult(
            RegisteredQuery("q", "", "S", serial=1, keep=9, kept_form=KeptForm.RELATION), 1_000
        )

    @property
    def lifetime(self) -> int | None:
        return None

    def take(self, changes: Changes, instants: EpochInstants) -> list[Any]:
        key, table = (instants.low, instants.now), changes.to_table()
        return [(self, SimpleNamespace(key=key, as_of=to_datetime(instants.now), table=table))] if len(changes) else []

    def answer(self, as_of: int, table: pa.Table, *, complete: bool) -> list[Any]:
        raise AssertionError("a join tells changes")

    def tell(self, answer: Any) -> None:
        rows = answer.table.to_pylist()
        assert self._told.setdefault(answer.key, rows) == rows

    def fail(self, why: str, *, reported: bool) -> None:
        raise AssertionError(why)

    def end(self) -> None:
        raise AssertionError("it lives until it is dropped")


class Mortal(Reader):
    """Lives for nine instants; its end cannot be written."""

    @property
    def lifetime(self) -> int | None:
        return 9

    def end(self) -> None:
        raise OSError("the catalog is full")


def opened(directory: Path, told: Told, kind: type[Reader] = Reader) -> tuple[PlanRuntime, Reader]:
    """As another process would: nothing is remembered of the files."""
    state = directory / "state"
    bucket_state.forget(state)
    state.mkdir(parents=True, exist_ok=True)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=BUCKETS))
    bucketed = BucketedPlan(PLAN, session, state, BUCKETS, durable=True)
    reader: Any = kind(told)
    results = KeptResults({"q": reader}, lambda query: True)
    runtime = PlanRuntime(PLAN, PlanParts(STREAMS, bucketed, state, EpochLog(directory / "log"), results=results))
    runtime.join(1, reader)
    runtime.load()
    return runtime, reader


def run(
    directory: Path, told: Told, epochs: int = EPOCHS, kind: type[Reader] = Reader, stored: list[Any] | None = None
) -> PlanRuntime:
    """Spark brings every micro-batch, in doubt again; the plan knows which ones it has taken.

    `stored` gets the rows that KEEP has in the end.
    """
    runtime, reader = opened(directory, told, kind)
    for epoch in range(epochs):
        table, rows = tuples(epoch), SimpleNamespace()
        for leaf, name in enumerate("ST"):
            mine = table.filter(pa.array(np.asarray(table["_leaf"]) == leaf))
            times = np.asarray(mine["_t"])
            seen = BatchTimes(int(times.max()), int(times.min()), None)
            frame: Any = rows
            runtime.take(Batch(name, frame, len(mine), epoch, seen, int(times.max()), {runtime.leaves: mine}))
    if stored is not None:
        stored += sorted(reader.kept_result.rows(runtime.now).rows.to_pylist(), key=repr)
    return runtime


@pytest.fixture(scope="module", autouse=True)
def many_snapshots() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 3)
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    told, stored = dict[Any, Any](), list[Any]()
    with listening(counting := Death(at=-1)):
        runtime = run(tmp_path_factory.mktemp("whole"), told, stored=stored)
    view = runtime.rows()[0].to_table().to_pylist()
    assert len(told) >= EPOCHS and view
    assert {"make", "write", "sync", "rename", "remove"} == {moment.split()[1] for moment in counting.seen}
    assert any(moment.startswith("after rename 0000") for moment in counting.seen), "state files"
    assert len(stored) > len(view), "some rows have left"
    return told, view, counting.moments, stored


def check_moments(expected: Expected, directory: Path, step: int) -> None:
    told, view, moments, stored = expected
    for at in range(1, moments + 1, step):
        for name, fault in {"dead": Death(at), "torn": Death(at, half=True), "full": FullDisk(at)}.items():
            mine, kept = dict[Any, Any](), list[Any]()
            place = directory / f"{at}-{name}"
            with survived(fault):
                run(place, mine)
            runtime = run(place, mine, stored=kept)
            assert (mine, kept) == (told, stored), (at, name)
            assert runtime.rows()[0].to_table().to_pylist() == view
            left = {path.name for path in (place / "state").iterdir()}
            needed = {file for each in runtime.manifests.values() for file in bucket_state.files_of(each)}
            assert left == needed, "no file is left over, none is missing"


def test_faults_at_some_moments(expected: Expected, tmp_path: Path) -> None:
    check_moments(expected, tmp_path, step=41)


def test_an_end_that_breaks_off_comes_with_the_next_epoch(expected: Expected, tmp_path: Path) -> None:
    """The query has its changes up to its end, and no more, however often the plan goes on."""
    told: Told = {}
    for _ in range(4):
        with pytest.raises(OSError, match="the catalog is full"):
            run(tmp_path, told, kind=Mortal)
    whole = [row for rows in expected[0].values() for row in rows]
    # The first tuple comes at 1, so the life begins at 0.
    living = [row for row in whole if row["_ts"].timestamp() <= 9 / 1_000_000]
    assert [row for rows in told.values() for row in rows] == living and 0 < len(living) < len(whole)


@pytest.mark.deep
def test_faults_at_every_moment(expected: Expected, tmp_path: Path) -> None:
    check_moments(expected, tmp_path, step=1)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_snapshot_is_gone_back_behind(
    expected: Expected, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    told, stored = dict[Any, Any](), list[Any]()
    run(tmp_path, told, EPOCHS - 1)
    path = sorted((tmp_path / "log").glob("snapshot-*"))[-1]
    DAMAGES[damage](path)
    runtime = run(tmp_path, told, stored=stored)
    assert f"{path.name} is damaged" in caplog.text
    assert told == expected[0] and stored == expected[3] and runtime.rows()[0].to_table().to_pylist() == expected[1]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_file_is_refused_by_its_name(tmp_path: Path, damage: str) -> None:
    """Every live chunk; nobody reads expired chunks in a file."""
    manifests = run(tmp_path, {}, EPOCHS - 1).manifests.values()
    places = [place for manifest in manifests for chunks in manifest["buffers"].values() for place in chunks]
    assert len(places) > 3
    for name, offset, length, *_ in places:
        path = tmp_path / "state" / name
        kept = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(kept[: offset + length - 1])
        elif damage == "flipped":
            middle = offset + length // 2
            path.write_bytes(kept[:middle] + bytes([kept[middle] ^ 1]) + kept[middle + 1 :])
        else:
            DAMAGES[damage](path)
        with pytest.raises(CheckpointError, match=rf"{name} (is damaged|cannot be read)"):
            run(tmp_path, {})
        path.write_bytes(kept)
    told: Told = {}
    run(tmp_path, told)
    assert told


def test_state_that_executors_have_written_elsewhere_is_not_committed(
    expected: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster whose executors do not see the directory; once they do, the plan goes on."""
    told, view, _, _ = expected
    mine: Told = {}
    step = BucketedPlan.step

    def elsewhere(plan: BucketedPlan, *arguments: Any, **named: Any) -> Any:
        outcome = step(plan, *arguments, **named)
        for path in (tmp_path / "state").iterdir():
            path.unlink()
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(BucketedPlan, "step", elsewhere)
        for _ in range(2):
            with pytest.raises(CheckpointError, match=r"over 'S' and 'T' to files that are not here: connect with"):
                run(tmp_path, mine)
    runtime = run(tmp_path, mine)
    assert mine == told and runtime.rows()[0].to_table().to_pylist() == view
