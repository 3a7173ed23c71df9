"""ClusterPanes: the files of a pane table whose rows are in the cluster, in place of the panes themselves.

ClusterPanes knows which panes have tuples. Inquiries read the rows, and a cluster carries out inquiries. A job has all
rows of some groups, so that the columns of these groups are final. The job also applies HAVING and LIMIT, so only rows
that may be in an answer travel. COUNT(DISTINCT x) of each k reads a table of (k, x), and must find all x of a k in one
place (`_divided_by`).

A row in a file has its span, its key values and the components of its partials. A partial's columns are named after its
contents, so that files of other queries can be read together: a file lacks the columns of later partials, and has those
of partials that nobody reads any more.

Needs: windows over time. Space: here, a row for each file; in files, groups x panes for each micro-batch that touches
a pane.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.core.time import Micros
from sash.core.window import Window
from sash.panes.aggregates.item_lists import WeightedItems
from sash.panes.answers import sorted_and_limited
from sash.panes.basic_interval import BasicIntervalSynopsis
from sash.panes.pane_rows import PaneRows
from sash.panes.pane_store import (
    FAILURES,
    FILES,
    SPAN,
    AnswerPart,
    PaneStore,
    PartFailure,
    PartResult,
    WindowNeeds,
    needs_of,
)
from sash.panes.partials import Combine, Partial
from sash.panes.readers import Columns
from sash.plan.expressions import Field
from sash.plan.nodes import SortKey


def key_name(place: int) -> str:
    return f"key{place}"


def value_name(partial: Partial, component: int) -> str:
    text = "\0".join(partial.signature).encode()
    return f"v_{hashlib.blake2b(text, digest_size=8).hexdigest()}_{component}"


def stored_schema(keys: Sequence[pa.DataType], partials: Sequence[Partial]) -> pa.Schema:
    names = [*((name, pa.int64()) for name in SPAN), *((key_name(i), type) for i, type in enumerate(keys))]
    values = [(value_name(p, i), _type(p, i)) for p in partials for i in range(len(p.dtypes))]
    return pa.schema([*names, *values])


def _type(partial: Partial, component: int) -> pa.DataType:
    if partial.combine is Combine.UNION:
        return pa.binary()
    if partial.ranked:
        return partial.type
    return pa.float64() if partial.dtypes[component] is np.float64 else pa.int64()


def stored_rows(panes: PaneStore) -> pa.Table:
    """Every row of panes in this process."""
    return _stored(panes, panes.to_table())


def stored_panes(panes: PaneStore) -> Iterator[pa.Table]:
    """The same, pane by pane: a caller that moves many rows has no memory for a second copy of all."""
    return (_stored(panes, table) for table in panes.pane_tables())


def _stored(panes: PaneStore, table: pa.Table) -> pa.Table:
    partials = list(panes.since)
    schema = stored_schema(panes.key_types, partials)
    numbers = [(number, i) for number, partial in enumerate(partials) for i in range(len(partial.dtypes))]
    keys = [key_name(place) for place in range(len(panes.key_types))]
    names = [*SPAN, *keys, *(f"value{number}_{i}" for number, i in numbers)]
    return table.select(names).rename_columns(schema.names).cast(schema)


def synopsis_of(
    table: pa.Table, keys: Sequence[pa.DataType], since: Mapping[Partial, Micros | None], now: Micros
) -> BasicIntervalSynopsis:
    """The panes of such rows, closed up to a time; a partial that a file lacks is absent."""
    synopsis = BasicIntervalSynopsis(list(keys))
    for partial, start in since.items():
        synopsis.require([partial], start)
    synopsis.load(as_snapshot(table, keys, list(since)), synopsis.save_since())
    synopsis.close(now)
    return synopsis


def as_snapshot(table: pa.Table, keys: Sequence[pa.DataType], partials: Sequence[Partial]) -> pa.Table:
    """The rows as `BasicIntervalSynopsis.load` takes them: those of one pane follow each other, all panes are open."""
    table = table.sort_by([(name, "ascending") for name in reversed(SPAN)]).combine_chunks()
    starts, ends = (np.asarray(table[name]) for name in SPAN)
    changes = (np.diff(starts, prepend=starts[:1]) != 0) | (np.diff(ends, prepend=ends[:1]) != 0)
    columns = {name: table[name] for name in SPAN}
    columns |= {"part": pa.array(np.cumsum(changes)), "closed": pa.array(np.zeros(len(table), dtype=np.bool_))}
    columns |= {key_name(i): table[key_name(i)].cast(type) for i, type in enumerate(keys)}
    for number, partial in enumerate(partials):
        for i in range(len(partial.dtypes)):
            columns[f"value{number}_{i}"] = _component(table, partial, i)
    return pa.table(columns)


def _component(table: pa.Table, partial: Partial, component: int) -> pa.ChunkedArray | pa.Array:
    name, type = value_name(partial, component), _type(partial, component)
    column = table[name].cast(type) if name in table.column_names else pa.nulls(len(table), type)
    # For values and sketches a missing value is the identity already.
    absent = partial.ranked or partial.combine is Combine.UNION
    return column if absent else column.fill_null(pa.scalar(partial.identity(component), type))


@dataclass(frozen=True)
class Inquiry:
    """Some parts over one pane table, as of a time. `since` and `ends` as in `PaneStore`."""

    parts: tuple[AnswerPart, ...]
    keys: tuple[pa.DataType, ...]
    since: Mapping[Partial, Micros | None]
    now: Micros
    ends: tuple[Micros, ...] = ()

    @cached_property
    def needs(self) -> dict[Window, list[Partial]]:
        return needs_of(self.parts)

    @cached_property
    def partials(self) -> list[Partial]:
        return list(dict.fromkeys(partial for needed in self.needs.values() for partial in needed))

    @property
    def schema(self) -> pa.Schema:
        """The columns of stored rows that it reads."""
        return stored_schema(self.keys, self.partials)

    def span(self) -> tuple[Micros, Micros]:
        """It reads panes after the first time and up to the second."""
        windows = list(self.needs)
        oldest = min(window.start(self.now) for window in windows)
        return oldest, max(window.end(self.now) for window in windows)

    def divisions(self) -> dict[tuple[int, ...], list[int]]:
        """The parts, by number, that one division of the groups can compute, and the keys of the division.

        A part that reads the groups of all keys accepts any division by some of them.
        """
        everything = tuple(range(len(self.keys)))
        found: dict[tuple[int, ...], list[int]] = {}
        for number, part in enumerate(self.parts):
            found.setdefault(_divided_by(part), []).append(number)
        others = [by for by in found if by and by != everything]
        if everything in found and others:
            found[others[0]] += found.pop(everything)
        return found

    def only(self, numbers: Sequence[int]) -> Inquiry:
        return replace(self, parts=tuple(self.parts[number] for number in numbers))

    def read(self, table: pa.Table) -> Iterator[tuple[int, PartResult]]:
        """The results of the parts, by number, in stored rows: all rows of some groups.

        The results lack groups that cannot be in the answer.
        """
        since = {partial: self.since[partial] for partial in self.partials}
        synopsis = synopsis_of(table, self.keys, since, self.now)
        synopsis.ends = self.ends
        for number, found in synopsis.read(self.parts, self.now):
            yield number, found if isinstance(found, PartFailure) else _leading(self.parts[number], found, self.now)

    def joined(self, found: Mapping[int, Sequence[PartResult]]) -> dict[int, PartResult]:
        """Each part's columns over all groups."""
        missing = [number for number in range(len(self.parts)) if not found.get(number)]
        # Without any row, a window without tuples still has an answer.
        nothing = self.only(missing).read(self.schema.empty_table()) if missing else ()
        empty = {missing[place]: [columns] for place, columns in nothing}
        return {number: _joined(self.parts[number], each) for number, each in {**found, **empty}.items()}


