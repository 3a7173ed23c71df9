"""Sash: hundreds of sliding-window queries over a stream for about the price of one.

The journey of a query (`session.register`):

 1. `sql`        the text becomes a statement, and its SELECT a logical plan: names, types and windows are checked
                 against the catalog, every error points at its word
 2. `plan`       the plan is immutable and can be explained; it says what is asked, not how
 3. `catalog`    the query gets its name; the catalog's version grows
 4. `sharing`    queries of a stream that read the same groups share a pane table: the union of the partials they
                 need, panes as long as the greatest common divisor of their windows and slides. A holistic aggregate
                 reads the table that is grouped by its argument as well; a query may read several tables
 5. `schedule`   the query joins the sub-group of its SLIDE; deadlines go by the period that the policy gives the
                 sub-group, its SLIDE or shorter, and come earlier if an answer was promised earlier
 6. `runtime`    at the next micro-batch the shared pass computes what the query needs as well

The journey of a tuple:

 1. `spark`        Spark reads it; in one pass over the micro-batch it falls into a pane of each pane table and is
                   added to the partials of its groups, by Spark's generated code. Python never sees it (only tuples
                   that wait for a number, for row-based windows, are held in the process)
 2. `panes`        partials of (pane, group) arrive as Arrow and wait in open panes
 3. `runtime`      the watermark passes the pane's end: the pane is closed, in the order of time
 4. `schedule`     queries whose deadline has come are executed, together where they read the same synopsis
 5. `panes`        one scan from the youngest pane to the oldest gives every window's groups along the way, or a
                   running or interval synopsis beside the panes is looked up, whichever costs less;
                   partials are lowered to values, HAVING, ORDER BY and LIMIT make the answer
 6. `runtime`      answers go to their subscribers; the epoch is committed
 7. `storage`      when no window reaches the pane any more, it expires, or is merged into the history of
                   unbounded windows
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sash.core.errors import (
    CatalogError,
    CheckpointError,
    CqlError,
    NotSupportedError,
    QueryFailedError,
    QuestionCancelledError,
    QuestionTimedOutError,
    SashError,
    SourceError,
)
from sash.core.stopping import Cancellation
from sash.moved import MovedModules

if TYPE_CHECKING:
    from sash.runtime.answers.answer import Answer
    from sash.runtime.answers.registered_query import Query
    from sash.runtime.session import Session, connect

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Cancellation",
    "CatalogError",
    "CheckpointError",
    "CqlError",
    "NotSupportedError",
    "Query",
    "QueryFailedError",
    "QuestionCancelledError",
    "QuestionTimedOutError",
    "SashError",
    "Session",
    "SourceError",
    "connect",
]

# Loaded when somebody asks for them: each of Spark's Python workers imports some part of Sash, and never a session.
_LATER = {
    "Answer": "sash.runtime.answers.answer",
    "Query": "sash.runtime.answers.registered_query",
    "Session": "sash.runtime.session",
    "connect": "sash.runtime.session",
}

sys.meta_path.insert(0, MovedModules())


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'sash' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
