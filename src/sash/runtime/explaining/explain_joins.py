"""EXPLAIN of a join's order: what is known of its inputs, and the cost of probing them in each order (thesis 5.3)."""

from __future__ import annotations

from collections.abc import Iterator

from sash.plan.continuous import Join, Node, inputs, windows
from sash.plan.estimates import Statistics, flow_above, graph_inputs, partial_combinations, values_of
from sash.plan.join_order import GraphInput, JoinInput, Number, augmented, connected_order, cost, written_order
from sash.plan.multi_join import MultiJoin

_ANEW = "  every micro-batch chooses the order again, by the tuples stored then"


def explain_joins(plan: Node, known: Statistics, strategy: str) -> list[str]:
    """The lines of every join in a plan, from the answer down."""
    found: list[str] = []
    if isinstance(plan, MultiJoin) and not plan.is_common:
        found = list(_of_graph(plan, known, strategy))
    elif isinstance(plan, Join | MultiJoin):
        found = list(_of(plan, known, strategy))
    return [*found, *(line for below in inputs(plan) for line in explain_joins(below, known, strategy))]


def _of(join: Join | MultiJoin, known: Statistics, strategy: str) -> Iterator[str]:
    below, flows = inputs(join), [flow_above(each, known, strategy) for each in inputs(join)]
    # Without keys every tuple meets every tuple: as if all had one value.
    names = list(zip(*join.keys, strict=True)) or [()] * len(below)
    values = [values_of(each, own, known) if own else 1.0 for each, own in zip(below, names, strict=True)]
    sides = [
        JoinInput(flow.rate, flow.live / max(flow.rate, 1e-9), many, many)
        for flow, many in zip(flows, values, strict=True)
    ]
    order = augmented(sides)
    shown = [own[0] if own else each.describe() for own, each in zip(names, below, strict=True)]
    yield (
        f"{join.describe()}, probed in the order {', '.join(shown[place] for place in order)}: "
        f"{_number(cost(order, sides))} tuples probed per second, {_number(cost(range(len(sides)), sides))} as written"
    )
    for place in order:
        rate, live, many = map(_number, (flows[place].rate, flows[place].live, values[place]))
        yield f"  {shown[place]}: {rate} tuples per second, {live} in the window, {many} values"
    if isinstance(join, MultiJoin):
        yield _ANEW


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
    yield _ANEW


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
