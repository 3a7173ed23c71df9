"""Since when a continuous plan has all tuples of each of its streams: the rule of panes (pane_group.py), for plans.

    tuples of S         x    x x     x x     x     x
    panes           ┴─────┴─────┴─────┴─────┴─────┴─────┴
                    ▲ a plan that was there before the first tuple: since the beginning of its pane
    came here                    |    ▲ since the end of the pane that S had reached by then,
                                        or the beginning of the pane with the first tuple after that

An answer is complete if its windows do not reach further back.

Where the stream keeps a stored window (KEEP), a plan that comes later begins with the stored rows instead:

    stored rows of S    x    x x     x x |
                        ▲ since here     ▲ came here: the plan takes the rows as one epoch, and tells nobody of the
                                           past; the rows of the answer stand, and changes go on from them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sash.core.time import Micros, multiple_at_or_after
from sash.plan.continuous import Node
from sash.plan.outputs import Sampled
from sash.plan.reach import pane_of
from sash.runtime.records.journal import Beginning
from sash.runtime.spark_pass import BatchTimes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class StoredBeginning:
    """A stream's stored rows after micro-batch `epoch`; `earliest` is a bound of their least time.

    If they `are_far`, the executors process them.

    `missed`: up to there rows are not stored any more; None if all rows since the first one are. The stream has reached
    `latest`, and its watermark.
    """

    rows: DataFrame
    are_far: bool
    epoch: int
    earliest: Micros | None
    missed: Micros | None
    latest: Micros | None
    watermark: Micros | None


@dataclass(frozen=True)
class PlanPanes:
    """How a plan's time is cut into panes."""

    length: int = 1
    offset: int = 0

    def begun(self, seen: BatchTimes) -> Beginning:
        """The beginning that the first micro-batch of a stream shows."""
        missed = None if seen.before is None else self._end(seen.before)
        if seen.earliest is None or seen.late is None or seen.earliest >= seen.late:
            return self.noted(Beginning(None, missed), seen, None)
        # Late tuples hide where the other tuples begin, which is no later than `latest`.
        if seen.latest is None or seen.latest < seen.late:
            return Beginning(None, missed)
        return Beginning(self._end(seen.latest) - self.length, missed)

    def stored(self, earliest: Micros | None, missed: Micros | None) -> Beginning:
        """The beginning of a plan that has taken the stored rows of a stream."""
        if missed is not None or earliest is None:
            return Beginning(missed, missed)
        return Beginning(self._end(earliest) - self.length)

    def noted(self, known: Beginning, seen: BatchTimes, late: Micros | None) -> Beginning:
        """The beginning after a later micro-batch: its tuples, out of order but not late, may lie before it."""
        if seen.earliest is None or (late is not None and seen.earliest < late):
            return known
        origin = self._end(seen.earliest) - self.length
        return Beginning(origin if known.origin is None else min(origin, known.origin), known.missed)

    def _end(self, time: Micros) -> Micros:
        """The end of the pane that holds a time."""
        return multiple_at_or_after(time, self.length, self.offset)


def panes_of(plan: Node, sampling: Sampled) -> PlanPanes:
    """The panes of a plan that is answered at the multiples of SLIDE."""
    return PlanPanes(pane_of(plan, sampling.slide), sampling.offset)
