"""The flow over the edges of a continuous plan: rates and sizes, from statistics of its streams.

Rates are tuples per second of event time; the size of an edge is how many of its tuples live at a time. Numbers that
were not measured are assumed: all streams are alike, and so are all conditions. Under the negative tuple approach every
expiry is announced, so an edge has as many negative tuples as positive ones; otherwise only for early ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sash.core.changes import UpdatePattern
from sash.core.time import SECOND
from sash.core.window import RowWindow
from sash.plan.continuous import (
    NT,
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
    OuterJoin,
    Union,
    executed_pattern,
    inputs,
    strategy_below,
    windows,
)
from sash.plan.expressions import Field
from sash.plan.join_order import GraphInput, connected_order, matches, met, selectivity
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Deltas, Outliving, ResultWindow, Snapshots


@dataclass(frozen=True)
class Statistics:
    """The known numbers of streams, by lower-case names, and the assumed ones of everything else.

    `epochs` are micro-batches per second of event time: each goes once through an operator's state.
    `rates` are of streams, `selectivities` of conditions (`STREAM WHERE condition`, or a filter's own text), `distinct`
    how many values an expression over a stream has (`STREAM.expression`); without it all have `values`.
    `premature` is the part of a negation's results that are taken back (the thesis found 40 percent); `taken_back` has
    the measured parts, by the texts of negations and intersections.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)
    distinct: Mapping[str, float] = field(default_factory=dict)
    epochs: float = 1.0
    rate: float = 1_000.0
    values: float = 1_000.0
    selectivity: float = 0.5
    passes_negation: float = 0.5
    premature: float = 0.4
    taken_back: Mapping[str, float] = field(default_factory=dict)

    @property
    def measurements(self) -> tuple[tuple[str, str, float], ...]:
        """All measured numbers: kind, name and number, as a catalog keeps them."""
        kinds = {
            "rate": self.rates,
            "selectivity": self.selectivities,
            "distinct": self.distinct,
            "taken back": self.taken_back,
        }
        found = [(kind, name, number) for kind, numbers in kinds.items() for name, number in sorted(numbers.items())]
        return (*found, ("epochs", "", self.epochs)) if self.rates else tuple(found)

    @classmethod
    def of(cls, measurements: Iterable[tuple[str, str, float]]) -> Statistics:
        kinds: dict[str, dict[str, float]] = {
            "rate": {}, "selectivity": {}, "distinct": {}, "epochs": {}, "taken back": {},
        }  # fmt: skip
        for kind, name, number in measurements:
            kinds[kind][name] = number
        epochs = kinds["epochs"].get("", cls.epochs)
        return cls(kinds["rate"], kinds["selectivity"], kinds["distinct"], epochs, taken_back=kinds["taken back"])


@dataclass(frozen=True)
class Flow:
    """The flow over an edge: positive and negative tuples per second, how many live, and the executed pattern."""

    rate: float
    negative: float
    live: float
    pattern: UpdatePattern

    @property
    def tuples(self) -> float:
        return self.rate + self.negative

    @property
    def announced(self) -> float:
        """The part of its tuples that negative tuples take back."""
        return min(1.0, self.negative / self.rate) if self.rate else 0.0


def flow_above(node: Node, known: Statistics, strategy: str) -> Flow:
    """The edge above a node, from the streams up."""
    lower = strategy_below(node, strategy)
    return flow(node, [flow_above(each, known, lower) for each in inputs(node)], known, strategy)


def flow(node: Node, below: Sequence[Flow], known: Statistics, strategy: str) -> Flow:
    """The edge above a node, from those below it."""
    rate, negative, live = _sizes(node, below, known, strategy)
    return Flow(rate, negative, live, executed_pattern(node, strategy))


