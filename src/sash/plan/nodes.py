"""Logical nodes: nouns, frozen, each with its inputs.

A periodic aggregate is always this chain, with the optional nodes left out when they do nothing:

    Project <- Limit <- Sort <- Having <- Aggregate <- Filter <- Windowed <- StreamScan
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sash.core.window import TimeWindow
from sash.plan.expressions import Expression, RowExpression


@dataclass(frozen=True)
class StreamScan:
    stream: str

    def describe(self) -> str:
        return f"StreamScan {self.stream}"


@dataclass(frozen=True)
class Windowed:
    input: StreamScan
    window: TimeWindow

    def describe(self) -> str:
        return f"Windowed {self.window}"


@dataclass(frozen=True)
class Filter:
    input: Windowed
    predicate: RowExpression

    def describe(self) -> str:
        return f"Filter {self.predicate}"


@dataclass(frozen=True)
class Key:
    """One GROUP BY expression under the name by which the nodes above refer to it."""

    name: str
    expression: RowExpression


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate over rows, e.g. SUM(length); argument is None for COUNT(*)."""

    name: str
    function: str
    argument: RowExpression | None
    type: pa.DataType

    def __str__(self) -> str:
        return f"{self.function.upper()}({self.argument if self.argument is not None else '*'})"


@dataclass(frozen=True)
class Aggregate:
    input: Filter | Windowed
    keys: tuple[Key, ...]
    calls: tuple[AggregateCall, ...]

    def describe(self) -> str:
        keys = ", ".join(str(key.expression) for key in self.keys) or "()"
        return f"Aggregate {', '.join(map(str, self.calls))} BY {keys}"


@dataclass(frozen=True)
class Having:
    input: Aggregate
    condition: Expression

    def describe(self) -> str:
        return f"Having {self.condition}"


@dataclass(frozen=True)
class SortKey:
    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        return f"{self.expression} {'DESC' if self.descending else 'ASC'}"


@dataclass(frozen=True)
class Sort:
    input: Having | Aggregate
    keys: tuple[SortKey, ...]

    def describe(self) -> str:
        return f"Sort {', '.join(map(str, self.keys))}"


@dataclass(frozen=True)
class Limit:
    input: Sort | Having | Aggregate
    count: int

    def describe(self) -> str:
        return f"Limit {self.count}"


@dataclass(frozen=True)
class Output:
    name: str
    expression: Expression


@dataclass(frozen=True)
class Project:
    input: Limit | Sort | Having | Aggregate
    outputs: tuple[Output, ...]

    def describe(self) -> str:
        return "Project " + ", ".join(
            output.name if str(output.expression) == output.name else f"{output.expression} AS {output.name}"
            for output in self.outputs
        )


Node = Project | Limit | Sort | Having | Aggregate | Filter | Windowed | StreamScan


def chain(plan: Node) -> Iterator[Node]:
    """The plan's nodes from the answer down to the stream."""
    node: Node | None = plan
    while node is not None:
        yield node
        node = getattr(node, "input", None)
