"""The pane tables of a stream that are in the cluster: which tables go there, their files, and their log entries.

    before a micro-batch   a group that wants to be there, or has become too large, moves: its panes become files
    its pass               the rows of such a table go from Spark to files; this process gets their names, and how many
                           tuples each pane has
    panes that close       of a table of short lists: a job makes their lists of their files, which are not read again
    its commit             the entry has the names and the lists; files that nobody reads any more are removed

This process gets no row of such a table except the rows of answers and of short lists.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sash.core.errors import SashError
from sash.core.events import report
from sash.core.faults import around
from sash.core.time import Micros
from sash.panes.cluster_panes import Inquiry, stored_panes
from sash.panes.pane_rows import BatchFacts
from sash.panes.pane_store import FILES, PaneStore, PartResult
from sash.panes.readings import TableName
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.records.journal import ClusterChanges
from sash.runtime.spark_pass import StreamSource
from sash.sharing.choose import CLUSTER
from sash.sharing.groups import PaneTable
from sash.spark.pane_files import ask_or_blame
from sash.storage.files import remove, stream_bytes, written
from sash.storage.window_files import PANE, WindowFiles

logger = logging.getLogger("sash.runtime")

# Names of files with the directory of their table.
_NAMED = FILES.append(pa.field("table", pa.string()))
_LISTS = pa.schema([("table", pa.string()), ("ends", pa.list_(pa.int64())), ("rows", pa.large_binary())])


def directory_of(group: PaneGroup) -> str:
    return hashlib.blake2b(group.label.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class _Cluster:
    """The files of one pane table, and Spark to read them. `away`: others may have the windows meanwhile."""

    files: WindowFiles
    source: StreamSource
    away: Callable[[], AbstractContextManager[None]]

    def ask(self, inquiry: Inquiry, files: pa.Table) -> Mapping[int, Sequence[PartResult]]:
        self.files.check(files)
        paths, rows = list(map(self.files.path, files["file"].to_pylist())), int(np.asarray(files["rows"]).sum())
        with self.away():
            return ask_or_blame(self.source.pipeline.session, inquiry, paths, rows)

    def reading(self) -> AbstractContextManager[None]:
        return self.files.reading()


@dataclass(frozen=True)
class ClusterDirectories:
    """The place of the tables' directories. `by_size`: tables that become too large go there by themselves.

    On a cluster they do not: only the user knows whether its executors see the directory.
    """

    directory: Callable[[], Path]
    durable: bool
    by_size: bool


class ClusterTables:
    """`place` is None if executors could not see it."""

    def __init__(
        self,
        runtime: StreamRuntime,
        source: StreamSource,
        place: ClusterDirectories | None,
        away: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._stream = runtime.stream.name
        self._runtime = runtime
        self._source = source
        self._place = place
        self._away = away
        runtime.may_move = place is not None and place.by_size
        # How many queries want a pane table in the cluster, and how many read it through an UNBOUNDED window.
        self._wanted: Counter[TableName] = Counter()
        self._endless: Counter[TableName] = Counter()
        self.files: dict[str, WindowFiles] = {}
        # Tables that have moved since the last entry: directories, and the files of their panes.
        self._moved: dict[str, pa.Table] = {}
        # The files of the current micro-batch, and whether groups have them.
        self._written: list[pa.Table] = []
        self._brought = False
        # The short lists of the panes that close next, and the ends of these panes, by directory.
        self._lists: dict[str, tuple[NDArray[np.int64], pa.Table]] = {}
        # Queries that failed in the current micro-batch, as of when and why.
        self._failures: dict[str, tuple[Micros, str]] = {}
        # The files of each table as of the entry before the last one: recovery needs them if the last one is damaged.
        self._before: dict[str, list[str]] = {}

    # -- claims of queries -----------------------------------------------------------------------------

    def claim(self, query: CompiledQuery) -> None:
        """A query is registered."""
        self._wanted.update(_wanted_there(query))
        self._endless.update(_read_without_end(query))

    def release(self, query: CompiledQuery) -> None:
        """A query with a claim is not registered any more."""
        self._wanted.subtract(_wanted_there(query))
        self._endless.subtract(_read_without_end(query))

    def _is_there(self, table: TableName) -> bool:
        """Whether a pane table is in the cluster, or will be."""
        group = self._runtime.groups.get(table)
        return self._wanted[table] > 0 or (group is not None and group.in_cluster)

    def check(self, query: CompiledQuery) -> None:
        """Refuse a query that cannot be in the cluster, or cannot read a table there; check only its tables."""
        for reading in query.readings:
            if reading.window.unbounded and reading.table.keys and self._is_there(reading.table):
                raise SashError(
                    f"the panes by {reading.table.label} of stream '{self._stream}' are stored in the cluster, where "
                    "an UNBOUNDED window would keep every file: drop their queries, or group by something else"
                )
        if query.synopsis != CLUSTER:
            return
        if shared := [reading.table.label for reading in query.readings if self._endless[reading.table]]:
            raise SashError(
                f"UNBOUNDED windows read the panes by {shared[0]}, too, and would keep every file: leave out STORED IN "
                "CLUSTER, or group by something else"
            )
        if self._runtime.stream.shed is not None:
            raise SashError(
                f"stream '{self._stream}' may SHED load, which is scaled in this process: leave out STORED IN CLUSTER"
            )
        if self._place is None:
            raise SashError(
                f"stream '{self._stream}': STORED IN CLUSTER needs a directory that all executors see: connect with a "
                "checkpoint on a file system that they share"
            )

    # -- moving there ----------------------------------------------------------------------------------

    def move(self, epoch: int) -> None:
        """Move the groups that belong into the cluster: their panes become files. Under the isolation level's lock."""
        if self._place is None:
            return
        for group in self._runtime.ordered():
            by_itself = self._place.by_size and group.belongs_there
            if not group.in_cluster and (group.wants_cluster or by_itself):
                directory, rows = directory_of(group), group.panes.rows
                files = self._files_of(directory)
                # All files exist before anything changes here.
                moved = _written(group.panes, files, epoch)
                self._move(group, _Cluster(files, self._source, self._away), moved)
                self._moved[directory] = moved
                if group.name.lists is not None:
                    continue
                told = "stream %(stream)s: the panes of %(groups)s go to the cluster, %(rows)d rows of them"
                report(logger, logging.INFO, "panes.moved", told, stream=self._stream, groups=group.label, rows=rows)

    def _move(self, group: PaneGroup, cluster: _Cluster | None, files: pa.Table) -> None:
        group.move_to_cluster(files).attach(cluster, self._failures)
        group.choose()

    def _files_of(self, directory: str) -> WindowFiles:
        if directory not in self.files:
            assert self._place is not None, "where nothing can be seen, nothing moves"
            self.files[directory] = WindowFiles(self._place.directory() / directory, self._place.durable)
        return self.files[directory]

    # -- a micro-batch ---------------------------------------------------------------------------------

    def write(self, rows: Any, epoch: int) -> None:
        """Write the rows of a micro-batch, a DataFrame, for the tables in the cluster."""
        self._written, self._brought = [], False
        for group in (group for group in self._runtime.ordered() if group.in_cluster):
            directory = directory_of(group)
            files = self._files_of(directory)
            place = files.place(epoch)
            self._source.pipeline.write_panes(rows, group.full_table, place)
            found = files.found(place)
            starts = pa.array(np.asarray(found["end"]) - group.clock.length)
            named = found.append_column("start", starts).append_column("table", pa.array([directory] * len(found)))
            self._written.append(named.select(_NAMED.names).cast(_NAMED))

    def check_written(self, batch: BatchFacts) -> None:
        """Check that every pane with tuples has a file. Executors that do not see the directory write elsewhere."""
        groups = [group for group in self._runtime.ordered() if not group.name.by_rows]
        written = self._all_written()
        for number, rows, _ in batch.lanes:
            if groups[number].in_cluster:
                found = np.asarray(_of_table(written, directory_of(groups[number]))["end"])
                if not np.isin(rows.ends, found).all():
                    raise SashError(
                        f"stream '{self._stream}': executors have written panes by {groups[number].label} to files "
                        "that are not here: connect with a checkpoint on a file system that they share"
                    )

    def _all_written(self) -> pa.Table:
        return pa.concat_tables([*self._written, _NAMED.empty_table()])

    def _tables(self) -> Iterator[tuple[str, PaneGroup]]:
        """The tables in the cluster, with their directories."""
        for group in self._runtime.ordered():
            if group.in_cluster:
                yield directory_of(group), group

    def cut(self, watermark: Micros | None, is_batch: bool) -> None:
        """Make the short lists of the panes that a watermark, or the end of input (None), is about to close.

        `is_batch`: a micro-batch has written files; those of a failed attempt do not count.
        """
        self._lists = {}
        if not is_batch:
            self._written = []
        every = self._all_written()
        for directory, group in self._tables():
            until, written = self._runtime.closes(group, watermark), _of_table(every, directory)
            closing = None if until is None else group.panes.closing(written, group.clock.now, until)
            if closing is not None and len(closing):
                lists = self._listed(self._files_of(directory), closing, group.full_table)
                self._lists[directory] = np.unique(np.asarray(closing["end"])), lists

    def _listed(self, files: WindowFiles, closing: pa.Table, table: PaneTable) -> pa.Table:
        files.check(closing)
        paths = list(map(files.path, closing["file"].to_pylist()))
        return self._source.pipeline.short_lists(paths, table)

    def bring(self) -> None:
        """Give the written files and the lists to the groups, which take the files that are not too late."""
        self._brought = True
        self._bring(self._all_written())

    def _bring(self, named: pa.Table) -> None:
        for directory, group in self._tables():
            group.panes.bring(_of_table(named, directory), *self._lists.get(directory, (None, None)))

    # -- the log ---------------------------------------------------------------------------------------

    def changes(self, failed: Mapping[str, str]) -> ClusterChanges:
        """For an entry: the tables that have moved, the new files, and the queries that failed in a job."""
        there = {name: how for name, how in self._failures.items() if name in failed}
        moved = [_with_table(files, directory) for directory, files in self._moved.items()]
        brought = self._written if self._brought else []
        files, written = (pa.concat_tables(tables) if tables else None for tables in (moved, brought))
        return ClusterChanges(sorted(self._moved), there, files, written, _packed(self._lists))

    def settle(self, taken_back: bool) -> None:
        """An entry has been committed. `taken_back`: recovery goes back before it if its file is damaged."""
        now = {directory: group.panes.files for directory, group in self._tables()}
        for directory, files in self.files.items():
            names = now.get(directory, [])
            files.retain([*names, *self._before.get(directory, [])] if taken_back else names)
        self._before = now
        self._moved, self._written, self._brought, self._lists = {}, [], False, {}
        self._failures.clear()

    def drop(self) -> None:
        """Drop the files of the stream; wait for readers."""
        for files in self.files.values():
            files.drop()

    # -- recovery --------------------------------------------------------------------------------------

    def replay(self, changes: ClusterChanges) -> None:
        """Repeat the moves, the files and the failures of an entry, before it is applied."""
        self._failures.clear()
        self._failures.update(changes.failed_there)
        for group in self._runtime.ordered():
            if (directory := directory_of(group)) in changes.moved:
                self._move(group, None, _of_table(changes.moved_files, directory))
        for _, group in self._tables():
            group.panes.attach(None, self._failures)
        self._lists = _unpacked(changes.lists)
        self._bring(_NAMED.empty_table() if changes.pane_files is None else changes.pane_files)

    def recovered(self) -> None:
        """The state is that of the last entry: keep its files, and remove all others."""
        self._failures.clear()
        self._lists = {}
        for directory, group in self._tables():
            files, panes = self._files_of(directory), group.panes
            files.check_sizes(panes.without(()))
            files.keep_only(panes.files)
            panes.attach(_Cluster(files, self._source, self._away), self._failures)
            self._before[directory] = panes.files
        if self._place is not None and self._place.durable and self._place.directory().exists():
            for path in self._place.directory().iterdir():
                if path.name not in self.files:
                    remove(path)


