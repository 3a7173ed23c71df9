"""From logical nodes to physical operators: the update patterns of a node's inputs decide."""

from __future__ import annotations

from sash.core.pattern import UpdatePattern
from sash.core.window import RowWindow
from sash.operators.base import Operator
from sash.operators.distinct import CountingDistinctOp, DeltaStarOp
from sash.operators.group_by import GroupByOp
from sash.operators.join import WindowJoinOp
from sash.operators.matching import MatchingOp
from sash.operators.matching_kernels import EXCEPT_ALL, INTERSECT_ALL, WITH_MATCH, WITHOUT_MATCH
from sash.operators.row_window import RowWindowOp
from sash.operators.stateless import ProjectOp, SelectOp, TimeWindowOp, UnionOp
from sash.operators.storing import Storing
from sash.plan.continuous import (
    BaseWindow,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    Union,
    inputs,
    windows,
)

STRICT = UpdatePattern.STRICT


def build(plan: Node, partitions: int) -> dict[str, Operator]:
    """The operator of every node, by the node's path from the answer down ('' is the answer's own)."""
    builder = _Builder(plan, partitions)
    builder.visit(plan, "", named=False)
    return builder.operators


class _Builder:
    def __init__(self, plan: Node, partitions: int) -> None:
        self._partitions = partitions
        lengths = [window.window.length for window in windows(plan) if window.lifetime is not None]
        self._span = max(lengths, default=1)
        self.operators: dict[str, Operator] = {}

    def visit(self, node: Node, path: str, *, named: bool) -> int:
        """Build a node and what is below it; `named`: the operator above asks who its rows are. Returns their ids."""
        widths = [
            self.visit(input, f"{path}{place}", named=_must_know(node) or (named and _passes_names(node)))
            for place, input in enumerate(inputs(node))
        ]
        operator = self._operator(node, path, _width(node, widths) if named else 0, widths)
        self.operators[path] = operator
        return operator.width

    def _operator(self, node: Node, path: str, width: int, widths: list[int]) -> Operator:
        if isinstance(node, BaseWindow):
            return self._window(node, path, width)
        if isinstance(node, Filter):
            return SelectOp(node.schema, node.condition, width)
        if isinstance(node, Map):
            return ProjectOp(node.schema, [made for _, made in node.outputs], width)
        if isinstance(node, Union):
            return UnionOp(node.schema, width)
        if isinstance(node, Join):
            return WindowJoinOp(node.schema, node.keys, self._sides(node, path), width)
        if isinstance(node, Distinct):
            if node.input.pattern is STRICT:
                return CountingDistinctOp(node.schema, self._storing(node.input, f"{path}0"), width)
            return DeltaStarOp(node.schema, path, width)
        if isinstance(node, GroupBy):
            return GroupByOp(node, self._storing(node.input, f"{path}0"), width)
        rule = _rule(node)
        sides = self._sides(node, path)
        return MatchingOp(node.schema, rule, node.keys, sides, null_safe=node.null_safe, width=width)

    def _window(self, node: BaseWindow, path: str, width: int) -> Operator:
        if isinstance(node.window, RowWindow):
            return RowWindowOp(node.schema, path, node.window.length, node.partition, width)
        return TimeWindowOp(node.schema, None if node.window.unbounded else node.window.length, width)

    def _sides(self, node: Join | Negation | Intersection, path: str) -> tuple[Storing, Storing]:
        left, right = (self._storing(input, f"{path}{place}") for place, input in enumerate(inputs(node)))
        return left, right

    def _storing(self, node: Node, path: str) -> Storing:
        return Storing(f"{path}.live", node.pattern, self._span, self._partitions)


def _must_know(node: Node) -> bool:
    """A negative tuple must find the one that it takes back."""
    stores = isinstance(node, Join | Negation | Intersection | Distinct | GroupBy)
    return stores and any(input.pattern is STRICT for input in inputs(node))


def _passes_names(node: Node) -> bool:
    """Whether its rows are those of its inputs; groups and counted values have names of their own."""
    return not isinstance(node, GroupBy) and not (isinstance(node, Distinct) and node.input.pattern is STRICT)


def _width(node: Node, widths: list[int]) -> int:
    if isinstance(node, BaseWindow) or not _passes_names(node):
        return 1
    if isinstance(node, Union):
        return 1 + max(widths)
    return sum(widths) if isinstance(node, Join) else widths[0]


def _rule(node: Negation | Intersection) -> int:
    if isinstance(node, Negation):
        return WITHOUT_MATCH if node.whole else EXCEPT_ALL
    return WITH_MATCH if node.whole else INTERSECT_ALL