def _sizes(node: Node, below: Sequence[Flow], known: Statistics, strategy: str) -> tuple[float, float, float]:
    if isinstance(node, BaseWindow):
        return _window(node, known, strategy)
    first = below[0]
    if isinstance(node, Filter):
        part = known.selectivities.get(str(node.condition).lower(), known.selectivity)
        return first.rate * part, first.negative * part, first.live * part
    if isinstance(node, Union):
        return tuple(sum(each) for each in zip(*((f.rate, f.negative, f.live) for f in below), strict=True))
    if isinstance(node, Join):
        return _joined(below[0], below[1], _key_values(node, known))
    if isinstance(node, OuterJoin):
        return _outer_joined(node, below, known)
    if isinstance(node, MultiJoin):
        return _multi_joined(node, below, known)
    if isinstance(node, Distinct):
        return _distinct(first, values_of(node.input, node.schema.names, known))
    if isinstance(node, GroupBy):
        # An arrival and an expiry each replace a group's row.
        groups = occupied(values_of(node.input, node.keys, known), first.live) if node.keys else 1.0
        return 2 * first.rate, 2 * first.rate, groups
    if isinstance(node, Negation | Intersection):
        return _matched(node, first, known)
    return _output(node, first)


def _window(node: BaseWindow, known: Statistics, strategy: str) -> tuple[float, float, float]:
    rate = known.rates.get(node.stream.lower(), known.rate)
    if node.predicate is not None:
        rate *= known.selectivities.get(condition_on(node.stream, node.predicate.sql), known.selectivity)
    if isinstance(node.window, RowWindow):
        return rate, rate, node.window.length
    if node.window.unbounded:
        # The tuples of an hour stand for those that never expire.
        return rate, 0.0, 3_600 * rate
    return rate, rate if strategy == NT else 0.0, rate * node.window.length / SECOND


def _joined(left: Flow, right: Flow, values: float) -> tuple[float, float, float]:
    """Each arrival finds its share of the other side; so does each negative tuple."""
    pairs = (left.rate * right.live + right.rate * left.live) / values
    negative = (left.negative * right.live + right.negative * left.live) / values
    return pairs, negative, left.live * right.live / values


def _outer_joined(node: OuterJoin, below: Sequence[Flow], known: Statistics) -> tuple[float, float, float]:
    """The pairs, and of each kept side the tuples that pass a negation."""
    parts = [_joined(below[0], below[1], _key_values(node, known))]
    parts += [_without_match(each, known) for each, keeps in zip(below, node.keeps, strict=True) if keeps]
    rate, negative, live = (sum(each) for each in zip(*parts, strict=True))
    return rate, negative, live


def _multi_joined(node: MultiJoin, below: Sequence[Flow], known: Statistics) -> tuple[float, float, float]:
    """One input after the other (thesis 5.3.1): a join has as many values as the input with the fewest."""
    sides = graph_inputs(node, below, known)
    first, *others = connected_order(sides, 0)
    found, values = below[first], dict(sides[first].values)
    for place in others:
        found = Flow(*_joined(found, below[place], selectivity(values, sides[place])), pattern=found.pattern)
        values = met(values, sides[place])
    return found.rate, found.negative, found.live


def graph_inputs(node: MultiJoin, below: Sequence[Flow], known: Statistics) -> list[GraphInput]:
    """The numbers that decide the order of a join's inputs."""
    return [
        GraphInput(
            edge.live,
            {
                number: max(1.0, values_of(node.inputs[place], attribute[place], known))
                for number, attribute in enumerate(node.attributes)
                if place in attribute
            },
        )
        for place, edge in enumerate(below)
    ]


def partial_combinations(
    node: MultiJoin,
    below: Sequence[Flow],
    known: Statistics,
    order: Callable[[Sequence[GraphInput], int], tuple[int, ...]] = connected_order,
) -> float:
    """How many combinations of some of the inputs are gone through per second; they are stored nowhere."""
    sides, found = graph_inputs(node, below, known), 0.0
    for of, edge in enumerate(below):
        combinations, values = edge.tuples, dict(sides[of].values)
        for place in order(sides, of)[1:-1]:
            combinations *= matches(values, sides[place])
            found += combinations
            values = met(values, sides[place])
    return found


