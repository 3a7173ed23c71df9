"""A running join whose windows are those of its longest query; the shorter ones get pairs that end earlier (SS5).

    S [longest] ─┐
    T [longest] ─┴─► join ─► pairs ──┬──► q1, the longest: all pairs
                     one state       └──► q2, shorter: the pairs that live in its windows

Until the first epoch every query over this join may come, and the windows grow with it. From then on a query comes if
its windows are not longer. When the longest query has left, the stored tuples are cut down to the windows of the
others: an entry of the log of its own, between two epochs.

An entry names the lengths of the windows, and whether rows carry expiries (`PlanProgress.windows`, `expiries`). Whether
they do is decided with the first epoch: if the windows of a query are not shorter by one length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.catalog import StoredIndex
from sash.changes import bucket_state
from sash.changes.bucket_state import Manifest, State
from sash.changes.buffers import Chunk
from sash.core.changes import NEVER, Changes
from sash.core.errors import SashError
from sash.core.time import Micros
from sash.plan.continuous import windows
from sash.plan.nested_joins import EXPIRIES, Lengths, is_even, longest, with_expiries, with_lengths
from sash.plan.reach import reaches
from sash.runtime.answers.change_view import ChangeView
from sash.runtime.answers.registered_query import Delivery
from sash.runtime.continuous.plan_runtime import (
    Admission,
    ChangeListener,
    ContinuousQuery,
    EpochInstants,
    PlanParts,
    PlanRuntime,
)
from sash.runtime.records.journal import PlanEntry, PlanProgress, PlanSnapshot
from sash.sharing.rules import Decision, shares_longer_windows
from sash.spark.leaves import Leaves
from sash.storage.files import sync_directory

if TYPE_CHECKING:
    from sash.runtime.continuous.plans import PlanDirectories

_ONE_PLAN = "a join of two windows has one plan"


@dataclass(frozen=True, kw_only=True)
class NestedJoinQuery(ContinuousQuery):
    """The kind of the route NESTED_JOINS."""

    prefix: ClassVar[str] = "nested-"
    is_admitted: ClassVar[bool] = True

    @cached_property
    def lengths(self) -> Lengths:
        first, second = windows(self.plan)
        return first.window.length, second.window.length

    @property
    def why_fixed(self) -> str:
        return _ONE_PLAN

    @property
    def identity(self) -> str:
        """The same for other lengths of the windows."""
        return f"{self.execution} {with_lengths(self.plan, (0, 0))!r}"

    def _new_runtime(self, directories: PlanDirectories) -> NestedJoinRuntime:
        return NestedJoinRuntime(self, directories.parts(self.plan, self.state, self.execution), directories)

    def join(self, runtime: PlanRuntime, reader: ChangeListener) -> None:
        assert isinstance(runtime, NestedJoinRuntime)
        runtime.join_as(self, reader)


class NestedJoinRuntime(PlanRuntime):
    """`founder` is the first query. Its directory has the buckets of the plan, whatever the lengths of the windows."""

    def __init__(self, founder: NestedJoinQuery, parts: PlanParts, directories: PlanDirectories) -> None:
        self._leaves = parts.bucketed.leaves
        super().__init__(founder.plan, parts)
        self._founder, self._directories = founder, directories
        self._lengths, self._has_expiries = founder.lengths, False
        self._members: dict[int, NestedJoinQuery] = {}
        # Queries with longer windows cannot come any more; None while they can.
        self._bound: Lengths | None = None

    @property
    def leaves(self) -> Leaves:
        """Windows of all lengths take the same tuples, also of a scan that was made before the lengths changed."""
        return self._leaves

    @property
    def why_fixed(self) -> str:
        return _ONE_PLAN

    # -- queries come and go ---------------------------------------------------------------------------

    def admission(self, query: ContinuousQuery) -> Admission:
        assert isinstance(query, NestedJoinQuery)
        if self.failed is not None:
            rule = Decision("SS5", False, "their join has failed")
        else:
            rule = shares_longer_windows(self._bound, query.lengths, has_expiries=self._has_expiries)
        return Admission(rule.allowed, rule=rule)

    def admit(self, query: ContinuousQuery) -> PlanRuntime | None:
        assert isinstance(query, NestedJoinQuery)
        with self._state:
            admitted = super().admit(query)
            if admitted is not None:
                self._members[query.serial] = query
            return admitted

    def join_as(self, query: NestedJoinQuery, reader: ChangeListener) -> None:
        with self._state:
            self._members[query.serial] = query
        self.join(query.serial, _NestedReader(reader, self, query))

    def leave(self, serial: int, afterwards: Callable[[], None], *, last: bool) -> bool:
        with self._state:
            self._members.pop(serial, None)
        return super().leave(serial, afterwards, last=last)

    def _member(self, serial: int) -> NestedJoinQuery:
        if serial not in self._members:
            raise SashError("the query has been dropped")
        return self._members[serial]

    def pairs_of(self, query: NestedJoinQuery, pairs: Changes, now: Micros | None) -> Changes:
        """The pairs of a query among some changes, or among the rows that stand now."""
        return _pairs_within(pairs, _less(self._lengths, query.lengths), now)

    def answer(self, query: ContinuousQuery) -> pa.Table:
        return self.rows_of(query.serial)[0].rows

    def count_of(self, serial: int) -> int:
        return len(self.rows_of(serial)[0])

    def rows_of(self, serial: int) -> tuple[Changes, Micros]:
        with self._state:
            return self.pairs_of(self._member(serial), self.view.rows(self.now), self.now), self.now

    def rows_having(self, index: StoredIndex, values: pa.Array) -> tuple[Changes, Micros]:
        assert index.query is not None
        with self._state:
            found = self.view.having(index, values, self.now)
            return self.pairs_of(self._member(index.query), found, self.now), self.now

    def complete_from(self, query: ContinuousQuery) -> Micros | None:
        return self._progress.complete_from(reaches(query.plan))

    # -- windows ---------------------------------------------------------------------------------------

    @contextmanager
    def _epoch(self) -> Iterator[None]:
        with super()._epoch():
            self._settle()
            yield

    def _settle(self) -> None:
        """Before an epoch, let the windows be those of the longest query."""
        with self._state:
            asked = [query.lengths for query in self._members.values()]
            if self._rests or not asked:
                return
            self._bound = wanted = longest(asked)
        if self._progress.number == 0:
            uneven = any(not is_even(wanted, each) for each in asked)
            if (wanted, uneven) != (self._lengths, self._has_expiries):
                self._use(wanted, uneven)
            self._progress.windows, self._progress.expiries = list(wanted), uneven
        elif wanted != self._lengths:
            self._shorten(wanted)

    def _use(self, lengths: Lengths, has_expiries: bool) -> None:
        """Run the plan for windows of these lengths, with an empty view."""
        founder = self._founder
        plan = with_lengths(founder.plan, lengths)
        self.plan = with_expiries(plan) if has_expiries else plan
        self._bucketed = self._directories.bucketed(self.plan, founder.state, founder.execution)
        self._windows = windows(self.plan)
        self._reaches, self.view = reaches(plan), ChangeView(self.plan.schema)
        self._lengths, self._has_expiries = lengths, has_expiries

    def _shorten(self, lengths: Lengths) -> None:
        """Cut the stored tuples and the view down to shorter windows."""
        before, by = self._progress, _less(self._lengths, lengths)
        after = before.following()
        after.windows = list(lengths)
        after.manifests = {
            bucket: self._shortened(int(bucket), manifest, by, after.number)
            for bucket, manifest in before.manifests.items()
        }
        if self._journal.is_durable:
            sync_directory(self._directory)
        with self._state:
            self._journal.append(PlanEntry(after.since(before)))
            self._follow(after)
            self._progress = after
            self._journal.compact(self.save)
        self._remove_files(before, after)

    def _shortened(self, bucket: int, manifest: Manifest, by: Lengths, number: int) -> Manifest:
        stored, buffers = bucket_state.load(self._directory, bucket, manifest), dict[str, tuple[Chunk, ...]]()
        for name, chunks in stored.buffers.items():
            cut = [(_cut_down(chunk.tuples, by), chunk.partition) for chunk in chunks]
            living = [Chunk(tuples.where(tuples.exp >= self._progress.low), partition) for tuples, partition in cut]
            buffers[name] = tuple(chunk for chunk in living if len(chunk))
        state, file = State(buffers, stored.counters), f"{number:09d}-{bucket}.arrow"
        return bucket_state.store(self._directory, bucket, file, state, durable=self._journal.is_durable)[1]

    # -- recovery --------------------------------------------------------------------------------------

    def _follow(self, after: PlanProgress) -> None:
        """Use the windows of an entry; the view has the rows before it."""
        if after.windows is None:
            return
        lengths: Lengths = (after.windows[0], after.windows[1])
        if (lengths, after.expiries) != (self._lengths, self._has_expiries):
            by, rows = _less(self._lengths, lengths), self.view.rows(self.now)
            self._use(lengths, after.expiries)
            if len(rows):
                shorter = _cut_down(rows, by)
                self.view.add(shorter.where(shorter.exp > self.now), self.now)

    def load(self) -> None:
        super().load()
        if self._progress.number:
            self._bound = self._lengths

    def _load_view(self, snapshot: PlanSnapshot) -> None:
        self._follow(snapshot.progress)
        super()._load_view(snapshot)

    def _repeat(self, entry: PlanEntry) -> None:
        self._follow(entry.progress)
        super()._repeat(entry)


class _NestedReader:
    """Gives a query its own pairs, from the pairs of its runtime."""

    def __init__(self, reader: ChangeListener, runtime: NestedJoinRuntime, query: NestedJoinQuery) -> None:
        self._reader = reader
        self._runtime = runtime
        self._query = query
        self.answer, self.fail, self.end = reader.answer, reader.fail, reader.end

    @property
    def lifetime(self) -> Micros | None:
        return self._reader.lifetime

    def take(self, changes: Changes, instants: EpochInstants) -> list[Delivery]:
        now = instants.now if instants.low is None else None
        return self._reader.take(self._runtime.pairs_of(self._query, changes, now), instants)


def _less(longer: Lengths, shorter: Lengths) -> Lengths:
    return longer[0] - shorter[0], longer[1] - shorter[1]


def _cut_down(tuples: Changes, by: Lengths) -> Changes:
    """Pairs, or tuples of one window, with the expiries of windows that are shorter by these lengths.

    Without columns of expiries, both lengths are the same. Tuples that wait for their time have no expiry yet.
    """
    rows, ends = tuples.rows, list[NDArray[np.int64]]()
    for name, shorter in zip(EXPIRIES, by, strict=True):
        if name in rows.schema.names:
            ends.append(np.asarray(rows[name], dtype=np.int64) - shorter)
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(name), pa.array(ends[-1]))
    exp = np.minimum.reduce(ends) if ends else np.where(tuples.exp == NEVER, NEVER, tuples.exp - by[0])
    return Changes(rows, tuples.ts, exp, tuples.sign, tuples.ids)


def _pairs_within(pairs: Changes, by: Lengths, now: int | None = None) -> Changes:
    """The pairs of shorter windows, without columns of expiries; of those that stand, the pairs that live after now."""
    found = _cut_down(pairs, by) if any(by) else pairs
    found = found.where(found.exp > (found.ts if now is None else now))
    hidden = [name for name in EXPIRIES if name in found.rows.schema.names]
    return found.with_rows(found.rows.drop_columns(hidden)) if hidden else found
