"""ClusterPanes: the files of a pane table whose rows are in the cluster, in place of the panes themselves.

    file                                       start   end    rows
    epoch-000000007/_pane=6000000/part-0..     0       6 s    81,022
    epoch-000000008/_pane=6000000/part-0..     0       6 s    40,977      the same pane, from the next micro-batch
    epoch-000000008/_pane=12000000/part-0..    6 s     12 s   39,411

It knows which panes have tuples. Its rows are read by inquiries, which somebody with a cluster carries out (`ask`).

Needs: windows over time. Space: here, a row for each file; in files, groups x panes for each micro-batch that touches
a pane.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.core.window import Window
from sash.storage.window_files import SEAL
from sash.synopses.ahead import ReadAhead
from sash.synopses.cluster.inquiry import Inquiry
from sash.synopses.pane_rows import PaneRows
from sash.synopses.pane_store import AnswerPart, PaneStore, PartResult
from sash.synopses.partials import Partial

_SPAN = (("start", pa.int64()), ("end", pa.int64()))
FILES = pa.schema([("file", pa.string()), ("rows", pa.int64()), *_SPAN, *SEAL])


class Cluster(Protocol):
    """Who has the files."""

    def ask(self, inquiry: Inquiry, files: pa.Table) -> Mapping[int, Sequence[PartResult]]:
        """An inquiry over some FILES, which have rows: what came of each part, wherever it was computed."""

    def reading(self) -> AbstractContextManager[None]:
        """The files that are there when this begins are there until it ends."""


class ClusterPanes(PaneStore):
    """`cluster` is None while nobody is to be answered: what is applied once more has been answered already."""

    kind = "cluster"

    def __init__(self, key_types: Sequence[pa.DataType], cluster: Cluster | None = None, version: int = 0) -> None:
        super().__init__(key_types, version)
        self.cluster = cluster
        self._files = FILES.empty_table()
        # What a micro-batch has brought and nobody has said yet that it is not too late.
        self._brought = FILES.empty_table()
        # The queries that have failed here, as of when and why: to be noted, or, while nobody is asked, to be repeated.
        self.failures: dict[str, tuple[Micros, str]] = {}
        # Of a frozen one: its files are being read.
        self._reading = ExitStack()

    # -- what it stores --------------------------------------------------------------------------------

    def require(self, partials: Sequence[Partial], since: Micros | None) -> None:
        for partial in partials:
            self.since.setdefault(partial, since)

    def release(self, kept: set[Partial]) -> None:
        self.since = {partial: since for partial, since in self.since.items() if partial in kept}

    @property
    def groups(self) -> int:
        """About as many as the fullest pane has rows: how many there are in all, only a job could tell."""
        return int(self._rows_by_pane().max(initial=0))

    @property
    def panes(self) -> int:
        return len(self._rows_by_pane())

    @property
    def rows(self) -> int:
        return int(np.asarray(self._files["rows"]).sum())

    @property
    def closed_rows(self) -> int:
        return self.rows

    def closed_groups(self) -> tuple[int, float]:
        return max(1, self.groups), max(1.0, self.rows / max(1, self.panes))

    def _rows_by_pane(self) -> NDArray[np.int64]:
        ends, places = np.unique(self._ends, return_inverse=True)
        return np.bincount(places, np.asarray(self._files["rows"]), len(ends)).astype(np.int64)

    @property
    def _ends(self) -> NDArray[np.int64]:
        return np.asarray(self._files["end"])

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.asarray(self._files["start"])

    @property
    def files(self) -> list[str]:
        names: list[str] = self._files["file"].to_pylist()
        return names

    # -- filling and forgetting ------------------------------------------------------------------------

    def bring(self, files: pa.Table) -> None:
        """What a micro-batch has written; `absorb` says which of it counts."""
        self._brought = files

    def absorb(self, rows: PaneRows, closed_until: Micros | None = None) -> None:
        """The panes that a micro-batch has tuples for: files of others came too late."""
        brought, self._brought = self._brought, FILES.empty_table()
        ends = np.asarray(brought["end"])
        self._files = pa.concat_tables([self._files, brought.filter(pa.array(np.isin(ends, rows.ends)))])
        if closed_until is not None and (rows.ends <= closed_until).any():
            self._version += 1

    def close(self, until: Micros) -> None:
        """Nothing is to be done: a window reads the files of panes that end by its own end."""

    def expire(self, before: Micros) -> None:
        self._files = self._files.filter(pa.array(self._starts >= before))

    def merge(self, before: Micros) -> None:
        """Files of windows without end stay as they are."""

    def next_end(self, after: Micros) -> Micros | None:
        later = self._ends[self._ends > after]
        return int(later.min()) if len(later) else None

    # -- answering -------------------------------------------------------------------------------------

    def is_empty(self, window: Window, now: Micros) -> bool:
        end = now - window.lag
        return not bool(((self._ends <= end) & (self._ends > end - window.length)).any())

    def straddles(self, edge: Micros) -> bool:
        return bool(((self._starts < edge) & (edge < self._ends)).any())

    def frozen(
        self,
        needs: Mapping[Window, list[Partial]],
        now: Micros,
        build: bool = False,
        partials: Collection[Partial] | None = None,
    ) -> Self:
        """The files of now, to be read once; they stay until then."""
        other = copy.copy(self)
        other.since, other._reading = self.since.copy(), ExitStack()
        if self.cluster is not None:
            other._reading.enter_context(self.cluster.reading())
        return other

    def read(
        self, parts: Sequence[AnswerPart], now: Micros, ahead: ReadAhead | None = None
    ) -> Iterator[tuple[int, PartResult | None]]:
        """One job in the cluster for all parts."""
        if self.cluster is None:
            yield from ((number, None) for number in range(len(parts)))
            return
        inquiry = Inquiry(tuple(parts), self.key_types, self.since, now)
        oldest, newest = inquiry.span()
        inside = (self._ends > oldest) & (self._ends <= newest)
        needed = self._files.filter(pa.array(inside))
        with self._reading:
            found = self.cluster.ask(inquiry, needed) if len(needed) else {}
        yield from inquiry.joined(found).items()

    # -- recovery --------------------------------------------------------------------------------------

    def note_failure(self, query: str, now: Micros, why: str) -> None:
        self.failures[query] = (now, why)

    def noted_failure(self, query: str, now: Micros) -> str | None:
        as_of, why = self.failures.get(query, (None, None))
        return why if as_of == now else None

    def to_table(self) -> pa.Table:
        return self._files

    def pane_tables(self) -> Iterator[pa.Table]:
        return iter(())

    def load_files(self, files: pa.Table) -> None:
        """Panes that were elsewhere before are in these files."""
        self._files = files

    def load(self, table: pa.Table, since: list[list[object]]) -> None:
        known = {tuple(saved[:-1]): saved[-1] for saved in since}
        self.since = {partial: known[partial.signature] for partial in self.since}  # type: ignore[misc]
        self._files = table
