"""What a continuous plan costs per second (thesis 3.5.3): tuples that operators process, and state that they maintain.

    cost of an operator = arrivals + results + negative tuples, each with what it touches of the state

Rates are tuples per second; the size of an edge is how many of its tuples live at a time. A negative tuple costs as
much as a positive one, and a search for the tuple that it takes back; it may make further ones above. Without
measurements all streams are taken to be alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sash.core.time import SECOND
from sash.core.window import RowWindow
from sash.plan.continuous import (
    BaseWindow,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Map,
    Negation,
    Node,
    NrrJoin,
    RelationJoin,
    Union,
    inputs,
)
from sash.plan.outputs import OutputNode

# A result's share of the work: it is made and handed on, not looked up.
RESULT = 1.0
# A negative tuple searches the buffer for its own.
SEARCH = 2.0


@dataclass(frozen=True)
class Statistics:
    """What is known of the streams; `values` is the number of different keys, `premature` the part of a negation's
    results that are taken back (the thesis found 40 percent)."""

    rates: Mapping[str, float] = field(default_factory=dict)
    rate: float = 1_000.0
    values: float = 1_000.0
    selectivity: float = 0.5
    passes_negation: float = 0.5
    premature: float = 0.4


@dataclass(frozen=True)
class Flow:
    """What comes over an edge: positive and negative tuples per second, and how many live."""

    rate: float
    negative: float
    live: float


def cost(plan: Node, statistics: Statistics) -> float:
    """Per second, for the whole plan."""
    return _costed(plan, statistics)[1]


def _costed(node: Node, known: Statistics) -> tuple[Flow, float]:
    below = [_costed(input, known) for input in inputs(node)]
    flows, spent = [flow for flow, _ in below], sum(price for _, price in below)
    flow = _flow(node, flows, known)
    stores = isinstance(node, Join | Distinct | GroupBy | Negation)
    taken = sum(each.rate + each.negative * (1 + SEARCH * stores) for each in flows)
    return flow, spent + taken + RESULT * (flow.rate + flow.negative)


def _flow(node: Node, below: list[Flow], known: Statistics) -> Flow:
    if isinstance(node, BaseWindow):
        return _window(node, known)
    first = below[0]
    if isinstance(node, Filter):
        part = known.selectivity
        return Flow(first.rate * part, first.negative * part, first.live * part)
    if isinstance(node, Map | NrrJoin | RelationJoin | OutputNode):
        return first
    if isinstance(node, Union):
        return Flow(*(sum(getattr(each, name) for each in below) for name in ("rate", "negative", "live")))
    if isinstance(node, Join):
        return _joined(below[0], below[1], known)
    if isinstance(node, Distinct):
        live = min(first.live, known.values)
        return Flow(first.rate * live / max(first.live, 1.0), first.negative * live / max(first.live, 1.0), live)
    if isinstance(node, GroupBy):
        return Flow(2 * first.rate, 2 * first.rate, min(first.live, known.values))
    return _matched(first, known)


def _window(node: BaseWindow, known: Statistics) -> Flow:
    rate = known.rates.get(node.stream.lower(), known.rate)
    rate *= known.selectivity if node.predicate is not None else 1.0
    if isinstance(node.window, RowWindow):
        return Flow(rate, rate, node.window.length)
    return Flow(rate, 0.0, rate * node.window.length / SECOND)


def _joined(left: Flow, right: Flow, known: Statistics) -> Flow:
    """Each arrival finds its share of the other side; so does each negative tuple."""
    pairs = (left.rate * right.live + right.rate * left.live) / known.values
    negative = (left.negative * right.live + right.negative * left.live) / known.values
    return Flow(pairs, negative, left.live * right.live / known.values)


def _matched(left: Flow, known: Statistics) -> Flow:
    part = known.passes_negation
    return Flow(left.rate * part, (left.negative + left.rate * known.premature) * part, left.live * part)
