"""The readings of a joint execution, computed where the groups are, and put together again.

    inquiry ──► some of the groups ──► synopsis ──► scan, all windows ──► columns of each part ──┐
            ──► others of them     ──► synopsis ──► scan, all windows ──► columns of each part ──┴──► joined, by part

Whoever computes has all rows of its groups, so that a group's columns are final there; HAVING and LIMIT are applied
there, too, and only what may be in an answer travels. What "its groups" are depends on the reading: COUNT(DISTINCT x)
of each k reads a table of (k, x), and must find all x of a k in one place (`Part.divided_by`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from sash.core.errors import QueryFailedError
from sash.core.time import Micros
from sash.core.window import Window
from sash.plan.expressions import Field
from sash.plan.nodes import SortKey
from sash.plan.periodic import PeriodicAggregate
from sash.synopses.answers import Finisher, sorted_and_limited
from sash.synopses.cluster.rows import stored_schema, synopsis_of
from sash.synopses.covered import Covered
from sash.synopses.item_lists.weighted import WeightedItems
from sash.synopses.partials import Partial
from sash.synopses.readers import Columns, Reader
from sash.synopses.readers import Found as Shared
from sash.synopses.readings import Reading
from sash.synopses.window_view import WindowView

# What the evaluation of one query may raise without being a defect: the query fails, its neighbours do not.
FAILURES = (QueryFailedError, pa.ArrowException, ArithmeticError, ValueError)


@dataclass(frozen=True)
class Part:
    """One reader of one query, over its window. `covered`: its partials are put together from others' (SS4)."""

    query: PeriodicAggregate
    reader: int
    covered: Covered | None = None

    def __reduce__(self) -> tuple[type[Part], tuple[object, ...]]:
        """Without what is cached, in the query as well: another process hashes strings differently."""
        return Part, (replace(self.query), self.reader, self.covered)

    @cached_property
    def finisher(self) -> Finisher:
        return Finisher(self.query)

    @property
    def chosen(self) -> Reader:
        return self.finisher.readers[self.reader]

    @cached_property
    def stored(self) -> Reading:
        """What it reads of what is stored."""
        reading = self.chosen.reading
        return reading if self.covered is None else self.covered.reading(reading)

    @property
    def divided_by(self) -> tuple[int, ...]:
        """The places of the keys that tell its groups apart: rows that agree in them must be read together."""
        reading, group = self.chosen.reading, self.chosen.group
        return tuple(range(len(reading.table.keys))) if self._is_one_list else group

    @cached_property
    def _is_one_list(self) -> bool:
        """A list of items without GROUP BY: the lists of some items each make up the list of all."""
        return isinstance(self.chosen, WeightedItems) and not self.chosen.group

    def read(self, views: Sequence[WindowView], shared: Shared) -> Columns:
        """Its columns over some of its groups, without those that cannot be in the answer."""
        mine = views
        if self.covered is not None:
            mine = [self.covered.view(view, self.chosen.reading.partials) for view in views]
        columns = self.chosen.read(mine, shared)
        # With several readers HAVING speaks of columns that others have; LIMIT is for the list of all items.
        final = len(self.finisher.readers) == 1 and not self._is_one_list
        return self.finisher.leading(columns) if final else columns

    def joined(self, columns: Columns) -> Columns:
        """Its columns over all groups, from those of some at a time one after the other."""
        if not self._is_one_list:
            return columns
        *_, item = self.query.keys
        (call,), rule = self.query.calls, self.query.items
        assert rule is not None
        # As TOP orders its items; a histogram has its own in their order.
        weight = (SortKey(Field(call.name, columns.fields[call.name].type), descending=True, nulls_first=False),)
        order = (*(weight if rule.count is not None else ()), SortKey(Field(item.name, item.expression.type)))
        fields, rows = sorted_and_limited({**columns.keys, **columns.fields}, columns.count, order, rule.count)
        keys, others = ({name: fields[name] for name in kind} for kind in (columns.keys, columns.fields))
        return Columns(keys, others, rows)


@dataclass(frozen=True)
class Failed:
    """An expression of the query failed over some groups."""

    why: str


# What came of a part.
Found = Columns | Failed


@dataclass(frozen=True)
class Inquiry:
    """Some parts over one pane table, as of a time. `since` as in `BasicIntervalSynopsis`."""

    parts: tuple[Part, ...]
    keys: tuple[pa.DataType, ...]
    since: Mapping[Partial, Micros | None]
    now: Micros

    @cached_property
    def needs(self) -> dict[Window, list[Partial]]:
        needs: dict[Window, dict[Partial, None]] = {}
        for part in self.parts:
            for span in part.stored.spans:
                needs.setdefault(span, {}).update(dict.fromkeys(part.stored.partials))
        return {span: list(partials) for span, partials in needs.items()}

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
            found.setdefault(part.divided_by, []).append(number)
        others = [by for by in found if by and by != everything]
        if everything in found and others:
            found[others[0]] += found.pop(everything)
        return found

    def only(self, numbers: Sequence[int]) -> Inquiry:
        return replace(self, parts=tuple(self.parts[number] for number in numbers))

    def read(self, table: pa.Table) -> Iterator[tuple[int, Found]]:
        """What the parts, by number, find in stored rows: all rows of the groups that these have."""
        since = {partial: self.since[partial] for partial in self.partials}
        synopsis = synopsis_of(table, self.keys, since, self.now)
        views: dict[int, dict[Window, WindowView]] = {number: {} for number in range(len(self.parts))}
        for view in synopsis.scan(self.needs, self.now):
            shared: dict[Covered | None, Shared] = {}
            for number, part in enumerate(self.parts):
                spans = part.stored.spans
                if view.window not in spans:
                    continue
                views[number][view.window] = view
                if len(views[number]) == len(spans):
                    mine = [views[number].pop(span) for span in spans]
                    # Who reads several windows shares its groups with nobody.
                    together = shared.setdefault(part.covered, {}) if len(spans) == 1 else {}
                    yield number, _found(part, mine, together)

    def joined(self, found: Mapping[int, Sequence[Found]]) -> dict[int, Found]:
        """Each part's columns over all groups."""
        missing = [number for number in range(len(self.parts)) if not found.get(number)]
        # Where there is no row at all, a window without tuples has its answer, too.
        nothing = self.only(missing).read(self.schema.empty_table()) if missing else ()
        empty = {missing[place]: [columns] for place, columns in nothing}
        return {number: _joined(self.parts[number], each) for number, each in {**found, **empty}.items()}


def _found(part: Part, views: Sequence[WindowView], shared: Shared) -> Found:
    try:
        return part.read(views, shared)
    except FAILURES as error:
        return Failed(str(error))


def _joined(part: Part, found: Sequence[Found]) -> Found:
    if failures := sorted(each.why for each in found if isinstance(each, Failed)):
        return Failed(failures[0])
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
        return part.joined(Columns(keys, fields, sum(each.count for each in columns)))
    except FAILURES as error:
        return Failed(str(error))
