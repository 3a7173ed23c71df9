"""The readings of a joint execution, computed where the groups are, and put together again.

    inquiry ──► some of the groups ──► synopsis ──► scan, all windows ──► columns of each part ──┐
            ──► others of them     ──► synopsis ──► scan, all windows ──► columns of each part ──┴──► joined, by part

Whoever computes has all rows of its groups, so that a group's columns are final there; HAVING and LIMIT are applied
there, too, and only what may be in an answer travels. What "its groups" are depends on the reading: COUNT(DISTINCT x)
of each k reads a table of (k, x), and must find all x of a k in one place (`_divided_by`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from sash.core.time import Micros
from sash.core.window import Window
from sash.plan.expressions import Field
from sash.plan.nodes import SortKey
from sash.synopses.answers import sorted_and_limited
from sash.synopses.cluster.rows import stored_schema, synopsis_of
from sash.synopses.item_lists.weighted import WeightedItems
from sash.synopses.pane_store import FAILURES, AnswerPart, PartFailure, PartResult, needs_of
from sash.synopses.partials import Partial
from sash.synopses.readers import Columns


@dataclass(frozen=True)
class Inquiry:
    """Some parts over one pane table, as of a time. `since` as in `PaneStore`."""

    parts: tuple[AnswerPart, ...]
    keys: tuple[pa.DataType, ...]
    since: Mapping[Partial, Micros | None]
    now: Micros

    @cached_property
    def needs(self) -> dict[Window, list[Partial]]:
        return needs_of(self.parts)

    @cached_property
    def partials(self) -> list[Partial]:
        return list(dict.fromkeys(partial for needed in self.needs.values() for partial in needed))

    @property
    def schema(self) -> pa.Schema:
        """The columns that it wants of stored rows."""
        return stored_schema(self.keys, self.partials)

    def span(self) -> tuple[Micros, Micros]:
        """Panes after the first and up to the second matter."""
        windows = list(self.needs)
        oldest = min(self.now - window.reach for window in windows)
        return oldest, max(self.now - window.lag for window in windows)

    def divisions(self) -> dict[tuple[int, ...], list[int]]:
        """The parts, by number, that can be computed over the same division of the groups, and by which keys.

        Who reads the groups of all keys is content with any division that has one.
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
        """What the parts, by number, find in stored rows: all rows of the groups that these have.

        Without the groups that cannot be in the answer.
        """
        since = {partial: self.since[partial] for partial in self.partials}
        synopsis = synopsis_of(table, self.keys, since, self.now)
        for number, found in synopsis.read(self.parts, self.now):
            yield number, found if isinstance(found, PartFailure) else _leading(self.parts[number], found)

    def joined(self, found: Mapping[int, Sequence[PartResult]]) -> dict[int, PartResult]:
        """Each part's columns over all groups."""
        missing = [number for number in range(len(self.parts)) if not found.get(number)]
        # Where there is no row at all, a window without tuples has its answer, too.
        nothing = self.only(missing).read(self.schema.empty_table()) if missing else ()
        empty = {missing[place]: [columns] for place, columns in nothing}
        return {number: _joined(self.parts[number], each) for number, each in {**found, **empty}.items()}


def _divided_by(part: AnswerPart) -> tuple[int, ...]:
    """The places of the keys that tell a part's groups apart: rows that agree in them must be read together."""
    return tuple(range(len(part.stored.table.keys))) if _is_one_list(part) else part.chosen.group


def _is_one_list(part: AnswerPart) -> bool:
    """A list of items without GROUP BY: the lists of some items each make up the list of all."""
    return isinstance(part.chosen, WeightedItems) and not part.chosen.group


def _leading(part: AnswerPart, columns: Columns) -> PartResult:
    # With several readers HAVING speaks of columns that others have; LIMIT is for the list of all items.
    if len(part.finisher.readers) > 1 or _is_one_list(part):
        return columns
    try:
        return part.finisher.leading(columns)
    except FAILURES as error:
        return PartFailure(str(error))


def _joined(part: AnswerPart, found: Sequence[PartResult]) -> PartResult:
    """A part's columns over all groups, from those of some at a time."""
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
    # As TOP orders its items; a histogram has its own in their order.
    weight = (SortKey(Field(call.name, columns.fields[call.name].type), descending=True, nulls_first=False),)
    order = (*(weight if rule.count is not None else ()), SortKey(Field(item.name, item.expression.type)))
    fields, rows = sorted_and_limited({**columns.keys, **columns.fields}, columns.count, order, rule.count)
    keys, others = ({name: fields[name] for name in kind} for kind in (columns.keys, columns.fields))
    return Columns(keys, others, rows)
