"""The ways to execute a continuous plan (thesis 2.3.3, 3.5.2), by name:

    upa      update-pattern-aware: each edge is stored as its pattern asks; negative tuples only where results end early
    nt       negative tuples: windows announce every expiry, so every edge is STRICT and every buffer hashed
    direct   tuples expire by their timestamps wherever they can, out of plain lists
    auto     upa or nt, whichever is expected to cost less when a query is registered

The answers are the same at every instant. `direct` is there for comparison, and never chosen.
"""

from __future__ import annotations

from sash.core.pattern import UpdatePattern
from sash.plan.continuous import Node, NrrJoin
from sash.plan.outputs import Outliving, ResultWindow, Sampled, Snapshots, Stamped

UPA, NT, DIRECT, AUTO = "upa", "nt", "direct", "auto"
STRATEGIES = (UPA, NT, DIRECT)
# What a user may ask for.
EXECUTIONS = (*STRATEGIES, AUTO)


def executed_pattern(node: Node, strategy: str) -> UpdatePattern:
    """The pattern of the edge above a node: where every expiry is announced, all that expires is STRICT."""
    announced = strategy == NT and node.pattern is not UpdatePattern.MONOTONIC
    return UpdatePattern.STRICT if announced else node.pattern


def strategy_below(node: Node, strategy: str) -> str:
    """A lookup in a table cannot be repeated for a negative tuple, and results know their expiries from their tuples':
    below such a node nobody announces them."""
    knows = isinstance(node, NrrJoin | Stamped | Outliving | ResultWindow | Sampled | Snapshots)
    return UPA if strategy == NT and knows else strategy
