"""What a group of aggregates over one join keeps: its founders decide, and it stays so (thesis 8.3.2).

    founders (7, 8) (3, 3) (5, 8) ..  ──►  one join over the longest windows; panes; for each set of keys a choice of
                                           synopses that answer all their windows

The plan, the panes and the synopses do not change while the group runs. A later query joins the group if these answer
it: its windows consist of whole panes and are not too long, and its columns and partials are stored.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sash.changes.join_partials import Fold, PaneCut, ResultSummary
from sash.core.time import format_duration
from sash.panes.answers import Finisher
from sash.panes.joins import JoinHistory, WindowPair, join_synopsis
from sash.panes.partials import Partial
from sash.panes.readings import TableName
from sash.plan.rewrites import optimise
from sash.plan.shared_joins import JoinedAggregate, shared_rows
from sash.sharing.choose_join import AskedPair, JoinChoice, JoinLoad, JoinPart, choose_join
from sash.sharing.rules import Computation, Decision, compute_together, scheduling_group


@dataclass(frozen=True)
class JoinTable:
    """The synopses of the results for one set of keys."""

    keys: tuple[str, ...]
    partials: tuple[Partial, ...]
    choice: JoinChoice


@dataclass(frozen=True)
class JoinPlace:
    """Where a query is answered: its windows in panes, its table, and the synopsis in it that SS3 has chosen.

    `group` is its scheduling group: of all queries that one scan answers (CS5), or of those with equal windows (CS4).
    """

    pair: WindowPair
    table: TableName
    number: int
    part: JoinPart
    decision: Decision

    group: str
    together: Decision


class JoinLayout:
    """The layout for the founders: queries of one skeleton (see `sash.plan.shared_joins`)."""

    def __init__(self, founders: Sequence[JoinedAggregate], load: JoinLoad | None = None) -> None:
        rows = shared_rows(founders)
        if rows is None or len({query.skeleton for query in founders}) > 1:
            raise ValueError("queries over different joins do not share one")
        self.plan, self.load = optimise(rows), load or JoinLoad()
        length = math.gcd(*(length for query in founders for length in (*query.windows, query.slide)))
        longest = (max(query.windows[0] for query in founders), max(query.windows[1] for query in founders))
        self.cut = PaneCut(longest, length, founders[0].offset)
        self.founders = tuple(founders)
        self._skeleton = founders[0].skeleton
        self._columns = {column for query in founders for column in (*query.columns, *query.window_columns)}
        asked: dict[TableName, list[JoinedAggregate]] = {}
        for query in founders:
            asked.setdefault(_table_of(query), []).append(query)
        self.tables = {name: self._table(name, queries) for name, queries in asked.items()}
        self.fold = Fold(tuple(ResultSummary(table.keys, table.partials) for table in self.tables.values()), self.cut)

    def _table(self, name: TableName, readers: Iterable[JoinedAggregate]) -> JoinTable:
        partials = dict.fromkeys(partial for query in readers for partial in Finisher(query.query).partials)
        asked = [AskedPair(self._pair(query), query.slide // self.cut.length) for query in readers]
        return JoinTable(tuple(key.sql for key in name.keys), tuple(partials), choose_join(asked, partials, self.load))

    def _pair(self, query: JoinedAggregate) -> WindowPair:
        return WindowPair(*(window // self.cut.length for window in query.windows))

    def synopses(self) -> dict[TableName, list[JoinHistory]]:
        """New, empty synopses."""
        return {
            name: [self._synopsis(name, table, part) for part in table.choice.parts]
            for name, table in self.tables.items()
        }

    def _synopsis(self, name: TableName, table: JoinTable, part: JoinPart) -> JoinHistory:
        types = [key.type for key in name.keys]
        return join_synopsis(part.kind, types, table.partials, self.cut.length, part.band, part.capacity)

    @property
    def signature(self) -> str:
        """A text of everything that the stored state depends on."""
        kept = [
            [label.label, [partial.signature for partial in table.partials], table.choice.parts]
            for label, table in self.tables.items()
        ]
        # Checkpoints have the hash of this text, in which `plan` has the names of its classes: the classes cannot be
        # renamed. The class of the cut was renamed, so its old text is written out.
        cut = f"Cut(windows={self.cut.windows}, length={self.cut.length}, offset={self.cut.offset})"
        return hashlib.sha256(f"{self.plan!r} {cut} {kept}".encode()).hexdigest()[:24]

    def place_of(self, query: JoinedAggregate) -> JoinPlace | None:
        """Where a query would be answered; None if it belongs to another group, or needs more than this one keeps."""
        if (self._why_not_join(query) or self._why_not_kept(query)) is not None:
            return None
        name, pair = _table_of(query), self._pair(query)
        for number, part in enumerate(self.tables[name].choice.parts):
            decision = part.decide(pair, _keys(name))
            if decision.allowed:
                group = scheduling_group(f"{name.label} {number}", part.kind, pair)
                computation = Computation("", group, f"the results {_keys(name)}", part.kind, pair)
                return JoinPlace(pair, name, number, part, decision, group, compute_together(computation, ()))
        return None

    def why_not(self, query: JoinedAggregate) -> str | None:
        """The parts of a query that the group does not keep; None if the group answers the query."""
        why = self._why_not_join(query) or self._why_not_kept(query)
        if why is None and self.place_of(query) is None:
            pair = self._pair(query)
            return f"no synopsis {_keys(_table_of(query))} answers windows of {pair.first} and {pair.second} panes"
        return why

    def _why_not_join(self, query: JoinedAggregate) -> str | None:
        """The columns of the query that the rows of the running join lack."""
        if query.skeleton != self._skeleton:
            return "the join is another one"
        odd = [length for length in (*query.windows, query.slide) if length % self.cut.length]
        if odd:
            return f"{format_duration(odd[0])} is not a multiple of its panes of {format_duration(self.cut.length)}"
        if any(window > longest for window, longest in zip(query.windows, self.cut.windows, strict=True)):
            return f"windows of {_both(query.windows)} are longer than those of {_both(self.cut.windows)} that are kept"
        missing = [name for name, made in (*query.columns, *query.window_columns) if (name, made) not in self._columns]
        return f"column {missing[0]} is not kept" if missing else None

    def _why_not_kept(self, query: JoinedAggregate) -> str | None:
        """The partials and groups of the query that the synopses lack, apart from its windows."""
        name = _table_of(query)
        table, keys = self.tables.get(name), _keys(name)
        if table is None:
            return f"nothing is kept {keys}"
        lacking = [partial for partial in Finisher(query.query).partials if partial not in table.partials]
        if lacking:
            kind, argument, _ = lacking[0].signature
            return f"no {kind} of {argument} is kept {keys}" if argument else f"no number of {kind} is kept {keys}"
        return None


def _keys(name: TableName) -> str:
    return f"by {', '.join(key.sql for key in name.keys)}" if name.keys else "without groups"


def _both(windows: tuple[int, int]) -> str:
    return " and ".join(map(format_duration, windows))


def _table_of(query: JoinedAggregate) -> TableName:
    return Finisher(query.query).readings[0].table