def _wanted_there(query: CompiledQuery) -> list[TableName]:
    return [reading.table for reading in query.readings if query.synopsis == CLUSTER]


def _read_without_end(query: CompiledQuery) -> list[TableName]:
    return [reading.table for reading in query.readings if reading.window.unbounded]


def _written(panes: PaneStore, files: WindowFiles, epoch: int) -> pa.Table:
    """Write the panes of a table that moves, as files."""
    place, starts = files.place(epoch, "-moved"), dict[str, int]()
    for number, rows in enumerate(stored_panes(panes)):
        if not len(rows):
            continue
        path = place / f"{PANE}={rows['end'][0]}" / f"part-{number}.parquet"
        with written(path), around("write", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path, coerce_timestamps="us")
        starts[f"{path.parent.name}/{path.name}"] = rows["start"][0].as_py()
    found = files.found(place)
    of_files = [starts["/".join(Path(name).parts[-2:])] for name in found["file"].to_pylist()]
    return found.append_column("start", pa.array(of_files, pa.int64())).select(FILES.names).cast(FILES)


def _with_table(files: pa.Table, directory: str) -> pa.Table:
    return files.append_column("table", pa.array([directory] * len(files), pa.string())).cast(_NAMED)


def _of_table(named: pa.Table, directory: str) -> pa.Table:
    return named.filter(pa.array(named["table"].to_numpy() == directory)).select(FILES.names)


def _packed(lists: Mapping[str, tuple[NDArray[np.int64], pa.Table]]) -> pa.Table | None:
    """The short lists of several tables in one: their columns differ, so they are bytes."""
    if not lists:
        return None
    rows = [{"table": d, "ends": ends.tolist(), "rows": stream_bytes(rows)} for d, (ends, rows) in lists.items()]
    return pa.Table.from_pylist(rows, _LISTS)


def _unpacked(packed: pa.Table | None) -> dict[str, tuple[NDArray[np.int64], pa.Table]]:
    rows = [] if packed is None else packed.to_pylist()
    return {row["table"]: (np.array(row["ends"]), pa.ipc.open_stream(row["rows"]).read_all()) for row in rows}
