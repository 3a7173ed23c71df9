"""Re-optimisation of a running plan (thesis 1.1, figure 1.2, 2.4.2): measure, price, replace between two micro-batches.

    micro-batches ──► LOOK_EVERY of them: rates, selectivities, values since the last look (observed.py)
                        │ a number has changed by CHANGED
                        ▼
                      prices of all plans of the query ──► one costs FACTOR times less
                        ▼
    plan_runtime.py:  live tuples out of the state (changes/live_tuples.py) ──► state of the new plan ──► an entry

Expected times are off by a quarter on average and at most by two and a half (docs/architecture/changes.md), and two
plans of one query err alike, so FACTOR is 2. A replacement costs about as much as the new plan's work on a window of
tuples: the longest window passes between two replacements. The execution strategy stays: under another strategy rows
have other expiries.

Under SLIDE a replacement happens at a multiple, where no change waits: the epoch before it ends there. The evaluation
of a join, lazy or eager (plan/lazy_joins.py), is replaced like the order of its windows.

The entry of the replacement names the plan by its digest. The plan is made again from the text and the numbers of the
entry, so recovery depends on no statistics of its own time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from sash.changes.live_tuples import NotHeldError, held_windows
from sash.core.errors import CheckpointError
from sash.core.time import SECOND, Micros
from sash.core.window import RowWindow
from sash.plan.choice import evaluated
from sash.plan.continuous import Node, windows
from sash.plan.costs import cost
from sash.plan.estimates import Statistics
from sash.plan.rewrites import cheapest, rewritten
from sash.runtime.compiler import as_select
from sash.runtime.records.journal import PlanProgress, PlanReplacement
from sash.spark.buckets import BucketedPlan
from sash.sql import bind, plan_changes

if TYPE_CHECKING:
    from sash.runtime.continuous.plan_runtime import ContinuousQuery
    from sash.runtime.continuous.plans import PlanDirectories

# Micro-batches between two looks, over all streams of a plan.
LOOK_EVERY = 16
# Plans are priced again when a number is so many times what it was, or as many times less.
CHANGED = 1.5
# A plan is replaced by one that is expected to cost so many times less.
FACTOR = 2.0
# The rows of a larger state belong on the executors; a replacement brings them to this process.
MOST_MOVED = 500_000


def why_fixed(plan: Node, strategy: str) -> str | None:
    """Why a running plan is never replaced: its state does not have the live tuples of its windows."""
    try:
        held_windows(plan, strategy)
    except NotHeldError as error:
        return str(error)
    return None


class Replanner:
    """The other plans of one running query."""

    def __init__(self, query: ContinuousQuery, directories: PlanDirectories) -> None:
        self.query = query
        self._directories = directories
        # The statistics by which the plans were priced last.
        self._priced = Statistics()

    @property
    def is_wanted(self) -> bool:
        return self._directories.shared.settings.replace_plans

    @cached_property
    def _candidates(self) -> list[Node]:
        return rewritten(self.query.written)

    def _written(self, text: str) -> Node:
        """The plan of a text as it was written. The text of a replacement may be that of another query of the plan."""
        if text == self.query.text:
            return self.query.written
        return plan_changes(bind(as_select(text), self._directories.shared.catalog))

    def replacement(self, plan: Node, known: Statistics, progress: PlanProgress) -> PlanReplacement | None:
        """A plan that is worth the change, after the last epoch."""
        last = progress.replaced
        rests = last is not None and progress.low < last.at + _longest(plan)
        if rests or not has_changed(self._priced, known):
            return None
        self._priced = known
        found = self._best(self._candidates, known)
        before, after = (cost(each, known, self.query.execution) for each in (plan, found))
        if before < FACTOR * after or set(windows(found)) != set(windows(plan)):
            return None
        return PlanReplacement(
            progress.number,
            progress.low,
            self._digest(found),
            self.query.text,
            list(known.measurements),
            before,
            after,
            1 if last is None else last.number + 1,
        )

    def opened(self, replacement: PlanReplacement) -> tuple[Node, BucketedPlan]:
        """The plan of a replacement, and what runs it."""
        query, known = self.query, Statistics.of(replacement.measurements)
        plan = self._best(rewritten(self._written(replacement.text)), known)
        if self._digest(plan) != replacement.digest:
            raise CheckpointError(
                f"the plan of query '{query.name}' was replaced by one that this version of Sash does not make; go on "
                f"with the version that wrote the checkpoint, or DROP QUERY {query.name} and register it again: it "
                "then begins with empty windows"
            )
        return plan, self._directories.bucketed(plan, query.state, query.execution)

    def _best(self, plans: Sequence[Node], known: Statistics) -> Node:
        execution = self.query.execution
        return evaluated(cheapest(plans, known, execution), known, execution)[0]

    def _digest(self, plan: Node) -> str:
        return replace(self.query, plan=plan).digest


def has_changed(before: Statistics, now: Statistics) -> bool:
    """Whether a number has changed so much that another plan may be better."""
    known = {(kind, name): number for kind, name, number in before.measurements}
    for kind, name, number in now.measurements:
        old = known.get((kind, name))
        if old is None or max(number, old) >= CHANGED * min(number, old):
            return True
    return False


def _longest(plan: Node) -> Micros:
    """The longest window; of windows of rows, a second stands for the time that they take to be filled."""
    return max([SECOND, *(each.window.length for each in windows(plan) if not isinstance(each.window, RowWindow))])
