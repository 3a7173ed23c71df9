"""The logical node of a join of n inputs on equalities: one common attribute, or a graph of several (thesis 5).

common   A.a = B.a = C.a                   one attribute that all inputs have
chain    A.a = B.a AND B.b = C.b           neighbours have an attribute in common
star     F.a = X.a AND F.b = Y.b           one input has an attribute in common with each of the others
cycle    A.a = B.a AND B.b = C.b AND C.c = A.c
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.core.changes import UpdatePattern

if TYPE_CHECKING:
    from sash.plan.continuous import Node

# For each input that has it, by its place: the names of the attribute's columns there.
Attribute = Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class MultiJoin:
    """One tuple of each input with equal keys, alive while all are: the results of nested `Join`s, without their state.

    `keys` are columns of one type that must be equal, each by its name in every input; None if an input has no such
    column. Keys connect every input with every other one.
    """

    inputs: tuple[Node, ...]
    keys: tuple[tuple[str | None, ...], ...]
    lifetime = None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([field for input in self.inputs for field in input.schema])

    @cached_property
    def pattern(self) -> UpdatePattern:
        """Rule 3: at least WEAK, as for a join of two; results of inputs that never expire never do."""
        greatest = max(input.pattern for input in self.inputs)
        return greatest if greatest is UpdatePattern.MONOTONIC else max(greatest, UpdatePattern.WEAK)

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The keys by attribute: keys of the same inputs are columns of one attribute.

        >>> [dict(each) for each in MultiJoin((), (("A.a", "B.a", None), (None, "B.b", "C.b"))).attributes]
        [{0: ('A.a',), 1: ('B.a',)}, {1: ('B.b',), 2: ('C.b',)}]
        """
        found: dict[tuple[int, ...], list[tuple[str, ...]]] = {}
        for names in self.keys:
            having = tuple(place for place, name in enumerate(names) if name is not None)
            found.setdefault(having, []).append(tuple(name for name in names if name is not None))
        return tuple(dict(zip(having, zip(*rows, strict=True), strict=True)) for having, rows in found.items())

    @property
    def is_common(self) -> bool:
        """Whether all inputs have all keys."""
        return all(None not in names for names in self.keys)

    def describe(self) -> str:
        equal = (" = ".join(name for name in names if name is not None) for names in self.keys)
        return f"Join of {len(self.inputs)} on {' AND '.join(equal)}"
