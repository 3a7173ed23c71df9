"""A running INTERSECT or EXCEPT of two windows that slide: counted panes in, answers from one index out.

    epochs ──► Spark counts: (side, pane, value): count ──► log ──► two windows, one index ──► answers at the multiples

It takes the epochs of its streams as any plan does; only what comes of them is another thing: no tuple leaves Spark,
and there are no changes. An entry of the log has what an epoch brought, in counts, so that a replay gives the same
windows and the same answers again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.catalog import Stream
from sash.core.changes import Changes
from sash.core.errors import CheckpointError, QueryFailedError
from sash.engine.answers.query import Delivery, deliver
from sash.engine.continuous.plan_runtime import PlanProgress, PlanRuntime, Reader, no_tables
from sash.engine.overfull import USUAL, Most, too_many_values
from sash.operators.set_windows import SetWindows
from sash.plan.continuous import Node
from sash.plan.set_windows import WindowedSet
from sash.spark.counted import counted
from sash.storage.epochs import Entry, EpochLog, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sash.spark.buckets import BucketedPlan

_COUNTS = "counts"


class SetRuntime(PlanRuntime):
    """One set operation with all the queries that ask it."""

    wants_tuples = False

    def __init__(
        self,
        asked: WindowedSet,
        plan: Node,
        streams: list[Stream],
        bucketed: BucketedPlan,
        directory: Path,
        log: EpochLog | None,
        most: Most = USUAL,
    ) -> None:
        super().__init__(plan, streams, bucketed, directory, log, no_tables, most)
        self._asked = asked
        self._sets = SetWindows(asked)
        self._last: pa.Table = asked.schema.empty_table()
        # What is in memory is what was committed.
        self._is_whole = True

    def rows_of(self, serial: int, schema: pa.Schema) -> pa.Table:
        return self._last

    def count_of(self, serial: int) -> int:
        return len(self._last)

    # -- epochs ----------------------------------------------------------------------------------------

    def _step(self, tuples: DataFrame | pa.Table | None, number: int, after: PlanProgress) -> None:
        if not self._is_whole:
            self._load(reminds=False)
            self._is_whole = True
        late, counts = self._counted(tuples)
        self._check_values(counts)
        after.low = self._reached(after)
        self._count_late(late, after)
        self._is_whole = False
        readers = self._present()
        if self._give(counts, after, readers, readers.keys() - set(after.answered), delivered=False):
            after.answered = sorted(readers)
        with self._state:
            self._commit(after, Changes.none(self.plan.schema), counts)
        self._is_whole = True

    def _check_values(self, counts: pa.Table | None) -> None:
        rows = self._sets.rows + (0 if counts is None else len(counts))
        if rows > self._most.rows:
            raise QueryFailedError(too_many_values(rows, self._most.rows))

    def _release(self) -> None:
        super()._release()
        self._sets = SetWindows(self._asked)

    def _counted(self, tuples: DataFrame | pa.Table | None) -> tuple[tuple[int, ...], pa.Table | None]:
        """How many tuples of each window came too late, and the others, counted."""
        if tuples is None:
            return (0,) * len(self._windows), None
        assert not isinstance(tuples, pa.Table), "nobody brings tuples to the Sash process that are counted in Spark"
        found = counted(tuples, self._late_before, self._asked.pane, self._asked.offset)
        leaves = np.asarray(found["_leaf"], dtype=np.int64)
        late = np.asarray(found["_late"], dtype=np.bool_)
        missed = np.bincount(leaves[late], np.asarray(found["count"])[late], len(self._windows))
        return tuple(missed.astype(np.int64).tolist()), self._by_sides(found.filter(pa.array(~late)))

    def _by_sides(self, found: pa.Table) -> pa.Table:
        """The columns of both windows as the set operation compares them. The windows are its sides, in order."""
        parts = []
        for side, (slot,) in enumerate(self.leaves.layout.places):
            rows = found.filter(pc.equal(found["_leaf"], side)).combine_chunks()
            column = rows[f"s{slot}"].cast(self._windows[side].columns[0].type)
            parts.append(self._sets.counts(side, rows["_pane"], column, rows["count"]))
        return pa.concat_tables(parts)

    # -- answers ---------------------------------------------------------------------------------------

    def _give(
        self,
        counts: pa.Table | None,
        progress: PlanProgress,
        readers: Mapping[int, Reader],
        new: Set[int],
        *,
        delivered: bool,
    ) -> bool:
        """The answers of an epoch to its readers, by their serial numbers; whether there were any.

        A relation that rests answers nobody but those who are `new`: they have had no answer yet.
        """
        if counts is not None:
            self._sets.absorb(counts)
        known, told = progress.complete_from(self._reaches), list[Delivery]()
        rested, has_answered = self._sets.rests, False
        for as_of, table in self._sets.advance(progress.low - 1, progress.begins, again=bool(new)):
            self._last = table
            complete = known is not None and as_of >= known
            for serial, reader in readers.items():
                if serial in new or table.num_rows or not rested:
                    told += reader.tell(as_of, table, complete=complete, delivered=delivered)
            rested, has_answered = not table.num_rows, True
        deliver(told)
        return has_answered

    # -- commit and recovery ---------------------------------------------------------------------------

    def _commit(self, after: PlanProgress, changes: Changes, counts: pa.Table | None = None) -> None:
        if self._log is not None:
            tables = {_COUNTS: counts} if counts is not None and len(counts) else {}
            self._log.append(Entry("batch", after.number, 0, vars(after).copy(), tables))
        self._progress = after
        if self._log is not None and self._log.wants_snapshot and self.failed is None:
            state, stored = self._sets.save()
            facts = {"progress": vars(after).copy(), "sets": state}
            self._log.compact(Snapshot(after.number, 0, facts, [*stored, self._last]))

    def recover(self) -> None:
        """As the log has it. Answers since the last snapshot are remembered, not delivered again."""
        if self._log is None:
            return
        self._load(reminds=True)
        if self.failed is not None:
            self._release()
            for reader in self._present().values():
                reader.fail(self.failed, reported=True)

    def _load(self, *, reminds: bool) -> None:
        """The windows as of the last commit; `reminds` queries of the answers that they have had since the snapshot."""
        if self._log is None:
            raise CheckpointError("an epoch of a set operation broke off, and there is no checkpoint to go back to")
        self._sets, self._last = SetWindows(self._asked), self._asked.schema.empty_table()
        snapshot = self._log.snapshot()
        if snapshot is not None:
            self._restore(snapshot)
        for entry in self._log.entries():
            before, self._progress = set(self._progress.answered), PlanProgress(**entry.facts)
            answered = set(self._progress.answered)
            told = {serial: reader for serial, reader in self._present().items() if reminds and serial in answered}
            self._give(entry.tables.get(_COUNTS), self._progress, told, answered - before, delivered=True)

    def _restore(self, snapshot: Snapshot) -> None:
        *stored, self._last = snapshot.tables
        self._progress = PlanProgress(**snapshot.state["progress"])
        self._sets.load(snapshot.state["sets"], stored)
