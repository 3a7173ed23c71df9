"""A stage: the operators of a plan over one bucket of its tuples, epoch by epoch.

    arrivals per window ──► wait for the watermark ──► numbered ──► window ──► .. ──► changes
                            (`pending`)                                 (state in between)

A join with a table has the table as one more input: the versions of its rows that this epoch needs come along with it.

A stage is a value: it has no state of its own. An epoch takes the bucket's state and what arrived, and gives the
changes and the state after. The same code runs in the Sash process and on Spark's executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.changes import NEVER, Changes
from sash.core.versions import RowVersions
from sash.operators.base import Epoch
from sash.operators.build import build
from sash.operators.lifetimes import in_sequence
from sash.operators.net import net
from sash.operators.table_join import table_input
from sash.plan.continuous import BaseWindow, Node, TableJoin, inputs, windows
from sash.state import Chunk, Fifo, State, Working

NO_TABLES: Mapping[str, RowVersions] = MappingProxyType({})


@dataclass(frozen=True)
class Arrivals:
    """Tuples of one window in order of arrival, not yet in order of time."""

    rows: pa.Table
    ts: NDArray[np.int64]


@dataclass(frozen=True)
class _Given:
    """An epoch's input: the tuples of the windows from left to right, and the tables."""

    arrived: Iterator[Arrivals | None]
    tables: Mapping[str, RowVersions]


class Stage:
    """`plan` is a whole plan; its windows are numbered from left to right.

    `named` keeps the ids of results. Equal rows are then told apart, so one that replaces another is a change.
    """

    def __init__(
        self, plan: Node, partitions: int | None = None, strategy: str = "upa", *, named: bool = False
    ) -> None:
        self.plan = plan
        self.schemas = [window.schema for window in windows(plan)]
        self._operators = build(plan, partitions, strategy, named=named)
        self._named = named

    def step(
        self, state: State, arrived: Mapping[int, Arrivals], low: int, high: int,
        tables: Mapping[str, RowVersions] = NO_TABLES,
    ) -> tuple[Changes, State]:  # fmt: skip
        """Process the instants low <= t < high. Tuples from `high` on wait; those before `low` are late: left out.

        `tables` has, by table, what changes in the epoch, and of a non-retroactive one what its tuples may find.
        """
        working, epoch = Working(state), Epoch(low, high)
        waiting = iter([arrived.get(place) for place in range(len(self.schemas))])
        found = self._run(self.plan, "", working, epoch, _Given(waiting, tables))
        return found if self._named else net(found).nameless(), working.finished()

    def _run(self, node: Node, path: str, state: Working, epoch: Epoch, given: _Given) -> Changes:
        if isinstance(node, BaseWindow):
            taken = [self._take(node, path, state, epoch, next(given.arrived))]
        else:
            taken = [
                self._run(input, f"{path}{place}", state, epoch, given) for place, input in enumerate(inputs(node))
            ]
        if isinstance(node, TableJoin):
            taken.append(table_input(node, given.tables.get(node.table.name), epoch))
        return self._operators[path].step(taken, state, epoch)

    def _take(self, window: BaseWindow, path: str, state: Working, epoch: Epoch, arrived: Arrivals | None) -> Changes:
        """The tuples whose time has come, in order and numbered; the others wait."""
        buffer = Fifo(state.chunks(f"{path}.pending"))
        waited, chunks = list[Changes](), list[Chunk]()
        for chunk in buffer.chunks:
            due = chunk.tuples.ts < epoch.high
            if due.any():
                waited.append(chunk.tuples.where(due))
            # What still waits keeps its place: equal timestamps stay in the order in which they came.
            if not due.all():
                chunks.append(Chunk(chunk.tuples.where(~due)) if due.any() else chunk)
        buffer.chunks = chunks
        if arrived is not None and len(arrived.ts):
            waited.append(_as_changes(arrived).where(arrived.ts >= epoch.low))
        if not waited:
            return Changes.none(window.schema, self._width(path))
        every = in_sequence(waited)
        ready = every.ts < epoch.high
        buffer.add(every.where(~ready))
        state.store(f"{path}.pending", buffer.chunks)
        found = every.where(ready)
        return self._numbered(found.take(np.argsort(found.ts, kind="stable")), path, state)

    def _numbered(self, ready: Changes, path: str, state: Working) -> Changes:
        width = self._width(path)
        ids = np.zeros((len(ready), width), dtype=np.int64)
        if width:
            ids[:, 0] = state.count(path, len(ready)) + np.arange(len(ready))
        return Changes(ready.rows, ready.ts, ready.exp, ready.sign, ids)

    def _width(self, path: str) -> int:
        return self._operators[path].width


def _as_changes(arrived: Arrivals) -> Changes:
    number = len(arrived.ts)
    never = np.full(number, NEVER, dtype=np.int64)
    ids = np.zeros((number, 0), dtype=np.int64)
    return Changes(arrived.rows, arrived.ts, never, np.ones(number, dtype=np.int8), ids)
