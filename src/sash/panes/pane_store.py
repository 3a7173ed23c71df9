"""The panes of one pane table behind one interface, wherever their rows are.

    BasicIntervalSynopsis   rows in this process; partitioned windows keep single rows (PartitionedSynopsis)
    ListPanes               closed panes are short lists in this process; open panes may be in files
    ClusterPanes            rows in files; this process has the names of the files, and a job reads them

FILES has the files of a store: their names, the pane of each, and the seal of its contents.

Code that fills, closes, expires or reads panes does not ask which store it has. Who schedules executions, chooses
synopses or writes the rows of a micro-batch asks for facts, which every store states: its `kind`, `is_read_by_job`, and
`filed`. A store reads a query part by part: an `AnswerPart` is one reader of one aggregate over its window, and the
store returns a result or a failure for each part. An ability of only one store has a neutral default here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.core.errors import QueryFailedError
from sash.core.interned import InternedValue
from sash.core.time import Micros
from sash.core.window import ElasticWindow, Window
from sash.panes.accelerator import Accelerator
from sash.panes.answers import Finisher
from sash.panes.covered import CoveredPredicate
from sash.panes.filters import FilterIndex
from sash.panes.pane_rows import PaneRows
from sash.panes.partials import Partial
from sash.panes.readers import Columns, PlainReader, Reader, SharedGroups, read_every_length
from sash.panes.readings import Reading, WindowView
from sash.plan.periodic import Shape
from sash.storage.window_files import SEAL

if TYPE_CHECKING:
    from sash.panes.cluster_panes import Cluster

# Errors that the evaluation of one query may raise without a defect of Sash: the query fails, and others go on.
FAILURES = (QueryFailedError, pa.ArrowException, ArithmeticError, ValueError)

_IN_PROCESS = "the rows of this store are in this process"

SPAN = ("start", "end")
FILES = pa.schema([("file", pa.string()), ("rows", pa.int64()), *((name, pa.int64()) for name in SPAN), *SEAL])


@dataclass(frozen=True, eq=False)
class PartIdentity(InternedValue):
    """What decides a part of an answer: parts of several queries that agree on it are one."""

    shape: Shape
    span: Window
    reader: int
    covered: CoveredPredicate | None


@dataclass(frozen=True)
class AnswerPart:
    """One reader of one aggregate, over its window. `covered`: its partials are combined from others' (SS4)."""

    finisher: Finisher
    reader: int
    covered: CoveredPredicate | None = None

    def __reduce__(self) -> tuple[type[AnswerPart], tuple[object, ...]]:
        """Pickle without caches, in the query as well: another process hashes strings differently."""
        return AnswerPart, (Finisher(replace(self.finisher.query)), self.reader, self.covered)

    @cached_property
    def identity(self) -> PartIdentity:
        query = self.finisher.query
        return PartIdentity(query.shape, query.window.span, self.reader, self.covered)

    @property
    def chosen(self) -> Reader:
        return self.finisher.readers[self.reader]

    @cached_property
    def stored(self) -> Reading:
        """The reading of stored partials."""
        reading = self.finisher.readings[self.reader]
        return reading if self.covered is None else self.covered.reading(reading)

    @cached_property
    def subtracting(self) -> PlainReader | None:
        """The part's reader, if its columns may be taken as differences of sums."""
        reader = self.chosen
        may = self.covered is None and self.finisher.is_simple
        return reader if may and isinstance(reader, PlainReader) and reader.subtracts else None

    def found(self, views: Sequence[WindowView], shared: SharedGroups) -> PartResult:
        """Its columns from the views of its spans. `shared`: with the parts that read the same view."""
        reader = self.finisher.readers[self.reader]
        try:
            if self.covered is not None:
                views = [self.covered.view(view, reader.reading.partials) for view in views]
            is_elastic = isinstance(reader.reading.window, ElasticWindow)
            return read_every_length(reader, views) if is_elastic else reader.read(views, shared)
        except FAILURES as error:
            return PartFailure(str(error))


