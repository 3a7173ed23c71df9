"""From logical nodes to physical operators: the update patterns of a node's inputs decide.

The execution strategies are explained in plan/continuous.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.types as pt

from sash.changes.deltas import DeltasOp, DuplicatesOp
from sash.changes.distinct import CountingDistinctOp, DeltaStarOp, PlainDistinctOp
from sash.changes.graph_join import GraphJoinOp
from sash.changes.group_by import ExtremesGroupByOp, GroupByOp, GrowingGroupByOp
from sash.changes.join import NrrJoinOp, WindowJoinOp
from sash.changes.matching import EXCEPT_ALL, INTERSECT_ALL, WITH_MATCH, WITHOUT_MATCH, MatchingOp
from sash.changes.operator import Operator, StoredInput
from sash.changes.outer_join import OuterJoinOp
from sash.changes.pipelined_join import MultiJoinOp
from sash.changes.sampled import SampledOp, SeenWindowOp, SnapshotsOp
from sash.changes.stateless import CanonicalKeysOp, ProjectOp, SelectOp, TimeWindowOp, UnionOp
from sash.changes.windows import NegativeWindowOp, OutlivingOp, ResultRowsOp, RowWindowOp, StampedOp
from sash.core.changes import UpdatePattern
from sash.core.window import RowWindow
from sash.plan.continuous import (
    DIRECT,
    NT,
    UPA,
    BaseWindow,
    Distinct,
    Duplicates,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    NrrJoin,
    OuterJoin,
    RelationJoin,
    Union,
    drops_outdone,
    executed_pattern,
    inputs,
    path_below,
    strategy_below,
    windows,
)
from sash.plan.estimates import Statistics, flow_above
from sash.plan.join_order import EAGER, JoinExecution
from sash.plan.lazy_joins import evaluation_of, join_execution, keeps_times
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Deltas, Outliving, OutputNode, Sampled, Snapshots, Stamped
from sash.plan.punctuations import closers

STRICT = UpdatePattern.STRICT


def build(plan: Node, partitions: int | None, strategy: str = UPA, *, named: bool = False) -> dict[str, Operator]:
    """The operator of every node, by the node's path from the answer down ('' is the answer's own).

    `named`: the answer's changes need ids.
    """
    builder = _Builder(plan, partitions, strategy)
    builder.visit(plan, "", named=named)
    return builder.operators


class _Builder:
    def __init__(self, plan: Node, partitions: int | None, strategy: str) -> None:
        self._partitions = partitions
        self._strategy = strategy
        lengths = [window.window.length for window in windows(plan) if window.lifetime is not None]
        self._span = max(lengths, default=1)
        lazy = evaluation_of(plan)
        self._seen_at = None if lazy is None or keeps_times(lazy) else lazy
        # An epoch is the unit of time.
        self._joined = EAGER if lazy is None else join_execution(plan, lazy.slide)
        self.operators: dict[str, Operator] = {}

    def visit(self, node: Node, path: str, *, named: bool) -> int:
        """Build a node and all below it; `named`: the operator above needs the rows' ids. Returns the number of ids."""
        asks = self._must_know(node) or (named and self._passes_names(node))
        strategy = self._strategy
        self._strategy = strategy_below(node, strategy)
        widths = [self.visit(input, path_below(path, place), named=asks) for place, input in enumerate(inputs(node))]
        self._strategy = strategy
        operator = self._operator(node, path, self._width(node, widths) if named else 0)
        keys = _floating_keys(node)
        operator = CanonicalKeysOp(operator, keys) if keys else operator
        self.operators[path] = operator
        return operator.width

    def _pattern(self, node: Node) -> UpdatePattern:
        """The executed pattern of the edge above a node."""
        return executed_pattern(node, self._strategy)

    def _must_know(self, node: Node) -> bool:
        """Whether the input needs ids. A negative tuple must find the tuple that it takes back; and of tuples that came
        at one instant, the shown ones must be the same in every epoch, in whatever order they are stored."""
        if isinstance(node, Negation | Intersection) and not node.whole:
            return True
        stores = isinstance(node, Join | OuterJoin | MultiJoin | RelationJoin | Negation | Intersection)
        stores = stores or isinstance(node, Distinct | GroupBy | Deltas | Sampled | Snapshots)
        return stores and any(self._pattern(input) is STRICT for input in inputs(node))

    def _passes_names(self, node: Node) -> bool:
        """Whether its rows have the ids of its inputs; groups, counted values and results have their own ids."""
        counted = isinstance(node, Distinct) and self._pattern(node.input) is STRICT
        return not counted and not isinstance(node, GroupBy | Duplicates | Deltas | Outliving | Snapshots)

    def _width(self, node: Node, widths: list[int]) -> int:
        if isinstance(node, BaseWindow) or not self._passes_names(node):
            return 1
        if isinstance(node, Union):
            return 1 + max(widths)
        if isinstance(node, RelationJoin):
            return 1 + widths[0] + node.keeps
        if isinstance(node, OuterJoin):
            return 1 + sum(widths)
        return sum(widths) if isinstance(node, Join | MultiJoin) else widths[0]

    def _operator(self, node: Node, path: str, width: int) -> Operator:
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
        if isinstance(node, OuterJoin):
            return OuterJoinOp(node.schema, node.keys, self._sides(node, path), width, node.keeps, node.condition)
        if isinstance(node, MultiJoin):
            stored = tuple(self._storing(node, path, place) for place in range(len(node.inputs)))
            return pipelined(node, stored, width, self._joined)
        if isinstance(node, NrrJoin):
            return NrrJoinOp(node, width)
        if isinstance(node, RelationJoin):
            live = StoredInput(f"{path}1.live", STRICT, self._span, self._partitions)
            sides = (self._storing(node, path), live)
            if node.keeps:
                return OuterJoinOp(node.schema, node.keys, sides, width, (True, False))
            return WindowJoinOp(node.schema, node.keys, sides, width)
        if isinstance(node, Distinct):
            return self._distinct(node, path, width)
        if isinstance(node, GroupBy):
            return self._group_by(node)(node, self._storing(node, path), width)
        if isinstance(node, Duplicates):
            return DuplicatesOp(node.schema, node.copies, path, width)
        if isinstance(node, OutputNode):
            return self._output(node, path, width)
        rule = _rule(node)
        sides = self._sides(node, path)
        return MatchingOp(node.schema, rule, node.keys, sides, null_safe=node.null_safe, width=width)

    def _window(self, node: BaseWindow, path: str, width: int) -> Operator:
        if isinstance(node.window, RowWindow):
            return RowWindowOp(node.schema, path, node.window.length, node.partition, width)
        if self._strategy == NT and not node.window.unbounded:
            return NegativeWindowOp(node.schema, path, node.window.length, width)
        window = TimeWindowOp(node.schema, None if node.window.unbounded else node.window.length, width)
        return window if self._seen_at is None else SeenWindowOp(window, self._seen_at)

    def _distinct(self, node: Distinct, path: str, width: int) -> Operator:
        storing = self._storing(node, path)
        if storing.pattern is STRICT:
            return CountingDistinctOp(node.schema, storing, width)
        if self._strategy == DIRECT and storing.pattern is not UpdatePattern.MONOTONIC:
            return PlainDistinctOp(node.schema, storing, width)
        return DeltaStarOp(node.schema, path, width)

    def _group_by(self, node: GroupBy) -> type[GroupByOp]:
        if node.input.pattern is UpdatePattern.MONOTONIC:
            return GrowingGroupByOp
        return ExtremesGroupByOp if drops_outdone(node, self._strategy) else GroupByOp

    def _output(self, node: OutputNode, path: str, width: int) -> Operator:
        if isinstance(node, Deltas):
            return DeltasOp(node.schema, node.kind, self._storing(node, path), width)
        if isinstance(node, Stamped):
            return StampedOp(node, width)
        if isinstance(node, Outliving):
            return OutlivingOp(node, path, width)
        if isinstance(node, Sampled):
            return SampledOp(node, path, width)
        if isinstance(node, Snapshots):
            return SnapshotsOp(node, self._storing(node, path), width)
        if isinstance(node.window, RowWindow):
            return ResultRowsOp(node.schema, path, node.window.length, node.partition, width)
        return TimeWindowOp(node.schema, None if node.window.unbounded else node.window.length, width)

    def _sides(self, node: Join | OuterJoin | Negation | Intersection, path: str) -> tuple[StoredInput, StoredInput]:
        return self._storing(node, path, 0), self._storing(node, path, 1)

    def _storing(self, node: Node, path: str, place: int = 0) -> StoredInput:
        """How the node at a path stores its input at a place."""
        below, plain = inputs(node)[place], self._strategy == DIRECT
        pattern, name = self._pattern(below), f"{path_below(path, place)}.live"
        expected = flow_above(below, Statistics(), self._strategy).announced if pattern is STRICT else 0.0
        known = closers(node, path, place, self._strategy)
        return StoredInput(name, pattern, self._span, self._partitions, plain, expected, known)


