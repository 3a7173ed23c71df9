"""An answer: the result of a query as of one time.

Tables as HTML for notebooks.

Data may be hostile: every name and value is escaped. There are no colours, so that light and dark pages both can be
read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from sash.core.time import Micros, to_datetime
from sash.panes.answers import PendingTable
from sash.sql.roles import is_number

if TYPE_CHECKING:
    from sash.runtime.answers.registered_query import Outward

_set = object.__setattr__
MOST_ROWS = 20
# A cell is cut to this many characters.
_WIDEST = 200


def answer_html(query: str, as_of: datetime, complete: bool, table: pa.Table) -> str:
    state = "" if complete else ", window not complete yet"
    return table_html(table, f"{query} as of {_moment(as_of)} UTC{state}")


def query_html(name: str, text: str, state: str, latest: str | None) -> str:
    """`latest` is the newest answer, as HTML already."""
    head = f"<p><strong>{escape(name)}</strong>: {escape(state)}</p><pre>{escape(text)}</pre>"
    return head + (latest or "<p>no answer yet</p>")


def table_html(table: pa.Table, caption: str) -> str:
    """At most MOST_ROWS rows; a line below says how many more there are."""
    heads = "".join(f'<th style="text-align:{_side(field.type)}">{escape(field.name)}</th>' for field in table.schema)
    lines = [
        "<tr>"
        + "".join(_cell(value, _side(field.type)) for value, field in zip(row, table.schema, strict=True))
        + "</tr>"
        for row in _rows(table.slice(0, MOST_ROWS))
    ]
    more = table.num_rows - len(lines)
    note = f"<p>{more:,} more row{'s' * (more > 1)}</p>" if more > 0 else ""
    body = "".join(lines)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{note}"
    )


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """By position: two columns may have the same name."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _cell(value: Any, side: str) -> str:
    text = "<em>NULL</em>" if value is None else escape(_text(value))
    return f'<td style="text-align:{side}">{text}</td>'


def _text(value: Any) -> str:
    text = (
        f"{value:.10g}" if isinstance(value, float) else _moment(value) if isinstance(value, datetime) else str(value)
    )
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]} .."


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ") if value.tzinfo else value.isoformat(" ")


def _side(type: pa.DataType) -> str:
    return "right" if is_number(type) else "left"


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

    if TYPE_CHECKING:

        @property
        def content(self) -> pa.Table | PendingTable:
            """The table, or the table to be made: answers over one window may share it."""
    else:

        def __getattr__(self, name: str) -> Any:
            """Python asks here for an attribute that is not set: the table, while nobody has looked at it."""
            if name == "table" and "content" in vars(self):
                _set(self, "table", self.content.table)
                return self.table
            if name == "content" and "table" in vars(self):
                return self.table
            raise AttributeError(f"'Answer' object has no attribute {name!r}")

    def __reduce__(self) -> tuple[type[Answer], tuple[Any, ...]]:
        """Copies, and other processes, get the table."""
        return Answer, (self.query, self.as_of, self.complete, self.scheduled, self.table, self.rows)

    @property
    def num_rows(self) -> int:
        """The number of rows of the table, which need not be made for it."""
        rows: int = self.content.num_rows
        return rows

    def _repr_html_(self) -> str:
        return answer_html(self.query, self.as_of, self.complete, self.table)


class Addressees:
    """The queries that are answered together. Who delivers their answers notes here where these go, as of a state."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.outwards: tuple[int, Sequence[Outward | None]] | None = None


class AnswerBatch(NamedTuple):
    """The answers of queries that are answered together, as of one time: one for each of the addressees."""

    as_of: datetime
    answers: Sequence[Answer]
    addressees: Addressees

    @classmethod
    def alike(
        cls,
        addressees: Addressees,
        kinds: Iterable[int],
        contents: Sequence[tuple[bool, bool, str, pa.Table | PendingTable | None]],
        as_of: datetime,
        rows: int | None,
    ) -> AnswerBatch:
        """Each answer has `complete`, `scheduled` and the table of its kind, as an attribute of this name.

        A pending table, the `content`, is made when somebody looks at it. A query without a table has no answer.
        """
        answers, make = list[Answer](), Answer.__new__
        for query, kind in zip(addressees.names, kinds, strict=True):
            complete, scheduled, attribute, content = contents[kind]
            if content is None:
                continue
            answer = make(Answer)
            # Without `__dict__`, which would be one more object for Python's collector to look at.
            _set(answer, "query", query)
            _set(answer, "as_of", as_of)
            _set(answer, "complete", complete)
            _set(answer, "scheduled", scheduled)
            _set(answer, attribute, content)
            if rows is not None:
                _set(answer, "rows", rows)
            answers.append(answer)
        return cls(as_of, answers, addressees) if len(answers) == len(addressees.names) else cls.of(as_of, answers)

    @classmethod
    def of(cls, as_of: datetime, answers: Sequence[Answer]) -> AnswerBatch:
        return cls(as_of, answers, Addressees([answer.query for answer in answers]))

    def only(self, wanted: Callable[[str], bool]) -> AnswerBatch:
        """The answers of some queries."""
        return AnswerBatch.of(self.as_of, [answer for answer in self.answers if wanted(answer.query)])


def stamped_table(table: pa.Table, as_of: Micros | None, complete: bool) -> pa.Table:
    """The answer of a one-time question, with its time and completeness in the schema's metadata."""
    times = {} if as_of is None else {"as_of": to_datetime(as_of).isoformat()}
    return table.replace_schema_metadata({**times, "complete": json.dumps(complete)})