def _divided_by(part: AnswerPart) -> tuple[int, ...]:
    """The places of the keys that identify a part's groups: rows that agree in them must be read together."""
    return tuple(range(len(part.stored.table.keys))) if _is_one_list(part) else part.chosen.group


def _is_one_list(part: AnswerPart) -> bool:
    """Whether the part is a list of items without GROUP BY: lists of disjoint items make up the list of all."""
    return isinstance(part.chosen, WeightedItems) and not part.chosen.group


def _leading(part: AnswerPart, columns: Columns, now: Micros) -> PartResult:
    # With several readers HAVING may refer to columns of the others; LIMIT is for the list of all items.
    if len(part.finisher.readers) > 1 or _is_one_list(part):
        return columns
    try:
        return part.finisher.leading(columns, now)
    except FAILURES as error:
        return PartFailure(str(error))


def _joined(part: AnswerPart, found: Sequence[PartResult]) -> PartResult:
    """A part's columns over all groups, from the columns of some groups at a time."""
    if failures := sorted(each.why for each in found if isinstance(each, PartFailure)):
        return PartFailure(failures[0])
    columns = [each for each in found if isinstance(each, Columns)]
    if len(columns) == 1:
        return columns[0]
    try:
        keys, fields = (
            {
                name: pa.concat_arrays([getattr(each, kind)[name] for each in columns])
                for name in getattr(columns[0], kind)
            }
            for kind in ("keys", "fields")
        )
        whole = Columns(keys, fields, sum(each.count for each in columns))
        return _one_list(part, whole) if _is_one_list(part) else whole
    except FAILURES as error:
        return PartFailure(str(error))


