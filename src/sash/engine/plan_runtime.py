"""A running continuous plan: the epochs of its streams in, changes out, state committed by epoch.

    stream S, micro-batch e ──┐
    stream T, micro-batch f ──┴─► take: 1  taken already? skip: Spark replays what it is not sure about
                                        2  the least watermark of the streams says how far time goes
                                        3  Spark's job: buckets step from `low` to `high`, write their state
                                        4  hand the changes to the queries that have this plan
                                        5  append to the log: changes, manifests, what was taken from whom

A plan has a log of its own, beside those of its streams. A stream commits a micro-batch after its plans have taken it,
so a crash between the two replays the micro-batch and the plan skips it. A crash before 5 replays the epoch: its
changes may be seen again, state never counts them twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.core.changes import Changes
from sash.core.time import Micros
from sash.core.versions import RowVersions
from sash.engine.observed import Observed
from sash.engine.view import Passing, View
from sash.plan.continuous import Node, windows
from sash.plan.streams import is_stream, sampling_of
from sash.spark.buckets import BucketedPlan, Epoch
from sash.spark.leaves import Leaves
from sash.state import files
from sash.state.chunk import Chunk, tuples_of
from sash.storage.epochs import Entry, EpochLog, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Before all event times, and far enough from the least int64 for arithmetic.
BEGINNING: Micros = -(2**62)
_SIGN = "_sign"


@dataclass(frozen=True)
class Batch:
    """A micro-batch of a stream: its rows, about how many, and how far time has gone with it.

    `tuples` are those of the plans' windows, where they are here already.
    """

    rows: DataFrame
    number: int
    epoch: int
    latest: Micros | None
    watermark: Micros | None
    tuples: Mapping[PlanRuntime, pa.Table] = field(default_factory=dict)


@dataclass
class _Progress:
    """What a plan has taken of each stream, and how far its time has gone: what a commit writes."""

    low: Micros = BEGINNING
    number: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, Micros] = field(default_factory=dict)
    latest: dict[str, Micros] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    manifests: dict[str, files.Manifest] = field(default_factory=dict)
    late: int = 0
    # Of each stream's last micro-batch, how many tuples came too late: asked for again when it is replayed.
    missed: dict[str, int] = field(default_factory=dict)
    failed: str | None = None


@dataclass(frozen=True)
class Instants:
    """Which instants some changes are of, the last one included; `low` is None for rows that stand already."""

    low: Micros | None
    now: Micros


class PlanRuntime:
    """One plan with all the queries that have it. `deliver` gets the changes of each epoch, with its instants.

    `tables` gives what the plan's tables hold for the instants low <= t < high, which it is about to process.
    """

    def __init__(
        self,
        plan: Node,
        streams: list[Stream],
        bucketed: BucketedPlan,
        directory: Path,
        log: EpochLog | None,
        deliver: Callable[[Changes, Instants, bool], None],
        tables: Callable[[Micros, Micros], Mapping[str, RowVersions]],
    ) -> None:
        self.plan = plan
        self.streams = {stream.name.lower(): stream for stream in streams}
        self.view = Passing(plan.schema) if is_stream(plan) else View(plan.schema)
        self._sampling = sampling_of(plan)
        self._bucketed = bucketed
        self._directory = directory
        self._log = log
        self._deliver = deliver
        self._tables = tables
        self._progress = _Progress()
        self._lock = threading.RLock()
        self._windows = windows(plan)
        self.observed = Observed(self._windows, self.leaves.layout.places)

    @property
    def now(self) -> Micros:
        """The last instant that is in the answer."""
        return self._progress.low - 1

    @property
    def late(self) -> int:
        return self._progress.late

    def missed(self, stream: str) -> int:
        """How many tuples of a stream's last micro-batch came too late."""
        return 0 if self.failed is not None else self._progress.missed.get(stream.lower(), 0)

    @property
    def failed(self) -> str | None:
        return self._progress.failed

    @property
    def leaves(self) -> Leaves:
        return self._bucketed.leaves

    @property
    def buckets(self) -> int:
        return self.leaves.buckets

    def rows(self) -> tuple[Changes, Micros]:
        """The answer's rows, and the instant for which they stand."""
        with self._lock:
            return self.view.rows(self.now), self.now

    # -- time and tuples -------------------------------------------------------------------------------

    def take(self, stream: str, batch: Batch) -> None:
        """A stream's micro-batch. Tuples wait until the least watermark of all streams has passed them."""
        with self._lock:
            name = stream.lower()
            if not self.wants(name, batch.epoch):
                return
            after = self._moved(name, batch.latest, batch.watermark)
            after.taken[name] = batch.epoch
            tuples = batch.tuples.get(self)
            if tuples is None:
                tuples = self.leaves.of(batch.rows, self.streams[name])
            else:
                self.observed.take(name, tuples, batch.number)
            self._step(tuples, batch.number, after)

    def wants(self, stream: str, epoch: int) -> bool:
        """The plan goes on and has not taken this micro-batch of a stream yet."""
        return self._progress.failed is None and epoch > self._progress.taken.get(stream.lower(), -1)

    def advance(self, stream: str, watermark: Micros) -> None:
        """A heartbeat: no tuple of this stream with an earlier time is to come."""
        with self._lock:
            after = self._moved(stream.lower(), None, watermark)
            if self._progress.failed is None and self._reached(after) > self._progress.low:
                self._step(None, 0, after)

    def begin(self, stream: str) -> None:
        """A stream runs (again): its tuples are to be waited for."""
        with self._lock:
            self._progress.ended = [name for name in self._progress.ended if name != stream.lower()]

    def finish(self, stream: str) -> None:
        """A stream has ended, or is idle: it holds nobody back, and its own last instant is over."""
        with self._lock:
            name = stream.lower()
            after = self._moved(name, None, None)
            after.ended = sorted({*after.ended, name})
            if self._progress.failed is None and self._reached(after) > self._progress.low:
                self._step(None, 0, after)
            else:
                self._progress.ended = after.ended

    def _moved(self, name: str, latest: Micros | None, watermark: Micros | None) -> _Progress:
        p = self._progress
        after = _Progress(
            p.low, p.number + 1, dict(p.taken), dict(p.watermarks), dict(p.latest), list(p.ended), p.manifests, p.late,
            dict(p.missed),
        )  # fmt: skip
        for times, time in ((after.latest, latest), (after.watermarks, watermark)):
            if time is not None:
                times[name] = max(time, times.get(name, BEGINNING))
        if latest is not None and latest > p.latest.get(name, BEGINNING):
            after.ended = [other for other in after.ended if other != name]
        return after

    def _reached(self, progress: _Progress) -> Micros:
        """Up to where time may go: what the streams that go on have reached; else the end of all, or a heartbeat."""
        going = [name for name in self.streams if name not in progress.ended]
        if going:
            return max(progress.low, min(progress.watermarks.get(name, BEGINNING) for name in going))
        ends = [self._last_instant(latest) + 1 for latest in progress.latest.values()]
        return max([progress.low, *ends, *progress.watermarks.values()])

    def _last_instant(self, latest: Micros) -> Micros:
        """The end of all: the youngest tuple's instant, or the multiple that answers with it."""
        return latest if self._sampling is None else self._sampling.next_multiple(latest)

    def _step(self, tuples: DataFrame | pa.Table | None, number: int, after: _Progress) -> None:
        before = self._progress
        high = self._reached(after)
        late = tuple(
            max(before.low, before.watermarks.get(window.stream.lower(), BEGINNING)) for window in self._windows
        )
        manifests = {int(bucket): manifest for bucket, manifest in before.manifests.items()}
        tables = self._tables(before.low, high)
        epoch = Epoch(after.number, before.low, high, late)
        outcome = self._bucketed.step(tuples, number, epoch, manifests, tables)
        after.low = high
        self._count_late(outcome.late, after)
        after.manifests = {str(bucket): manifest for bucket, manifest in outcome.manifests.items()}
        self._deliver(outcome.changes, Instants(before.low, high - 1), False)
        self._commit(after, outcome.changes)
        self._remove_files(before, after)

    def _count_late(self, late: tuple[int, ...], after: _Progress) -> None:
        """Of a stream's tuples, by the window that misses the most: in a self-join several miss the same ones."""
        for name in self.streams:
            mine = [n for n, window in zip(late, self._windows, strict=True) if window.stream.lower() == name]
            if after.taken.get(name) != self._progress.taken.get(name):
                after.missed[name] = max(mine)
                after.late += max(mine)

    def fail(self, why: str) -> None:
        """The plan cannot go on: one of its own expressions raised."""
        with self._lock:
            after = self._moved("", None, None)
            after.failed = why
            self._commit(after, Changes.none(self.plan.schema))

    # -- commit and recovery ---------------------------------------------------------------------------

    def _commit(self, after: _Progress, changes: Changes) -> None:
        if self._log is not None:
            tables = {"changes": _written(changes)} if len(changes) else {}
            self._log.append(Entry("batch", after.number, 0, vars(after).copy(), tables))
        self._progress = after
        self.view.add(changes, self.now)
        if self._log is not None and self._log.wants_snapshot:
            rows = self.view.rows(self.now)
            self._log.compact(Snapshot(after.number, 0, vars(after).copy(), [_written(rows)]))

    def recover(self) -> None:
        """As the log has it. Changes since the last snapshot are remembered, not delivered again."""
        if self._log is None:
            return
        snapshot = self._log.snapshot()
        if snapshot is not None:
            self._progress = _Progress(**snapshot.state)
            rows = _read(snapshot.tables[0])
            self.view.add(rows, self.now)
            self._deliver(rows, Instants(None, self.now), True)
        for entry in self._log.entries():
            low, self._progress = self._progress.low, _Progress(**entry.facts)
            changes = _read(entry.tables["changes"]) if entry.tables else Changes.none(self.plan.schema)
            self.view.add(changes, self.now)
            self._deliver(changes, Instants(low, self.now), True)
        self._remove_files(None, self._progress)

    def _remove_files(self, before: _Progress | None, after: _Progress) -> None:
        """State files that no manifest names: of chunks that have expired, or left by a crash."""
        needed = {name for manifest in after.manifests.values() for name in files.files_of(manifest)}
        if before is None:
            gone = [path for path in self._directory.iterdir() if path.name not in needed]
        else:
            had = {name for manifest in before.manifests.values() for name in files.files_of(manifest)}
            gone = [self._directory / name for name in had - needed]
        for path in gone:
            path.unlink(missing_ok=True)


def _written(changes: Changes) -> pa.Table:
    return Chunk(changes).to_table().append_column(_SIGN, pa.array(changes.sign))


def _read(table: pa.Table) -> Changes:
    found = tuples_of(table.drop_columns([_SIGN]))
    return Changes(found.rows, found.ts, found.exp, np.asarray(table[_SIGN], dtype=np.int8), found.ids)