def _distinct(first: Flow, values: float) -> tuple[float, float, float]:
    """A counted value comes when it has no tuple yet; otherwise its shown tuple is replaced when it expires."""
    live = occupied(values, first.live)
    if first.pattern is UpdatePattern.STRICT:
        appears = first.rate * math.exp(-first.live / values)
        return appears, appears, live
    return first.rate * live / max(first.live, 1.0), 0.0, live


def _matched(node: Negation | Intersection, left: Flow, known: Statistics) -> tuple[float, float, float]:
    passed, taken_back, live = _without_match(left, known)
    measured = known.taken_back.get(matched_in(node)) if known.taken_back else None
    return passed, taken_back if measured is None else passed * measured, live


def _without_match(left: Flow, known: Statistics) -> tuple[float, float, float]:
    """What passes a negation, as far as nothing is measured."""
    part = known.passes_negation
    assumed = left.announced + (1 - left.announced) * known.premature
    return left.rate * part, left.rate * part * assumed, left.live * part


def _output(node: Node, first: Flow) -> tuple[float, float, float]:
    if isinstance(node, Duplicates | Deltas | Outliving | Snapshots):
        return first.rate, 0.0, first.live
    if isinstance(node, ResultWindow):
        length = node.window.length
        if isinstance(node.window, RowWindow):
            return first.rate, first.rate, length
        return first.rate, 0.0, first.live if node.window.unbounded else first.rate * length / SECOND
    return first.rate, first.negative, first.live


def occupied(values: float, tuples: float) -> float:
    """How many of `values` values occur among some tuples.

    >>> round(occupied(1_000, 10)), round(occupied(1_000, 1_000)), round(occupied(1_000, 100_000))
    (10, 632, 1000)
    """
    return values * -math.expm1(-tuples / values)


def matched_in(node: Negation | Intersection) -> str:
    """How statistics name a negation or an intersection: with its windows, whose lengths count."""
    over = ", ".join(window.describe() for window in windows(node))
    return f"{node.describe()} of {over}".lower()


# -- values ---------------------------------------------------------------------------------------------


def condition_on(stream: str, condition: str) -> str:
    """How statistics name a condition on a stream."""
    return f"{stream.lower()} where {condition.lower()}"


def expression_on(stream: str, expression: str) -> str:
    """How statistics name an expression over a stream."""
    return f"{stream}.{expression}".lower()


def values_of(node: Node, columns: Sequence[str], known: Statistics) -> float:
    """How many different rows some columns may have: the product of the columns' numbers, if all are known."""
    counts = [known.distinct.get(origin(node, column) or "") for column in columns]
    found = [count for count in counts if count is not None]
    return math.prod(found) if found and len(found) == len(counts) else known.values


def _key_values(node: Join | OuterJoin, known: Statistics) -> float:
    """The values of the side that has more of them: the other side's are among them."""
    if not node.keys:
        return 1.0
    sides = ((node.left, [one for one, _ in node.keys]), (node.right, [other for _, other in node.keys]))
    return max(1.0, *(values_of(side, columns, known) for side, columns in sides))


def origin(node: Node, column: str) -> str | None:
    """The expression over a stream behind a column, by its name in statistics; None if it is computed above."""
    if isinstance(node, BaseWindow):
        found = next((each for each in node.columns if each.name == column), None)
        return None if found is None else expression_on(node.stream, found.expression.sql)
    if isinstance(node, Map):
        made = dict(node.outputs).get(column)
        return origin(node.input, made.name) if isinstance(made, Field) else None
    if isinstance(node, Union):
        return None
    return next((origin(each, column) for each in inputs(node) if column in each.schema.names), None)
