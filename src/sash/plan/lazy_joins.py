"""Lazy evaluation of joins under SLIDE (thesis 5.2.2): the plan computes at the multiples alone.

    ──┬──s1──t1───┬──s2───────┬──►    eager   every micro-batch joins its tuples, and the results wait for a multiple
      m0          m1          m2      lazy    the tuples wait: s1 and t1 are joined at m1, with each other and with the
                                              tuples stored at m0

    algorithm 4   without restore: windows are as the multiples see them. A tuple that no multiple sees takes no part,
                  and a tuple that the next multiple does not see is not stored
    algorithm 5   with restore: tuples keep their own times, so results that came and went in between are found

Both give the answers of the eager plan. An operator's changes do not depend on where epochs end (changes/stage.py), so
epochs may end at multiples. A join has a result at an instant if it has the result's tuples then, so windows as of the
multiples are enough for the results as of the multiples.

Joins of windows are evaluated lazily, with conditions, projections and unions above and below, by algorithm 4. With an
operator that counts, groups or matches rows (an outer join matches them) it is algorithm 5: the choice among equal
rows, and the rounding of a sum of floats, depend on times. A join with a table is evaluated eagerly: a tuple finds the
rows of its own time.
"""

from __future__ import annotations

from dataclasses import replace

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
    OuterJoin,
    Union,
    edges,
    sampling_of,
)
from sash.plan.join_order import EAGER, JoinExecution, Number
from sash.plan.multi_join import MultiJoin
from sash.plan.outputs import Deltas, LazilySampled, Sampled

# Nodes whose rows at the multiples depend on nothing but their inputs' rows there, in any order.
_AS_SEEN = BaseWindow | Filter | Map | Union | Join | MultiJoin
_COVERED = _AS_SEEN | OuterJoin | Distinct | GroupBy | Negation | Intersection


def evaluation_of(plan: Node) -> LazilySampled | None:
    """The multiples at which a plan is computed; None if every micro-batch computes it."""
    sampling = sampling_of(plan)
    return sampling if isinstance(sampling, LazilySampled) else None


def keeps_times(lazy: LazilySampled) -> bool:
    """Whether tuples keep their own times (algorithm 5), or have those at which multiples see them (algorithm 4)."""
    return lazy.restore or not all(isinstance(node, _AS_SEEN) for _, node in edges(lazy.input))


def lazily(plan: Node) -> Node | None:
    """The same plan, evaluated lazily; None where only eager evaluation is known."""
    sampling = sampling_of(plan)
    if sampling is None or not _is_covered(sampling.input):
        return None
    return _with_sampling(plan, LazilySampled(sampling.input, sampling.slide, sampling.offset, sampling.restore))


def eagerly(plan: Node) -> Node:
    """The same plan, computed by every micro-batch."""
    lazy = evaluation_of(plan)
    return plan if lazy is None else _with_sampling(plan, Sampled(lazy.input, lazy.slide, lazy.offset, lazy.restore))


def _with_sampling(plan: Node, sampling: Sampled) -> Node:
    return replace(plan, input=sampling) if isinstance(plan, Deltas) else sampling


def _is_covered(relation: Node) -> bool:
    below = [node for _, node in edges(relation.input if isinstance(relation, Deltas) else relation)]
    return all(isinstance(node, _COVERED) for node in below) and any(
        isinstance(node, Join | OuterJoin | MultiJoin) for node in below
    )


def join_execution(plan: Node, unit: Number) -> JoinExecution:
    """How the joins of a plan are executed, in units of time: what the cost of their orders depends on."""
    lazy = evaluation_of(plan)
    return EAGER if lazy is None else JoinExecution(True, keeps_times(lazy), lazy.slide / unit)
