"""The work on a stream's tuples, by Sash and by one Spark job per query: what sharing saves.

A job of its own reads every tuple, makes a row of it for each window that it falls into (Spark's `window()` expands a
row WINDOW / SLIDE times, after WHERE), and aggregates these rows. Sash reads a tuple once per pass and makes a row for
each lane of the pass and each continuous plan. It aggregates these rows, and merges the partials into panes.

    100 tuples of 3 groups in one pane, [WINDOW 60 sec SLIDE 5 sec] and [WINDOW 10 sec SLIDE 5 sec]

                          Sash    a job per query
    tuples read            100                200
    rows expanded          100              1,400
    rows aggregated        103              1,400

Everything is counted, nothing is estimated, and what cannot be counted is left out of the jobs' side: how they merge
their own partials, and the tuples of a WHERE that no pane stores. So the jobs' side is what they would do at least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from sash.panes.covered import CoveredPredicate
from sash.panes.pane_rows import BatchFacts
from sash.plan.expressions import RowExpression
from sash.runtime.compiler import CompiledQuery

Covers = Mapping[RowExpression | None, CoveredPredicate]
# What `stats()["work"]` compares, in the order of a reader's interest.
COMPARED = {
    "passes": "passes over the source",
    "tuples_read": "tuples read",
    "rows_expanded": "rows expanded",
    "rows_aggregated": "rows aggregated",
    "state_rows": "rows of state",
    "executions": "executions",
}


@dataclass
class Work:
    """Rows, from the source to the state."""

    tuples_read: int = 0
    rows_expanded: int = 0
    rows_aggregated: int = 0

    def add(self, read: int, expanded: int, aggregated: int) -> None:
        self.tuples_read += read
        self.rows_expanded += expanded
        self.rows_aggregated += aggregated


class WorkMeter:
    """Counts micro-batch by micro-batch, for the queries of that moment. Windows of time and of rows have a pass each.

    The counts are not in checkpoints: recovery counts again what it repeats.
    """

    def __init__(self) -> None:
        self.shared, self.separate = Work(), Work()
        # By pass: the number of queries, and the windows that a tuple falls into under each WHERE.
        self._queries: Counter[bool] = Counter()
        self._windows: dict[bool, Counter[RowExpression | None]] = {False: Counter(), True: Counter()}

    def change(self, query: CompiledQuery, number: int) -> None:
        """A query comes (1) or goes (-1)."""
        by_rows = query.readings[0].table.by_rows
        self._queries[by_rows] += number
        for window, predicate in {(leaf.window, leaf.predicate) for leaf in query.leaves}:
            windows = self._windows[by_rows]
            windows[predicate] += number * window.per_tuple
            if not windows[predicate]:
                del windows[predicate]

    def take(self, facts: BatchFacts, by_rows: bool, covers: Callable[[], Covers]) -> None:
        """Count a pass. `covers` has the conditions whose partials are combined from those of others.

        Nothing is shared on a stream without queries.
        """
        if not self._queries[by_rows]:
            return
        rows = facts.rows * len(facts.lanes)
        self.shared.add(facts.rows, rows, rows + sum(len(lane.ends) for _, lane, _ in facts.lanes))
        passed, windows = _passed(facts), self._windows[by_rows]
        if windows.keys() - passed.keys():
            passed |= {where: _combined(cover, passed) for where, cover in covers().items() if where not in passed}
        rows = sum(number * passed.get(where, 0) for where, number in windows.items())
        self.separate.add(facts.rows * self._queries[by_rows], rows, rows)

    def take_plans(self, tuples: int, readers: Iterable[int]) -> None:
        """Count the same tuples for continuous plans, each with so many queries; a pass for panes reads them anyway."""
        readers = list(readers)
        if readers and not self._queries.total():
            self.shared.add(tuples, 0, 0)
        for queries in readers:
            self.shared.add(0, tuples, tuples)
            self.separate.add(tuples * queries, tuples * queries, tuples * queries)


def _passed(facts: BatchFacts) -> dict[RowExpression | None, int]:
    """How many tuples each stored WHERE lets through."""
    found: dict[RowExpression | None, int] = {None: facts.rows - facts.null_timestamps - facts.unparsable}
    for _, lane, _ in facts.lanes:
        for partial, columns in lane.lifted.items():
            if partial.kind == "rows" and partial.predicate not in found:
                found[partial.predicate] = pc.sum(columns[0]).as_py() or 0
    return found


def _combined(cover: CoveredPredicate, passed: Mapping[RowExpression | None, int]) -> int:
    added = [passed.get(each, 0) for each in cover.added]
    # Terms overlap: the union has at least the tuples of its largest term.
    return max(added) if cover.overlaps else sum(added) - sum(passed.get(each, 0) for each in cover.subtracted)


def saved(shared: Work, separate: Work) -> float:
    """Which part of the rows that separate jobs would handle Sash does not.

    >>> saved(Work(100, 100, 103), Work(200, 1400, 1400))
    0.899
    """
    ours, theirs = sum(vars(shared).values()), sum(vars(separate).values())
    return 1 - ours / theirs if theirs else 0.0


def times_less(separate: float, shared: float) -> str:
    """How many times less the shared work is; nothing if it is no less.

    >>> times_less(800, 1), times_less(15, 10), times_less(3, 3), times_less(3, 0)
    ('800', '1.5', '', '')
    """
    if separate <= shared or not shared:
        return ""
    return f"{separate / shared:,.0f}" if separate >= 10 * shared else f"{separate / shared:.1f}"


def total(parts: Iterable[Work]) -> Work:
    whole = Work()
    for part in parts:
        whole.add(*vars(part).values())
    return whole
