"""A running INTERSECT or EXCEPT of two windows that slide: counted panes in, answers from one index out.

    epochs ──► Spark counts: (side, pane, value): count ──► log ──► two windows, one index ──► answers at the multiples

It takes the epochs of its streams as any plan does; but no tuple leaves Spark, and there are no changes. An entry of
the log has the counts of an epoch, so that a replay gives the same windows and the same answers again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.changes.set_counts import SetWindows
from sash.core.changes import Changes, EmptyOnce
from sash.core.errors import CheckpointError, QueryFailedError
from sash.core.time import Micros
from sash.plan.choice import Choice
from sash.plan.continuous import UPA, Node
from sash.plan.estimates import Statistics
from sash.plan.punctuations import Promise
from sash.plan.set_windows import WindowedSet
from sash.runtime.answers.registered_query import Delivery, deliver
from sash.runtime.continuous.plan_runtime import ChangeListener, ContinuousQuery, PlanParts, PlanRuntime
from sash.runtime.limits import too_many_values
from sash.runtime.records.journal import SET, PlanProgress, SetEntry, SetSnapshot
from sash.spark.leaves import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sash.runtime.continuous.plans import PlanDirectories
    from sash.runtime.route import RouteDecision


@dataclass(frozen=True, kw_only=True)
class SetQuery(ContinuousQuery):
    """The kind of the route SETS. There is only one plan."""

    asked: WindowedSet

    prefix: ClassVar[str] = "set-"

    @classmethod
    def choose(
        cls,
        written: Node,
        known: Statistics,
        execution: str,
        plans: Mapping[str, Node] | None = None,
        lazy: bool | None = None,
    ) -> Choice:
        return Choice(written, UPA, {}, (UPA,))

    @classmethod
    def of(cls, routed: RouteDecision, known: Statistics, execution: str, plan: Node | None = None) -> SetQuery:
        assert routed.windowed_set is not None
        return cls(plan=routed.written, written=routed.written, execution=execution, asked=routed.windowed_set)

    @property
    def identity(self) -> str:
        return repr(self.asked)

    def _new_runtime(self, directories: PlanDirectories) -> SetRuntime:
        return SetRuntime(self.asked, self.plan, directories.parts(self.asked.tuples, self.state, self.execution))


class SetRuntime(PlanRuntime):
    """One set operation with all the queries that ask it."""

    wants_tuples = False

    def __init__(self, asked: WindowedSet, plan: Node, parts: PlanParts) -> None:
        super().__init__(plan, parts)
        self._asked = asked
        self._sets = SetWindows(asked)
        self._last: pa.Table = asked.schema.empty_table()
        # Whether memory has the committed state.
        self._is_whole = True

    def answer(self, query: ContinuousQuery) -> pa.Table:
        return self._last

    def count_of(self, serial: int) -> int:
        return len(self._last)

    def punctuate(self, stream: str, column: str, value: pa.Array) -> None:
        """Do nothing: counts of values are needed until their panes expire."""

    # -- epochs ----------------------------------------------------------------------------------------

    def _step(
        self,
        tuples: DataFrame | pa.Table | None,
        after: PlanProgress,
        *,
        far: bool = False,
        promises: tuple[Promise, ...] = (),
    ) -> None:
        if not self._is_whole:
            self._load(reminds=False)
            self._is_whole = True
        late, counts = self._counted(tuples)
        self._check_values(counts)
        after.low = self._goes_to(after)
        self._count_late(late, after)
        self._note_lives(after)
        self._is_whole = False
        readers = self._present()
        told = self._told(self._progress)
        has_answered = self._give(counts, after, readers, readers.keys() - told, self._progress.low, delivered=False)
        after.answered = sorted(readers if has_answered else told)
        with self._state:
            self._commit(after, Changes.none(self.plan.schema), counts)
        self._is_whole = True
        self._end_lives()

    def _check_values(self, counts: pa.Table | None) -> None:
        rows = self._sets.rows + (0 if counts is None else len(counts))
        if rows > self._most.rows:
            raise QueryFailedError(too_many_values(rows, self._most.rows))

    def _release(self) -> None:
        super()._release()
        self._sets = SetWindows(self._asked)

    def _counted(self, tuples: DataFrame | pa.Table | None) -> tuple[tuple[int, ...], pa.Table | None]:
        """How many tuples of each window came too late, and the counts of the others."""
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
        readers: Mapping[int, ChangeListener],
        new: Set[int],
        low: Micros,
        *,
        delivered: bool,
    ) -> bool:
        """Give the answers of an epoch to its readers, by serial numbers; whether there were any.

        A relation that rests answers only `new` readers, which have had no answer yet. The epoch begins at `low`.
        """
        if counts is not None:
            self._sets.absorb(counts)
        known, told = progress.complete_from(self._reaches), list[Delivery]()
        empty, has_answered = EmptyOnce(self._sets.empty.rests), False
        again = low if new else None
        for as_of, table in self._sets.advance(progress.low - 1, progress.begins, again):
            self._last = table
            if progress.is_quiet(as_of):
                continue
            complete, is_told, has_answered = known is not None and as_of >= known, empty.tells(table.num_rows), True
            for serial, reader in readers.items():
                if (is_told or serial in new) and not progress.is_over(serial, as_of):
                    told += reader.answer(as_of, table, complete=complete)
        deliver(told, by_plan=True, again=delivered)
        return has_answered

    # -- commit and recovery ---------------------------------------------------------------------------

    def _commit(self, after: PlanProgress, changes: Changes, counts: pa.Table | None = None) -> None:
        self._journal.append(
            SetEntry(after.since(self._progress), counts if counts is not None and len(counts) else None)
        )
        self._progress = after
        if self.failed is None:
            self._journal.compact(self.save)

    def save(self) -> SetSnapshot:
        return SetSnapshot(self._progress, *self._sets.save(), self._last)

    def load(self) -> None:
        """Recover from the log. Answers since the last snapshot are remembered, not delivered again."""
        if not self._journal.is_durable:
            return
        self._load(reminds=True)
        if self.failed is not None:
            self._release()
            for reader in self._present().values():
                reader.fail(self.failed, reported=True)

    def _load(self, *, reminds: bool) -> None:
        """Load the windows as of the last commit; `reminds` queries of their answers since the snapshot."""
        if not self._journal.is_durable:
            raise CheckpointError("an epoch of a set operation broke off, and there is no checkpoint to go back to")
        self._sets, self._last = SetWindows(self._asked), self._asked.schema.empty_table()

        def apply(entry: SetEntry) -> None:
            before, self._progress = self._progress, entry.progress.after(self._progress)
            answered = self._told(self._progress)
            told = {serial: reader for serial, reader in self._present().items() if reminds and serial in answered}
            new = answered - self._told(before)
            self._give(entry.counts, self._progress, told, new, before.low, delivered=True)

        self._journal.replay(SET, self._restore, apply)

    def _restore(self, snapshot: SetSnapshot) -> None:
        self._progress, self._last = snapshot.progress, snapshot.last
        self._sets.load(snapshot.sets, snapshot.stored)
