"""INTERNAL windows of one SELECT (thesis 3.3.2): what its results are, and what may not stand over them.

    all windows internal (or unbounded)   Outliving <- the SELECT's plan                   append-only
    some of them                          Outliving <- Project <- Join <- Stamped windows  a result ends with the first
                                                                                           of its external tuples

The windows themselves are kept as if they were external.
"""

from __future__ import annotations

from collections.abc import Iterator

from sash.core.errors import CqlError
from sash.plan.continuous import BaseWindow, Node, inputs
from sash.plan.outputs import ResultWindow
from sash.sql.continuous.from_clause import QueryScope


def refuse_internal(node: Node, query: QueryScope, what: str, why: str) -> None:
    """Operators that take results back by their nature would be wrong over results that stay."""
    for window in internal_windows(node):
        reason = f"{what} over an INTERNAL window is refused: {why}; leave out INTERNAL"
        raise CqlError(reason, query.script, query.windows[window.alias])


def internal_windows(node: Node) -> Iterator[BaseWindow]:
    """Those whose results come up to here; a window on the results ends them again."""
    if isinstance(node, BaseWindow) and node.internal:
        yield node
    if not isinstance(node, ResultWindow):
        for part in inputs(node):
            yield from internal_windows(part)
