"""A stage: operators of a plan over one bucket of their tuples, epoch by epoch.

    arrivals per window ──► wait for the watermark ──► numbered ──► window ──┐
                            (`pending`)                                      ├──► .. ──► changes
    changes of the stages below, those of the epoch ─────────────────────────┘ (state in between)

Most plans are one stage; `StagePlan` says which part of a plan a stage is. A join with a table has the table as one
more input: the versions of its rows for this epoch.

A plan that is evaluated lazily (plan/lazy_joins.py) has epochs that end at the multiples of its SLIDE: tuples after the
last multiple wait in `pending`, too, and an epoch without a multiple does nothing else.

A stage is a value: it has no state of its own. An epoch takes the bucket's state and what arrived, and gives the
changes and the state after. The same code runs in the Sash process and on Spark's executors.

Between two stages each change goes to the bucket of its row's key in the stage above. The changes of one instant in a
bucket are in the order of their source buckets, and within each in the order of output: the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.changes.bucket_state import State, WorkingState
from sash.changes.buffers import Chunk, Fifo
from sash.changes.build import build
from sash.changes.deltas import net
from sash.changes.hashing import buckets_of
from sash.changes.join import table_input
from sash.changes.lifetimes import in_sequence
from sash.changes.operator import WHOLE, Epoch, Share, promised
from sash.core.changes import NEVER, Changes, together
from sash.core.versions import RowVersions
from sash.plan.continuous import BaseWindow, Node, TableJoin, inputs, path_below, windows
from sash.plan.lazy_joins import evaluation_of, keeps_times
from sash.plan.outputs import Outliving
from sash.plan.punctuations import Promise, promised_columns
from sash.plan.stages import EVERYWHERE, StagePlan, Target, divided_join

NO_TABLES: Mapping[str, RowVersions] = MappingProxyType({})
NO_CHANGES: Mapping[str, Changes] = MappingProxyType({})


@dataclass(frozen=True)
class Arrivals:
    """Tuples of one window in order of arrival, not yet in order of time."""

    rows: pa.Table
    ts: NDArray[np.int64]


@dataclass(frozen=True)
class Bucket:
    """One of several buckets of a stage. Ids that they give out are different."""

    number: int = 0
    of: int = 1


ONLY = Bucket()


@dataclass(frozen=True)
class _EpochInput:
    """An epoch's input: the tuples of the windows by their places, changes of the stages below, and the tables.

    Tuples before `low` are late.
    """

    low: int
    arrived: Mapping[int, Arrivals]
    exchanged: Mapping[str, Changes]
    tables: Mapping[str, RowVersions]
    promises: Sequence[Promise]


class Stage:
    """`plan` is a whole plan; its windows are numbered from left to right. `part` runs here, by default all of it.

    `named` keeps the ids of results. Then equal rows differ by id, so replacing a row by an equal one is a change.
    """

    def __init__(
        self,
        plan: Node,
        partitions: int | None = None,
        strategy: str = "upa",
        *,
        named: bool = False,
        part: StagePlan | None = None,
    ) -> None:
        self.plan = plan
        self.schemas = [window.schema for window in windows(plan)]
        # All operators, also those of other stages: the operators above decide how results are announced.
        self._operators = build(plan, partitions, strategy, named=named)
        self._nodes = dict(_paths(plan, ""))
        self._windows = _windows(self._nodes)
        self._places = {path: place for place, path in enumerate(self._windows)}
        self._promised = {
            path: promised_columns(window, path) for path, window in zip(self._windows, windows(plan), strict=True)
        }
        part = StagePlan("") if part is None else part
        self._root, self._lower = part.path, frozenset(part.lower)
        self._divided = divided_join(plan, part, self._numbering())
        self._nets = self._root == "" and not named
        self._lazy = evaluation_of(plan)

    @property
    def is_divisible(self) -> bool:
        """Whether several tasks may share the results of one bucket."""
        return self._divided is not None

    def schema_of(self, path: str) -> pa.Schema:
        """The columns of the results of the node at a path."""
        return self._nodes[path].schema

    def width_of(self, path: str) -> int:
        """How many ids the results of the node at a path have."""
        return self._operators[path].width

    def step(
        self, state: State, arrived: Mapping[int, Arrivals], low: int, high: int,
        tables: Mapping[str, RowVersions] = NO_TABLES,
        *, exchanged: Mapping[str, Changes] = NO_CHANGES, bucket: Bucket = ONLY, share: Share = WHOLE,
        begins: int | None = None, promises: Sequence[Promise] = (),
    ) -> tuple[Changes, State]:  # fmt: skip
        """Process the instants low <= t < high. Tuples from `high` on wait; those before `low` are late: left out.

        `tables` has, by table, the changes of the epoch, and for a non-retroactive table the versions that its tuples
        may find. `exchanged` has the changes of the epoch from the stages below, by their paths. All shares of a
        bucket's results give the same state, except for their own additions (`State.own`). `begins` as in `Epoch`.
        `promises` are about the tuples of later epochs.
        """
        assert share.of == 1 or self.is_divisible, "operators with state need all changes"
        working, epoch = WorkingState(state, bucket.number, bucket.of), self._evaluated(Epoch(low, high, share, begins))
        given = _EpochInput(low, arrived, exchanged, tables, promises)
        rests = self._lazy is not None and self._lazy.rests(low, high)
        found = self._wait(working, epoch, given) if rests else self._run(self._root, working, epoch, given)
        return net(found).nameless() if self._nets else found, working.finished()

    def _evaluated(self, epoch: Epoch) -> Epoch:
        """The instants to evaluate: all of the epoch, or those that its multiples are the first to see."""
        if self._lazy is None:
            return epoch
        low, high = self._lazy.aligned(epoch.low), self._lazy.aligned(epoch.high)
        return replace(epoch, low=low, high=high, pause=0 if keeps_times(self._lazy) else self._lazy.slide - 1)

    def _wait(self, state: WorkingState, epoch: Epoch, given: _EpochInput) -> Changes:
        """No multiple is in the epoch: all tuples wait."""
        for place in given.arrived:
            self._take(self._windows[place], state, epoch, given)
        return Changes.none(self.schema_of(self._root), self.width_of(self._root))

    def _run(self, path: str, state: WorkingState, epoch: Epoch, given: _EpochInput) -> Changes:
        node = self._nodes[path]
        if path in self._lower:
            return given.exchanged.get(path, Changes.none(node.schema, self.width_of(path)))
        if isinstance(node, BaseWindow):
            taken = [self._take(path, state, epoch, given)]
        else:
            below = [path_below(path, place) for place in range(len(inputs(node)))]
            taken = [self._run(each, state, epoch, given) for each in below]
        if isinstance(node, TableJoin):
            taken.append(table_input(node, given.tables.get(node.table.name), epoch))
        found = self._operators[path].step(taken, state, epoch)
        if path == self._divided:
            state.results = len(found)
        return found

    def _numbering(self) -> list[str]:
        """The paths where results get their own ids, because an operator above needs them."""
        return [path for path, node in self._nodes.items() if isinstance(node, Outliving) and self.width_of(path)]

    def _take(self, path: str, state: WorkingState, epoch: Epoch, given: _EpochInput) -> Changes:
        """The tuples of a window whose time has come, in order and numbered; the others wait."""
        arrived = self._kept_promises(path, given.arrived.get(self._places[path]), state)
        self._note_promises(path, given.promises, state)
        buffer = Fifo(state.chunks(f"{path}.pending"))
        waited, chunks = list[Changes](), list[Chunk]()
        for chunk in buffer.chunks:
            due = chunk.tuples.ts < epoch.high
            if due.any():
                waited.append(chunk.tuples.where(due))
            # Waiting tuples keep their places: equal timestamps stay in the order in which they came.
            if not due.all():
                chunks.append(chunk.without(due))
        buffer.chunks = chunks
        if arrived is not None and len(arrived.ts):
            waited.append(_as_changes(arrived).where(arrived.ts >= given.low))
        if not waited:
            return Changes.none(self.schema_of(path), self.width_of(path))
        every = in_sequence(waited)
        ready = every.ts < epoch.high
        buffer.add(every.where(~ready))
        state.store(f"{path}.pending", buffer.chunks)
        found = every.where(ready)
        return self._numbered(found.take(np.argsort(found.ts, kind="stable")), path, state)

    def _kept_promises(self, path: str, arrived: Arrivals | None, state: WorkingState) -> Arrivals | None:
        """The arrivals without those that break a promise, which are counted."""
        for column in self._promised[path]:
            promises = state.chunks(column.buffer)
            if promises and arrived is not None and len(arrived.ts):
                broken = promised(arrived.rows[column.name], promises)
                place = self._places[path]
                state.broken[place] = state.broken.get(place, 0) + int(broken.sum())
                arrived = Arrivals(arrived.rows.filter(pa.array(~broken)), arrived.ts[~broken])
        return arrived

    def _note_promises(self, path: str, promises: Sequence[Promise], state: WorkingState) -> None:
        for promise in promises:
            for column in self._promised[path]:
                if (column.stream.lower(), column.column.lower()) == (promise.stream.lower(), promise.column.lower()):
                    buffer = Fifo(state.chunks(column.buffer))
                    rows = pa.table({"value": promise.value.cast(self.schema_of(path).field(column.name).type)})
                    buffer.add(_as_changes(Arrivals(rows, np.array([promise.after], dtype=np.int64))))
                    state.store(column.buffer, buffer.chunks)

    def _numbered(self, ready: Changes, path: str, state: WorkingState) -> Changes:
        width = self.width_of(path)
        ids = np.zeros((len(ready), width), dtype=np.int64)
        if width:
            ids[:, 0] = state.numbers(path, len(ready))
        return Changes(ready.rows, ready.ts, ready.exp, ready.sign, ids)


def _paths(node: Node, path: str) -> list[tuple[str, Node]]:
    """All nodes with their paths, windows from left to right."""
    below = [pair for place, input in enumerate(inputs(node)) for pair in _paths(input, path_below(path, place))]
    return [*below, (path, node)]


def _windows(nodes: Mapping[str, Node]) -> list[str]:
    return [path for path, node in nodes.items() if isinstance(node, BaseWindow)]


def _as_changes(arrived: Arrivals) -> Changes:
    number = len(arrived.ts)
    never = np.full(number, NEVER, dtype=np.int64)
    ids = np.zeros((number, 0), dtype=np.int64)
    return Changes(arrived.rows, arrived.ts, never, np.ones(number, dtype=np.int8), ids)


# -- between stages --------------------------------------------------------------------------------------

# The number that stands for all buckets.
ALL = -1
# Runs one bucket of a stage, which gets the changes of the stages below by their paths.
StepOfBucket = Callable[[int, Bucket, Mapping[str, Changes]], Changes]


def numbers_of_buckets(plan: Sequence[StagePlan], most: int) -> tuple[int, ...]:
    """How many buckets each stage has, if a stage that may be spread has `most`."""
    return tuple(most if stage.spread else 1 for stage in plan)


def run_stages(plan: Sequence[StagePlan], buckets: Sequence[int], step: StepOfBucket) -> Changes:
    """Run an epoch of all stages here, one after the other; the result is the changes of the answer."""
    arrived: dict[str, list[Mapping[str, Changes]]] = {}
    found: list[Changes] = []
    above = consumers(plan)
    for place, (stage, number) in enumerate(zip(plan, buckets, strict=True)):
        given = arrived.pop(stage.path, [{}] * number)
        found = [step(place, Bucket(bucket, number), given[bucket]) for bucket in range(number)]
        if stage.path:
            upper = above[stage.path]
            shares = exchanged(found, plan[upper].lower[stage.path], buckets[upper])
            before = arrived.get(plan[upper].path, [{}] * buckets[upper])
            arrived[plan[upper].path] = [
                {**others, stage.path: mine} for others, mine in zip(before, shares, strict=True)
            ]
    return answer(together(found), len(found))


def consumers(plan: Sequence[StagePlan]) -> dict[str, int]:
    """For the path of each stage but the last, the place of the stage that takes its changes."""
    return {path: place for place, stage in enumerate(plan) for path in stage.lower}


def exchanged(parts: Sequence[Changes], target: Target, buckets: int) -> list[Changes]:
    """The changes of all buckets of a stage, as the buckets of the next one get them."""
    targets = [targets_of(part, target, buckets) for part in parts]
    return [
        together(part.where(goes_to(bucket, own)) for part, own in zip(parts, targets, strict=True))
        for bucket in range(buckets)
    ]


def goes_to(bucket: int, targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of some rows with these targets a bucket gets."""
    return (targets == bucket) | (targets == ALL)


def targets_of(changes: Changes, target: Target, buckets: int) -> NDArray[np.int64]:
    """The bucket that each change goes to, or `ALL`."""
    if isinstance(target, str):
        return buckets_of(changes.rows[target], buckets)
    return np.full(len(changes), ALL if target is EVERYWHERE and buckets > 1 else 0, dtype=np.int64)


def answer(found: Changes, buckets: int) -> Changes:
    """The changes of the answer from those of its buckets: a row that one bucket takes back and another gives stays."""
    return net(found) if buckets > 1 else found
