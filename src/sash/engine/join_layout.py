"""What a group of aggregates over one join keeps: decided by those who found it, and then as it is (thesis 8.3.2).

    founders (7, 8) (3, 3) (5, 8) ..  ──►  one join over the longest windows; panes; for each set of keys a choice of
                                           synopses that answer all their windows

The plan, the panes and the synopses do not change while the group runs. A query that comes later is one of the group
if all this answers it as it is: its windows are whole panes and no longer, its columns and partials are there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sash.operators.join_partials import Cut, Fold, Kept
from sash.plan.rewrites import optimise
from sash.plan.shared_joins import JoinedAggregate, shared_rows
from sash.sharing.choose_join import AskedPair, JoinChoice, JoinLoad, JoinPart, choose_join
from sash.synopses.answers import Finisher
from sash.synopses.joins import JoinHistory, WindowPair, join_synopsis
from sash.synopses.partials import Partial
from sash.synopses.readings import TableName


@dataclass(frozen=True)
class JoinTable:
    """What is kept of the results for one set of keys."""

    keys: tuple[str, ...]
    partials: tuple[Partial, ...]
    choice: JoinChoice


@dataclass(frozen=True)
class Place:
    """Where a query is answered: the windows in panes, the table, and which of its synopses."""

    pair: WindowPair
    table: TableName
    part: int


class JoinLayout:
    """Of queries of one skeleton (see `sash.plan.shared_joins`), the founders."""

    def __init__(self, founders: Sequence[JoinedAggregate], load: JoinLoad | None = None) -> None:
        rows = shared_rows(founders)
        if rows is None or len({query.skeleton for query in founders}) > 1:
            raise ValueError("queries over different joins do not share one")
        self.plan, self.load = optimise(rows), load or JoinLoad()
        length = math.gcd(*(length for query in founders for length in (*query.windows, query.slide)))
        longest = (max(query.windows[0] for query in founders), max(query.windows[1] for query in founders))
        self.cut = Cut(longest, length, founders[0].offset)
        self.founders = tuple(founders)
        self._skeleton = founders[0].skeleton
        self._columns = {column for query in founders for column in (*query.columns, *query.window_columns)}
        asked: dict[TableName, list[JoinedAggregate]] = {}
        for query in founders:
            asked.setdefault(_table_of(query), []).append(query)
        self.tables = {name: self._table(name, queries) for name, queries in asked.items()}
        self.fold = Fold(tuple(Kept(table.keys, table.partials) for table in self.tables.values()), self.cut)

    def _table(self, name: TableName, readers: Iterable[JoinedAggregate]) -> JoinTable:
        partials = dict.fromkeys(partial for query in readers for partial in Finisher(query.query).partials)
        asked = [AskedPair(self._pair(query), query.slide // self.cut.length) for query in readers]
        return JoinTable(tuple(key.sql for key in name.keys), tuple(partials), choose_join(asked, partials, self.load))

    def _pair(self, query: JoinedAggregate) -> WindowPair:
        return WindowPair(*(window // self.cut.length for window in query.windows))

    def synopses(self) -> dict[TableName, list[JoinHistory]]:
        """New ones, with nothing in them."""
        return {
            name: [self._synopsis(name, table, part) for part in table.choice.parts]
            for name, table in self.tables.items()
        }

    def _synopsis(self, name: TableName, table: JoinTable, part: JoinPart) -> JoinHistory:
        types = [key.type for key in name.keys]
        return join_synopsis(part.kind, types, table.partials, self.cut.length, part.band, part.capacity)

    @property
    def signature(self) -> str:
        """Of what the stored state depends on."""
        kept = [
            [label.label, [partial.signature for partial in table.partials], table.choice.parts]
            for label, table in self.tables.items()
        ]
        return hashlib.sha256(f"{self.plan!r} {self.cut} {kept}".encode()).hexdigest()[:24]

    def place_of(self, query: JoinedAggregate) -> Place | None:
        """Where a query would be answered; None if it does not belong to the group, or wants what is not kept."""
        lengths = (*query.windows, query.slide)
        fits = (
            query.skeleton == self._skeleton
            and all(length % self.cut.length == 0 for length in lengths)
            and all(window <= longest for window, longest in zip(query.windows, self.cut.windows, strict=True))
            and self._columns.issuperset((*query.columns, *query.window_columns))
        )
        table = self.tables.get(_table_of(query))
        if not fits or table is None or not set(table.partials).issuperset(Finisher(query.query).partials):
            return None
        pair = self._pair(query)
        parts = (number for number, part in enumerate(table.choice.parts) if _answers(part, pair))
        number = next(parts, None)
        return None if number is None else Place(pair, _table_of(query), number)


def _table_of(query: JoinedAggregate) -> TableName:
    return Finisher(query.query).readings[0].table


def _answers(part: JoinPart, pair: WindowPair) -> bool:
    return pair in part.pairs or part.band.why_not(pair, part.capacity) is None
