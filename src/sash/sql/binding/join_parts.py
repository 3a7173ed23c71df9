"""The parts of a FROM clause that outer joins separate, and which conditions may be tested in which part.

    FROM a JOIN b ON .. LEFT JOIN c ON .. JOIN d ON .. RIGHT JOIN e ON .. WHERE ..
         └── part 0 ──┘      └──── part 1 ─────┘            └─ part 2 ─┘

The sources of a part are joined in any order, the parts one after the other. A condition may be tested in an earlier
part than it was written in (WHERE: in the last one) if the joins in between keep all rows before them: a LEFT JOIN
gives each of these rows at least once, with the same values. A RIGHT or a FULL JOIN adds rows without them, which the
condition must see, too. A source may be padded (have NULLs for a whole row) if an outer join is allowed to miss it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sash.sql.binding.bound import BoundJoin


@dataclass(frozen=True)
class FromPart:
    """The names of its sources; `outer` joins the first of them with all parts before, and is None in part 0."""

    names: tuple[str, ...]
    outer: BoundJoin | None = None

    @property
    def kind(self) -> str:
        return "inner" if self.outer is None else self.outer.kind


class JoinParts:
    """The parts of one FROM clause."""

    def __init__(self, joins: Sequence[BoundJoin]) -> None:
        begins = [0, *(place for place, join in enumerate(joins) if join.is_outer)]
        found = []
        for begin, end in zip(begins, [*begins[1:], len(joins)], strict=True):
            names = tuple(join.source.name for join in joins[begin:end])
            found.append(FromPart(names, joins[begin] if joins[begin].is_outer else None))
        self.parts = tuple(found)
        self._numbers = {name: number for number, part in enumerate(found) for name in part.names}
        self.padded = frozenset(name for name in self._numbers if self._is_padded(name))

    @property
    def last(self) -> int:
        return len(self.parts) - 1

    def number(self, name: str) -> int:
        """The part of a source."""
        return self._numbers[name]

    def earliest(self, sources: Collection[str], written: int) -> int:
        """The first part in which a condition on some sources may be tested, if it was written in a later one."""
        first = max((self._numbers[name] for name in sources), default=written)
        return max([first, *(n for n in range(first + 1, written + 1) if self.parts[n].kind != "left")])

    def is_own(self, name: str, written: int) -> bool:
        """Whether a condition on this source alone may be tested before the source is joined."""
        number = self._numbers[name]
        part = self.parts[number]
        missed = name == part.names[0] and part.kind in ("left", "full")
        return not missed and self.earliest({name}, written) == number

    def _is_padded(self, name: str) -> bool:
        return not self.is_own(name, self.last)
