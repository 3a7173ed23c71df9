"""An answer: what a query said at one time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from sash.engine.answers.notebook.html import answer_html


@dataclass(frozen=True)
class Answer:
    """`as_of` is the end of the window's youngest pane (plus LAG), an aware UTC datetime.

    Over a row-based window it is the timestamp of the last tuple counted, and `rows` is how many were; several answers
    may then have one `as_of`.
    `complete`: the whole window lies within what is retained for the query.
    `scheduled`: `as_of` is one of the query's own multiples of SLIDE.
    """

    query: str
    as_of: datetime
    complete: bool
    scheduled: bool
    table: pa.Table
    rows: int | None = None

    def _repr_html_(self) -> str:
        return answer_html(self.query, self.as_of, self.complete, self.table)
