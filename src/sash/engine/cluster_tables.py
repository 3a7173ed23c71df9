"""The pane tables of a stream that are in the cluster: who goes there, their files, and what is logged about them.

    before a micro-batch   a group that wants to be there, or has become too large, moves: its panes become files
    its pass               the rows of such a table go from Spark to files; this process gets their names, and how many
                           tuples each pane has
    its commit             the entry has the names; files that no window reaches any more are let go

No row of such a table comes to this process, but for those of answers.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sash.core.errors import SashError
from sash.core.events import report
from sash.engine.compiler import CompiledQuery
from sash.engine.group import PaneGroup
from sash.engine.stream import StreamRuntime
from sash.sharing.choose import CLUSTER
from sash.spark.panes import ask_panes
from sash.spark.pipeline import Pipeline
from sash.storage.window_files import PANE, WindowFiles
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.cluster import FILES, ClusterPanes, Found, Inquiry, stored_rows

logger = logging.getLogger("sash.engine")

# Names of files with the directory of their table.
_NAMED = FILES.append(pa.field("table", pa.string()))


def directory_of(group: PaneGroup) -> str:
    return hashlib.blake2b(group.label.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class _Cluster:
    """The files of one pane table, and Spark to read them."""

    files: WindowFiles
    pipeline: Callable[[], Pipeline]

    def ask(self, inquiry: Inquiry, files: pa.Table) -> Mapping[int, Sequence[Found]]:
        self.files.check(files)
        paths, rows = map(self.files.path, files["file"].to_pylist()), int(np.asarray(files["rows"]).sum())
        return ask_panes(self.pipeline().session, inquiry, list(paths), rows)

    def reading(self) -> AbstractContextManager[None]:
        return self.files.reading()


class ClusterTables:
    """`place` is the directory of the tables' directories; None where executors could not see it."""

    def __init__(
        self,
        stream: str,
        runtime: StreamRuntime,
        pipeline: Callable[[], Pipeline],
        place: Callable[[], Path] | None,
        durable: bool,
    ) -> None:
        self._stream = stream
        self._runtime = runtime
        self._pipeline = pipeline
        self._place = place
        self._durable = durable
        runtime.may_move = place is not None
        self._files: dict[str, WindowFiles] = {}
        # What has moved and is in no entry yet: directories, and the files of their panes.
        self._moved: dict[str, pa.Table] = {}
        # What the micro-batch in hand has written.
        self._written: list[pa.Table] = []

    # -- moving there ----------------------------------------------------------------------------------

    def check(self, query: CompiledQuery) -> None:
        """Refuse what cannot be there."""
        if query.synopsis != CLUSTER:
            return
        if self._runtime.stream.shed is not None:
            raise SashError(
                f"stream '{self._stream}' may SHED load, which is scaled in this process: leave out STORED IN CLUSTER"
            )
        if self._place is None:
            raise SashError(
                f"stream '{self._stream}': STORED IN CLUSTER needs a directory that all executors see: connect with a "
                "checkpoint on a file system that they share"
            )

    def move(self, epoch: int) -> None:
        """Groups that belong there and are not: their panes become files. Under the isolation level's lock."""
        if self._place is None:
            return
        for group in self._runtime.ordered():
            if not group.in_cluster and group.belongs_in_cluster:
                directory = directory_of(group)
                files = self._files_of(directory)
                before = group.move_to_cluster(_Cluster(files, self._pipeline))
                moved = _written(before, files, epoch)
                _panes_of(group).load_files(moved)
                self._moved[directory] = moved
                told = "stream %(stream)s: the panes of %(groups)s go to the cluster, %(rows)d rows of them"
                report(logger, logging.INFO, "panes.moved", told, stream=self._stream, groups=group.label,
                       rows=before.rows)  # fmt: skip

    def _files_of(self, directory: str) -> WindowFiles:
        if directory not in self._files:
            assert self._place is not None, "where nothing can be seen, nothing moves"
            self._files[directory] = WindowFiles(self._place() / directory, self._durable)
        return self._files[directory]

    # -- a micro-batch ---------------------------------------------------------------------------------

    def write(self, rows: Any, epoch: int) -> None:
        """What the tables in the cluster want of a micro-batch, a DataFrame."""
        self._written = []
        for group in self._groups():
            directory = directory_of(group)
            files = self._files_of(directory)
            place = files.place(epoch)
            self._pipeline().write_panes(rows, group.full_table, place)
            found = files.found(place)
            starts = pa.array(np.asarray(found["end"]) - group.length)
            named = found.append_column("start", starts).append_column("table", pa.array([directory] * len(found)))
            self._written.append(named.select(_NAMED.names).cast(_NAMED))

    def _groups(self) -> Iterator[PaneGroup]:
        return (group for group in self._runtime.ordered() if group.in_cluster)

    def bring(self) -> None:
        """What was written comes to the groups, which take what is not too late."""
        self._bring(pa.concat_tables([*self._written, _NAMED.empty_table()]))

    def _bring(self, named: pa.Table) -> None:
        for group in self._groups():
            mine = np.asarray(named["table"].to_numpy()) == directory_of(group)
            _panes_of(group).bring(named.filter(pa.array(mine)).select(FILES.names))

    # -- the log ---------------------------------------------------------------------------------------

    def facts(self, failed: Mapping[str, str]) -> dict[str, Any]:
        """For an entry: what has moved, and which queries have failed where only a job could tell."""
        there = {name for group in self._groups() for name, _ in group.readers}
        failed_there = {name: why for name, why in failed.items() if name in there}
        return {"moved": sorted(self._moved), "failed_there": failed_there}

    def tables(self) -> dict[str, pa.Table]:
        moved = [_with_table(files, directory) for directory, files in self._moved.items()]
        named = {"moved": moved, "panes": self._written}
        return {name: pa.concat_tables(tables) for name, tables in named.items() if tables}

    def settle(self) -> None:
        """An entry has been committed."""
        groups = {directory_of(group): _panes_of(group).files for group in self._groups()}
        for named in self._written:
            for directory in named["table"].unique().to_pylist():
                # What came too late for its pane nobody has seen.
                self._files[directory].hold(named["file"].to_pylist())
        for directory, files in self._files.items():
            files.retain(groups.get(directory, ()))
        self._moved, self._written = {}, []

    # -- recovery --------------------------------------------------------------------------------------

    def replay(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """What an entry says has moved, and what it brought, before it is applied."""
        for group in self._runtime.ordered():
            if (directory := directory_of(group)) in facts.get("moved", ()):
                group.move_to_cluster(None)
                _panes_of(group).load_files(_of_table(tables["moved"], directory))
        self._bring(tables.get("panes", _NAMED.empty_table()))

    def recovered(self) -> None:
        """The state is that of the last entry: from now on its files are read, and there are no others."""
        for group in self._groups():
            files = self._files_of(directory_of(group))
            files.check_sizes(_panes_of(group).to_table())
            files.keep_only(_panes_of(group).files)
            _panes_of(group).cluster = _Cluster(files, self._pipeline)
        if self._place is not None and self._durable and self._place().exists():
            for directory in self._place().iterdir():
                if directory.name not in self._files:
                    shutil.rmtree(directory, ignore_errors=True)


def _written(panes: BasicIntervalSynopsis, files: WindowFiles, epoch: int) -> pa.Table:
    """Panes that have moved, as files."""
    rows, place, starts = stored_rows(panes), files.place(epoch, "-moved"), dict[str, int]()
    spans = pa.table([rows["start"], rows["end"]], names=["start", "end"]).group_by(["start", "end"]).aggregate([])
    for number, (start, end) in enumerate(zip(*(spans[name].to_pylist() for name in ("start", "end")), strict=True)):
        path = place / f"{PANE}={end}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        inside = (np.asarray(rows["start"]) == start) & (np.asarray(rows["end"]) == end)
        pq.write_table(rows.filter(pa.array(inside)), path, coerce_timestamps="us")
        starts[f"{path.parent.name}/{path.name}"] = start
    found = files.found(place)
    of_files = [starts["/".join(Path(name).parts[-2:])] for name in found["file"].to_pylist()]
    return found.append_column("start", pa.array(of_files, pa.int64())).select(FILES.names).cast(FILES)


def _with_table(files: pa.Table, directory: str) -> pa.Table:
    return files.append_column("table", pa.array([directory] * len(files), pa.string())).cast(_NAMED)


def _of_table(named: pa.Table, directory: str) -> pa.Table:
    return named.filter(pa.array(named["table"].to_numpy() == directory)).select(FILES.names)


def _panes_of(group: PaneGroup) -> ClusterPanes:
    assert isinstance(group.synopsis, ClusterPanes)
    return group.synopsis