def _one_list(part: AnswerPart, columns: Columns) -> Columns:
    query = part.finisher.query
    *_, item = query.keys
    (call,), rule = query.calls, query.items
    assert rule is not None
    # In TOP's order of items; a histogram has its items in their own order.
    weight = (SortKey(Field(call.name, columns.fields[call.name].type), descending=True, nulls_first=False),)
    order = (*(weight if rule.count is not None else ()), SortKey(Field(item.name, item.expression.type)))
    fields, rows = sorted_and_limited({**columns.keys, **columns.fields}, columns.count, order, rule.count)
    keys, others = ({name: fields[name] for name in kind} for kind in (columns.keys, columns.fields))
    return Columns(keys, others, rows)


class Cluster(Protocol):
    """The owner of the files."""

    def ask(self, inquiry: Inquiry, files: pa.Table) -> Mapping[int, Sequence[PartResult]]:
        """Carry out an inquiry over some FILES, which have rows; the result is what each job found of each part."""

    def reading(self) -> AbstractContextManager[None]:
        """Inside, the files that exist at the beginning stay."""


class ClusterPanes(PaneStore):
    """`cluster` is None during recovery: replayed epochs have been answered already."""

    kind = "cluster"
    is_read_by_job = True

    def __init__(self, key_types: Sequence[pa.DataType], cluster: Cluster | None = None, version: int = 0) -> None:
        super().__init__(key_types, version)
        self.cluster = cluster
        self._files = FILES.empty_table()
        # The files of a micro-batch, until `absorb` says which of them are not too late.
        self._brought = FILES.empty_table()
        # Failed queries, as of when and why: noted for the log, or, during recovery, repeated.
        self.failures: dict[str, tuple[Micros, str]] = {}
        # In a frozen store: its files are being read.
        self._reading = ExitStack()

    # -- what it stores --------------------------------------------------------------------------------

    def require(self, partials: Sequence[Partial], since: Micros | None) -> None:
        for partial in partials:
            self.since.setdefault(partial, since)

    def release(self, kept: set[Partial]) -> None:
        self.since = {partial: since for partial, since in self.since.items() if partial in kept}

    @property
    def groups(self) -> int:
        """About the rows of the fullest pane: only a job could count all groups."""
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
    def filed(self) -> pa.Table:
        return self._files

    # -- filling and forgetting ------------------------------------------------------------------------

    def attach(self, cluster: Cluster | None, failures: dict[str, tuple[Micros, str]]) -> None:
        self.cluster, self.failures = cluster, failures

    def bring(self, files: pa.Table, ends: NDArray[np.int64] | None = None, lists: pa.Table | None = None) -> None:
        self._brought = files

    def absorb(self, rows: PaneRows, closed_until: Micros | None = None) -> None:
        """Take the panes of a micro-batch; files of other panes came too late."""
        brought, self._brought = self._brought, FILES.empty_table()
        ends = np.asarray(brought["end"])
        self._files = pa.concat_tables([self._files, brought.filter(pa.array(np.isin(ends, rows.ends)))])
        if closed_until is not None and (rows.ends <= closed_until).any():
            self._version += 1

    def close(self, until: Micros) -> None:
        """Do nothing: a window reads the files of panes that end by its own end."""

    def expire(self, before: Micros) -> None:
        self._files = self._files.filter(pa.array(self._starts >= before))

    def merge(self, before: Micros, edges: Collection[Micros] = ()) -> None:
        """Do nothing: files of windows without end stay as they are."""

    def next_end(self, after: Micros) -> Micros | None:
        later = self._ends[self._ends > after]
        return int(later.min()) if len(later) else None

    # -- answering -------------------------------------------------------------------------------------

    def is_empty(self, window: Window, now: Micros) -> bool:
        return not bool(((self._ends <= window.end(now)) & (self._ends > window.start(now))).any())

    def straddles(self, edge: Micros) -> bool:
        return bool(((self._starts < edge) & (edge < self._ends)).any())

    def frozen(
        self, needs: WindowNeeds, now: Micros, build: bool = False, partials: Collection[Partial] | None = None
    ) -> Self:
        """The current files, to be read once; they stay until then."""
        other = copy.copy(self)
        other.since, other.failures, other._reading = self.since.copy(), self.failures.copy(), ExitStack()
        if self.cluster is not None:
            other._reading.enter_context(self.cluster.reading())
        return other

    def read(self, parts: Sequence[AnswerPart], now: Micros) -> Iterator[tuple[int, PartResult | None]]:
        """One job in the cluster for all parts."""
        if self.cluster is None:
            yield from ((number, None) for number in range(len(parts)))
            return
        inquiry = Inquiry(tuple(parts), self.key_types, self.since, now, self.ends)
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
        self._files = files

    def load(self, table: pa.Table, since: list[list[object]]) -> None:
        known = {tuple(saved[:-1]): saved[-1] for saved in since}
        self.since = {partial: known[partial.signature] for partial in self.since}  # type: ignore[misc]
        self._files = table