def pipelined(
    node: MultiJoin, sides: tuple[StoredInput, ...], width: int, execution: JoinExecution = EAGER
) -> MultiJoinOp | GraphJoinOp:
    """The operator of a join of n inputs; `sides` says how they are stored."""
    if node.is_common:
        (attribute,) = node.attributes
        return MultiJoinOp(node.schema, list(attribute.values()), sides, width, execution)
    return GraphJoinOp(node.schema, node.attributes, sides, width)


def _floating_keys(node: Node) -> list[str]:
    """The columns of floating-point numbers by which a node groups or matches rows, and which it outputs."""
    keys: Iterable[str] = ()
    if isinstance(node, Distinct | GroupBy):
        keys = node.keys if isinstance(node, GroupBy) else node.schema.names
    elif isinstance(node, Negation | Intersection) and node.null_safe:
        # Only for set operations: rows that are tested against a sub-query do not change.
        keys = dict.fromkeys(one for one, _ in node.keys)
    return [name for name in keys if pt.is_floating(inputs(node)[0].schema.field(name).type)]


def _rule(node: Negation | Intersection) -> int:
    if isinstance(node, Negation):
        return WITHOUT_MATCH if node.whole else EXCEPT_ALL
    return WITH_MATCH if node.whole else INTERSECT_ALL