@dataclass(frozen=True)
class PartFailure:
    """An expression of the query failed over some groups."""

    why: str


# The result of a part.
PartResult = Columns | PartFailure
# The partials to read of each window.
WindowNeeds = Mapping[Window, list[Partial]]


def needs_of(parts: Sequence[AnswerPart]) -> dict[Window, list[Partial]]:
    """The windows that some parts read, with the partials of each."""
    needs: dict[Window, dict[Partial, None]] = {}
    for part in parts:
        stored = part.stored
        for span in stored.spans:
            needs.setdefault(span, {}).update(dict.fromkeys(stored.partials))
    return {span: list(partials) for span, partials in needs.items()}


class PaneStore(ABC):
    """Fill, close, expire, read. Not safe for several threads: the engine isolates."""

    # The name of the store in STORED IN and SYNOPSIS.
    kind: ClassVar[str]
    # Whether an execution over the panes is a job in the cluster: slides need not wait for it, a question does not
    # begin it again, and its costs are others.
    is_read_by_job: ClassVar[bool] = False

    def __init__(self, key_types: Sequence[pa.DataType], version: int = 0) -> None:
        self.key_types = tuple(key_types)
        # Since when each partial is stored; None: from the beginning of the stream.
        self.since: dict[Partial, Micros | None] = {}
        # How far back windows look.
        self.reach = 0
        # The last two times at which the input has ended: sessions end there.
        self.ends: tuple[Micros, ...] = ()
        # Other synopses over the same panes. They are built anew when the version changes: panes were revised, or
        # groups have other codes.
        self.accelerators: list[Accelerator] = []
        self._version = version

    # -- what it stores --------------------------------------------------------------------------------

    @abstractmethod
    def require(self, partials: Sequence[Partial], since: Micros | None) -> None:
        """Store these partials from now on; `since` None means from the beginning of the stream."""

    @abstractmethod
    def release(self, kept: set[Partial]) -> None:
        """Forget every partial that no query needs any more."""

    def adopt(self, partials: Sequence[Partial], covered: CoveredPredicate) -> bool:
        """Store partials that were combined from others until now, also in existing panes; whether it can."""
        return False

    @property
    @abstractmethod
    def groups(self) -> int:
        """About how many groups the panes have: some may have vanished."""

    def groups_beyond(self, most: int) -> int:
        """How many groups this process holds, if there are more than `most`; else 0."""
        return 0

    def last_seen(self, presence: Partial) -> NDArray[np.int64]:
        """For each group, by stored numbers of rows, the end of the newest closed pane with its tuples; ascending.

        Empty if the rows are not in this process.
        """
        return np.empty(0, dtype=np.int64)

    @property
    @abstractmethod
    def panes(self) -> int: ...

    @property
    @abstractmethod
    def rows(self) -> int: ...

    @property
    @abstractmethod
    def closed_rows(self) -> int: ...

    @abstractmethod
    def closed_groups(self) -> tuple[int, float]:
        """How many groups the closed panes have, and how many of them one pane has on average."""

    # -- filling and closing ---------------------------------------------------------------------------

    @abstractmethod
    def absorb(self, rows: PaneRows, closed_until: Micros | None = None) -> None:
        """Take a micro-batch's rows in; rows of panes that ended by `closed_until` revise closed panes."""

    @abstractmethod
    def close(self, until: Micros) -> None:
        """Close every open pane that ends by a time."""

    @abstractmethod
    def expire(self, before: Micros) -> None:
        """Drop panes that start before a time."""

    @abstractmethod
    def merge(self, before: Micros, edges: Collection[Micros] = ()) -> None:
        """Merge panes that end by a time, but not across edges, for windows that reach back without end."""

    @abstractmethod
    def next_end(self, after: Micros) -> Micros | None:
        """When the next pane with tuples ends after a time, closed or open."""

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Grows when closed panes are revised; it may grow at other times, too."""
        return self._version

    @abstractmethod
    def is_empty(self, window: Window, now: Micros) -> bool:
        """Whether no pane with tuples lies in the window as of now."""

    @abstractmethod
    def straddles(self, edge: Micros) -> bool:
        """Whether some stored pane holds tuples on both sides of a time."""

    @abstractmethod
    def frozen(
        self, needs: WindowNeeds, now: Micros, build: bool = False, partials: Collection[Partial] | None = None
    ) -> Self:
        """The current closed panes: another thread may read these windows as of now, while this one goes on.

        `partials`: all that will be read; None: everything. Lookups are made at once; `build`: build whatever they
        need.
        """

    @abstractmethod
    def read(self, parts: Sequence[AnswerPart], now: Micros) -> Iterator[tuple[int, PartResult | None]]:
        """The result of each part, by its number, as of a time; None during recovery."""

    def answer_by(self, index: FilterIndex, finisher: Finisher, now: Micros) -> pa.Table | None:
        """A simple query's answer from the groups that an index of its HAVING finds; None: its parts must be read."""
        return None

    def delta(self, presence: Partial, window: Window, now: Micros) -> int:
        """How often an item may occur in a window, in one group, of which closed panes have no count."""
        return 0

    # -- rows in files ---------------------------------------------------------------------------------

    @property
    def filed(self) -> pa.Table | None:
        """The FILES that have the rows, or those of open panes; None: rows of a micro-batch come to this process."""
        return None

    @property
    def files(self) -> list[str]:
        names: list[str] = [] if self.filed is None else self.filed["file"].to_pylist()
        return names

    def without(self, names: Collection[str]) -> pa.Table:
        """The FILES but some."""
        assert self.filed is not None
        return self.filed.filter(~pc.field("file").isin(list(names))) if names else self.filed

    def load_files(self, files: pa.Table) -> None:
        """Take panes that are in these files from now on."""
        raise NotImplementedError(_IN_PROCESS)

    def attach(self, cluster: Cluster | None, failures: dict[str, tuple[Micros, str]]) -> None:
        """Read files by a cluster, and note failed queries here. During recovery there is no cluster."""
        raise NotImplementedError(_IN_PROCESS)

    def closing(self, files: pa.Table, after: Micros | None, until: Micros) -> pa.Table:
        """The FILES of panes that close next, with these of a micro-batch, if short lists are to be made of them."""
        return files.slice(0, 0)

    def bring(self, files: pa.Table, ends: NDArray[np.int64] | None = None, lists: pa.Table | None = None) -> None:
        """Take the files of a micro-batch, and the short lists of the panes that close with it: those with these ends.

        `absorb` says which of the files count.
        """
        raise NotImplementedError(_IN_PROCESS)

    def save_files(self) -> list[dict[str, Any]]:
        """The files of open panes, for a checkpoint, if `to_table` does not have them."""
        return []

    # -- recovery --------------------------------------------------------------------------------------

    @abstractmethod
    def note_failure(self, query: str, now: Micros, why: str) -> None:
        """Note that a part of a query failed as of a time: a replay, which computes nothing, fails the query by it."""

    def noted_failure(self, query: str, now: Micros) -> str | None:
        """Why a query failed as of a time, if that was noted."""
        return None

    @abstractmethod
    def to_table(self) -> pa.Table:
        """The contents, for a checkpoint."""

    @abstractmethod
    def pane_tables(self) -> Iterator[pa.Table]:
        """The rows in this process, those of one pane at a time."""

    def save_since(self) -> list[list[object]]:
        return [[*partial.signature, since] for partial, since in self.since.items()]

    @abstractmethod
    def load(self, table: pa.Table, since: list[list[object]]) -> None:
        """The inverse of `to_table` and `save_since`, into a store with the same partials and no panes."""
