"""EXPLAIN of INTERSECT and EXCEPT of two windows that a set-valued index answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sash.core.time import format_duration
from sash.plan.set_windows import Side, WindowedSet
from sash.storage.window.set_index.values import DEFAULT_DIRECTORY

_NAMES = {"list": "L-INDEX", "tree": "T-INDEX", "hash": "H-INDEX", "unsorted": "UH-INDEX"}


def explain_sets(asked: WindowedSet, mates: Sequence[str] = ()) -> Iterator[str]:
    """Which index, what it counts, what it answers, and who asks the same."""
    kind = "G-INDEX" if asked.groups is not None else _NAMES[DEFAULT_DIRECTORY]
    counted = "group of values" if asked.groups is not None else "value"
    yield f"Answered from one {kind} of both windows, with two counts for each {counted}"
    yield f"  {_answer(asked)}"
    for side, name in zip(asked.sides, ("first", "second"), strict=True):
        yield f"  {name} count: {_window(side, asked.pane)}"
    yield f"On Spark: the values of each pane of {format_duration(asked.pane)} are counted; no tuple leaves it"
    yield f"Shared with {', '.join(mates)}" if mates else "Nobody shares it yet"


def _answer(asked: WindowedSet) -> str:
    if asked.groups is not None:
        return f"INTERSECT: ranges in which both counts are above 0; at most {asked.groups} groups, which grow"
    if asked.negated:
        return "EXCEPT: values of which the first count is above 0, and the second is 0"
    return "INTERSECT: values of which both counts are above 0"


def _window(side: Side, pane: int) -> str:
    steps = "".join(f", {step.describe()}" for step in side.steps)
    return f"{side.window.describe()}, {side.length // pane} panes{steps}"
