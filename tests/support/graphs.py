"""Random graphs of equalities between windows, as joins of two: chains, stars, trees, cycles."""

from __future__ import annotations

from hypothesis import strategies as st

from sash.plan.continuous import Join, Node
from tests.support.plans import named, plans, row_windows, time_windows, window

# By whom each input after the first is tied to those before it.
SHAPES = {
    "chain": lambda place: st.just(place - 1),
    "star": lambda _: st.just(0),
    "tree": lambda place: st.integers(0, place - 1),
}


@st.composite
def graphs(draw: st.DrawFn, *, windows_only: bool = True, most: int = 5) -> Join:
    """Three to five inputs; each is tied to one before it by a column of either, and some to one more."""
    inputs = [draw(_inputs(f"w{place}", windows_only)) for place in range(draw(st.integers(3, most)))]
    parent, column = SHAPES[draw(st.sampled_from(sorted(SHAPES)))], st.integers(0, 1)
    ties = [(draw(parent(place)), place) for place in range(1, len(inputs))]
    others = st.tuples(st.integers(0, len(inputs) - 1), st.integers(0, len(inputs) - 1))
    ties += [(min(tie), max(tie)) for tie in draw(st.lists(others, max_size=2)) if tie[0] != tie[1]]
    keys = [
        (tie, (inputs[tie[0]].schema.names[draw(column)], inputs[tie[1]].schema.names[draw(column)])) for tie in ties
    ]
    return nested(inputs, keys)


def nested(inputs: list[Node], keys: list[tuple[tuple[int, int], tuple[str, str]]]) -> Join:
    """Joins of two, from left to right."""
    found: Node = inputs[0]
    for place in range(1, len(inputs)):
        own = (names for (_, last), names in keys if last == place)
        found = Join(found, inputs[place], tuple(dict.fromkeys(own)))
    assert isinstance(found, Join)
    return found


@st.composite
def _inputs(draw: st.DrawFn, name: str, windows_only: bool) -> Node:
    kind = draw(st.sampled_from(["time", "time", "rows", "partition"] + ["plan"] * (not windows_only)))
    if kind == "plan":
        return named(draw(plans(2, rows=False)), name)
    if kind == "time":
        return window(name, draw(time_windows))
    return window(name, draw(row_windows), ("a",) if kind == "partition" else ())
