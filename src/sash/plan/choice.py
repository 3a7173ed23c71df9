"""Which plan, which execution strategy, and which evaluation of a join under SLIDE: the cheapest, at registration.

`nt` is considered where negative tuples are nothing new to readers of the changes: where the answer is STRICT, and
where it is a stream, which has no expiries. A join's changes take nothing back, whatever statistics say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from sash.core.changes import UpdatePattern
from sash.plan.continuous import AUTO, NT, STRATEGIES, UPA, Node
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.lazy_joins import evaluation_of, lazily
from sash.plan.rewrites import cheapest, rewritten


class EvaluationPrices(NamedTuple):
    """The prices of a plan that every micro-batch computes, and of the plan that is computed at the multiples alone."""

    eager: float
    lazy: float


@dataclass(frozen=True)
class Choice:
    """`prices` are of the best plan for each strategy, in microseconds per second; `candidates` are the strategies.

    All are evaluated eagerly; `evaluations` has both prices of the chosen plan where it may be evaluated lazily.
    """

    plan: Node
    strategy: str
    prices: Mapping[str, float]
    candidates: tuple[str, ...]
    evaluations: EvaluationPrices | None = None

    @property
    def is_lazy(self) -> bool:
        return evaluation_of(self.plan) is not None

    def evaluated(self, statistics: Statistics, lazy: bool | None = None) -> Choice:
        """The choice with its evaluation: the cheaper one, or as an earlier query has it."""
        plan, prices = evaluated(self.plan, statistics, self.strategy, lazy)
        return replace(self, plan=plan, evaluations=prices)


def evaluated(
    plan: Node, statistics: Statistics, strategy: str, lazy: bool | None = None
) -> tuple[Node, EvaluationPrices | None]:
    """A plan with the cheaper evaluation, or the wanted one; and both prices where there is a choice."""
    other = lazily(plan)
    if other is None:
        return plan, None
    prices = EvaluationPrices(*(cost(each, statistics, strategy) for each in (plan, other)))
    wanted = prices.lazy < prices.eager if lazy is None else lazy
    return other if wanted else plan, prices


def best_plans(written: Node, statistics: Statistics) -> dict[str, Node]:
    """The cheapest plan for each strategy. This is the slow part of a choice: with many windows about a second."""
    found = rewritten(written)
    return {strategy: cheapest(found, statistics, strategy) for strategy in STRATEGIES}


def choose(
    written: Node, statistics: Statistics, execution: str = AUTO, plans: Mapping[str, Node] | None = None
) -> Choice:
    """The plan and the strategy for a query; `execution` may set the strategy. `plans` are the best, if known."""
    plans = plans or best_plans(written, statistics)
    prices = {strategy: cost(plan, statistics, strategy) for strategy, plan in plans.items()}
    candidates = considered(written) if execution == AUTO else (execution,)
    strategy = min(candidates, key=prices.__getitem__)
    return Choice(plans[strategy], strategy, prices, candidates)


def considered(written: Node) -> tuple[str, ...]:
    """The strategies that `auto` chooses from."""
    takes_back = written.pattern in (UpdatePattern.STRICT, UpdatePattern.MONOTONIC)
    return (UPA, NT) if takes_back else (UPA,)
