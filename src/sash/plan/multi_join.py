"""The logical node of a join of n inputs on one common attribute (thesis 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from sash.core.pattern import UpdatePattern

if TYPE_CHECKING:
    from sash.plan.continuous import Node


@dataclass(frozen=True)
class MultiJoin:
    """One tuple of each input with equal keys, alive while all are: what nested `Join`s give, without their state.

    `keys` are the columns of the attribute, each by its name in every input, of one type.
    """

    inputs: tuple[Node, ...]
    keys: tuple[tuple[str, ...], ...]
    lifetime = None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([field for input in self.inputs for field in input.schema])

    @property
    def pattern(self) -> UpdatePattern:
        """Rule 3: at least WEAK, as for a join of two; inputs that never expire have results that never do."""
        greatest = max(input.pattern for input in self.inputs)
        return greatest if greatest is UpdatePattern.MONOTONIC else max(greatest, UpdatePattern.WEAK)

    def describe(self) -> str:
        return f"Join of {len(self.inputs)} on {' AND '.join(' = '.join(names) for names in self.keys)}"
