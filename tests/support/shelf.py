"""A cluster in this process: rows of panes by name, read by several workers that share nothing."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from sash.catalog import Stream
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.cluster_panes import (
    FILES,
    ClusterPanes,
    Inquiry,
    key_name,
    stored_panes,
    stored_rows,
    stored_schema,
    value_name,
)
from sash.panes.pane_store import PartResult
from sash.runtime.periodic.pane_group import PaneGroup
from sash.sharing.groups import PaneTable
from tests.support.duck_pass import aggregate

WORKERS = 3


class Shelf:
    """The files of one pane table."""

    def __init__(self) -> None:
        self._tables: dict[str, pa.Table] = {}
        self.inquiries = 0
        # How many rows of short lists have left the shelf.
        self.listed_rows = 0

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

    def lists(self, files: pa.Table, table: PaneTable) -> pa.Table:
        """Short lists the obvious way: count in dictionaries, sort, take the first k, for each condition."""
        rule, schema = table.name.lists, stored_schema([key.type for key in table.keys], table.partials)
        assert rule is not None
        names = [value_name(partial, 0) for partial in table.partials]
        identity = [name for name in schema.names if name not in names]
        counts: dict[tuple[object, ...], dict[str, int]] = {}
        for row in (row for name in files["file"].to_pylist() for row in self._tables[name].to_pylist()):
            mine = counts.setdefault(tuple(row[name] for name in identity), dict.fromkeys(names, 0))
            for name in names:
                mine[name] += row.get(name) or 0
        item = identity.index(key_name(rule.item))
        kept: dict[tuple[object, ...], None] = {}
        for name in names:
            listed: Counter[tuple[object, ...]] = Counter()
            found = [(pair, n[name]) for pair, n in counts.items() if n[name] > 0 and pair[item] is not None]
            for pair, _ in sorted(found, key=lambda each: (-each[1], each[0][item])):
                owner = (*pair[:2], *(pair[2 + place] for place in rule.group))
                listed[owner] += 1
                if listed[owner] <= rule.k:
                    kept[pair] = None
        rows = [dict(zip(identity, pair, strict=True)) | counts[pair] for pair in kept]
        self.listed_rows += len(rows)
        return pa.Table.from_pylist(rows, schema)

    @contextmanager
    def reading(self) -> Iterator[None]:
        yield


# The shelves of groups.
SHELVES: WeakKeyDictionary[PaneGroup, Shelf] = WeakKeyDictionary()
Closes = Callable[[PaneGroup], int | None]


def _divided(rows: pa.Table, by: Sequence[int]) -> list[pa.Table]:
    """All rows that agree in some keys are at one worker; without keys all rows are."""
    if not by:
        return [rows]
    values = zip(*(rows[key_name(place)].to_pylist() for place in by), strict=True)
    workers = np.array([sum(repr(value).encode()) % WORKERS for value in values])
    return [some for worker in range(WORKERS) if len(some := rows.filter(pa.array(workers == worker)))]


def move(groups: Sequence[PaneGroup], with_lists: bool = False) -> None:
    """Those that belong in the cluster go there; open panes of short lists only if it is asked for."""
    for group in groups:
        by_itself = group.belongs_there if with_lists else group.is_too_large
        if not group.in_cluster and (group.wants_cluster or by_itself):
            shelf = SHELVES[group] = Shelf()
            moved = [shelf.put(rows) for rows in stored_panes(group.panes)]
            group.move_to_cluster(pa.concat_tables([*moved, FILES.empty_table()])).attach(shelf, {})
            group.choose()


def bring(groups: Sequence[PaneGroup], declared: Stream, part: pa.Table, closes: Closes) -> None:
    """What a micro-batch has for the tables that are there. `closes`: up to where it closes the panes of a group."""
    for group in groups:
        if group.in_cluster:
            table = group.full_table
            synopsis = BasicIntervalSynopsis([key.type for key in table.keys])
            synopsis.require(table.partials, None)
            for _, rows, _ in aggregate(declared, [table], part).lanes:
                synopsis.absorb(rows)
            shelf = SHELVES[group]
            files = shelf.put(stored_rows(synopsis))
            bring_lists(group, files, closes(group))


def bring_lists(group: PaneGroup, files: pa.Table, until: int | None) -> None:
    """The files of a micro-batch, and the lists of the panes that close up to a time."""
    panes = group.panes
    closing = FILES.empty_table() if until is None else panes.closing(files, group.clock.now, until)
    if len(closing):
        panes.bring(files, np.unique(np.asarray(closing["end"])), SHELVES[group].lists(closing, group.full_table))
    else:
        panes.bring(files)


def panes_of(group: PaneGroup) -> ClusterPanes:
    assert isinstance(group.panes, ClusterPanes)
    return group.panes
