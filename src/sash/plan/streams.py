"""What the answer of a continuous plan is: a relation or a stream, at every instant or at the multiples of SLIDE."""

from __future__ import annotations

from sash.core.pattern import UpdatePattern
from sash.plan.continuous import Node, edges
from sash.plan.outputs import Deltas, Outliving, Sampled, Snapshots


def is_stream(plan: Node) -> bool:
    """Whether the answer is a stream of results that never end, and no relation that could be looked at."""
    streams = any(isinstance(part, Deltas | Outliving | Snapshots) for _, part in edges(plan))
    return streams and plan.pattern is UpdatePattern.MONOTONIC


def sampling_of(plan: Node) -> Sampled | None:
    """At which multiples a plan answers, if it does not answer at every instant."""
    top = plan.input if isinstance(plan, Deltas) else plan
    return top if isinstance(top, Sampled) else None
