"""EXPLAIN of a join's order: what is known of its inputs, and the cost of probing them in each order (thesis 5.3)."""

from __future__ import annotations

from collections.abc import Iterator

from sash.core.time import SECOND
from sash.plan.continuous import Join, Node, inputs, windows
from sash.plan.estimates import Statistics, flow_above, graph_inputs, partial_combinations, values_of
from sash.plan.join_order import (
    GraphInput,
    JoinExecution,
    JoinInput,
    Number,
    augmented,
    connected_order,
    cost,
    written_order,
)
from sash.plan.lazy_joins import join_execution
from sash.plan.multi_join import MultiJoin


def explain_joins(plan: Node, known: Statistics, strategy: str) -> list[str]:
    """The lines of every join in a plan, from the answer down."""
    execution = join_execution(plan, SECOND)
    joins = [node for node in _downward(plan) if isinstance(node, Join | MultiJoin)]
    return [line for join in joins for line in _lines(join, known, strategy, execution)]


def _downward(plan: Node) -> Iterator[Node]:
    yield plan
    for below in inputs(plan):
        yield from _downward(below)


def _lines(join: Join | MultiJoin, known: Statistics, strategy: str, execution: JoinExecution) -> Iterator[str]:
    if isinstance(join, MultiJoin) and not join.is_common:
        yield from _of_graph(join, known, strategy)
    else:
        yield from _of(join, known, strategy, execution)
    if isinstance(join, MultiJoin):
        when = "multiple of SLIDE" if execution.lazy else "micro-batch"
        yield f"  every {when} chooses the order again, by the tuples stored then"


def _of(join: Join | MultiJoin, known: Statistics, strategy: str, execution: JoinExecution) -> Iterator[str]:
    below, flows = inputs(join), [flow_above(each, known, strategy) for each in inputs(join)]
    # Without keys every tuple meets every tuple: as if all had one value.
    names = list(zip(*join.keys, strict=True)) or [()] * len(below)
    values = [values_of(each, own, known) if own else 1.0 for each, own in zip(below, names, strict=True)]
    sides = [
        JoinInput(flow.rate, flow.live / max(flow.rate, 1e-9), many, many)
        for flow, many in zip(flows, values, strict=True)
    ]
    order = augmented(sides, execution=execution)
    shown = [own[0] if own else each.describe() for own, each in zip(names, below, strict=True)]
    yield (
        f"{join.describe()}, probed in the order {', '.join(shown[place] for place in order)}: "
        f"{_number(cost(order, sides, execution))} tuples probed per second, "
        f"{_number(cost(range(len(sides)), sides, execution))} as written"
    )
    for place in order:
        rate, live, many = map(_number, (flows[place].rate, flows[place].live, values[place]))
        yield f"  {shown[place]}: {rate} tuples per second, {live} in the window, {many} values"


def _of_graph(join: MultiJoin, known: Statistics, strategy: str) -> Iterator[str]:
    """Every input has an order of its own, along the equalities."""
    flows = [flow_above(each, known, strategy) for each in join.inputs]
    sides, names = graph_inputs(join, flows, known), [_name(each) for each in join.inputs]
    passed, written = (
        _number(partial_combinations(join, flows, known, order)) for order in (connected_order, written_order)
    )
    yield f"{join.describe()}: {passed} partial combinations visited per second, {written} as written, none is stored"
    for place, (flow, name) in enumerate(zip(flows, names, strict=True)):
        order = ", ".join(names[other] for other in connected_order(sides, place)[1:])
        rate, live, many = _number(flow.rate), _number(flow.live), _values(join, place, sides[place])
        yield f"  {name} probes {order}: {rate} tuples per second, {live} in the window, {many}"


def _values(join: MultiJoin, place: int, side: GraphInput) -> str:
    """How many values an input has of each of its attributes."""
    return ", ".join(
        f"{_number(many)} values of {' and '.join(join.attributes[number][place])}"
        for number, many in side.values.items()
    )


def _name(node: Node) -> str:
    return " and ".join(window.alias for window in windows(node))


def _number(estimate: Number) -> str:
    return f"{float(estimate):,.0f}" if estimate >= 10 else f"{float(estimate):.2g}"
