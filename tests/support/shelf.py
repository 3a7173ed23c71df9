"""A cluster in this process: rows of panes by name, read by several workers that share nothing."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.cluster_panes import FILES, ClusterPanes, Inquiry, key_name, stored_panes, stored_rows
from sash.panes.pane_store import PartResult
from sash.runtime.periodic.pane_group import PaneGroup
from tests.support.duck_pass import aggregate

WORKERS = 3


class Shelf:
    """The files of one pane table."""

    def __init__(self) -> None:
        self._tables: dict[str, pa.Table] = {}
        self.inquiries = 0

    def put(self, rows: pa.Table) -> pa.Table:
        """Rows as files, one for each pane; and the facts about the files."""
        found = []
        ends, starts = np.asarray(rows["end"]), np.asarray(rows["start"])
        for end, start in sorted(set(zip(ends.tolist(), starts.tolist(), strict=True))):
            name = f"file-{len(self._tables)}"
            self._tables[name] = rows.filter(pa.array((ends == end) & (starts == start)))
            found.append({"file": name, "rows": len(self._tables[name]), "start": start, "end": end})
        return pa.Table.from_pylist(found, FILES)

    def ask(self, inquiry: Inquiry, files: pa.Table) -> dict[int, list[PartResult]]:
        self.inquiries += 1
        tables = [self._tables[name] for name in files["file"].to_pylist()]
        stored = pa.concat_tables(tables, promote_options="default")
        found: dict[int, list[PartResult]] = {}
        for by, numbers in inquiry.divisions().items():
            some = pickle.dumps(inquiry.only(numbers))
            for worker in _divided(stored, by):
                for place, columns in pickle.loads(some).read(worker):
                    found.setdefault(numbers[place], []).append(columns)
        return found

    @contextmanager
    def reading(self) -> Iterator[None]:
        yield


def _divided(rows: pa.Table, by: Sequence[int]) -> list[pa.Table]:
    """All rows that agree in some keys are at one worker; without keys all rows are."""
    if not by:
        return [rows]
    values = zip(*(rows[key_name(place)].to_pylist() for place in by), strict=True)
    workers = np.array([sum(repr(value).encode()) % WORKERS for value in values])
    return [some for worker in range(WORKERS) if len(some := rows.filter(pa.array(workers == worker)))]


def move(groups: Sequence[PaneGroup]) -> None:
    """Those that belong in the cluster go there."""
    for group in groups:
        if not group.in_cluster and (group.wants_cluster or group.is_too_large):
            shelf = Shelf()
            moved = [shelf.put(rows) for rows in stored_panes(group.panes)]
            group.move_to_cluster(shelf).load_files(pa.concat_tables([*moved, FILES.empty_table()]))


def bring(groups: Sequence[PaneGroup], declared: Stream, part: pa.Table) -> None:
    """What a micro-batch has for the tables that are there."""
    for group in groups:
        if group.in_cluster:
            table = group.full_table
            synopsis = BasicIntervalSynopsis([key.type for key in table.keys])
            synopsis.require(table.partials, None)
            for _, rows, _ in aggregate(declared, [table], part).lanes:
                synopsis.absorb(rows)
            shelf = panes_of(group).cluster
            assert isinstance(shelf, Shelf)
            panes_of(group).bring(shelf.put(stored_rows(synopsis)))


def panes_of(group: PaneGroup) -> ClusterPanes:
    assert group.cluster_panes is not None
    return group.cluster_panes
