"""The statements of CQL, as the engine executes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlglot import exp

from sash.catalog import MEMORY, Source
from sash.core.errors import Span
from sash.core.time import SECOND, Micros
from sash.sql.reading.cursor import Name
from sash.sql.reading.output_clause import OutputClause
from sash.sql.reading.places import TextEdit, edits_of, output_of, span_of


@dataclass(frozen=True, eq=False)
class Select:
    """A SELECT that was parsed and not yet bound: its tree, and the script in which the tree's offsets count."""

    tree: exp.Expr
    script: str
    span: Span
    edits: tuple[TextEdit, ...] = ()

    @property
    def cql(self) -> str:
        """The SELECT with everything that it leaves to Sash: its text, edited."""
        parts, end = [], self.span.start
        # A query of WITH stands in several places, and has one text.
        edits = dict.fromkeys((*edits_of(self.tree), *self.edits))
        for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
            parts += [self.script[end : edit.span.start], edit.text]
            end = edit.span.end
        return "".join([*parts, self.script[end : self.span.end]])

    @property
    def text(self) -> str:
        """The SELECT as it was written."""
        return self.script[self.span.start : self.span.end]

    @property
    def word(self) -> Span:
        """Its first word, SELECT."""
        return Span(self.span.start, self.span.start + len("SELECT"))

    @property
    def output(self) -> OutputClause | None:
        return output_of(self.tree)

    @cached_property
    def tables(self) -> list[exp.Table]:
        """The named tables in FROM, sub-queries included, in the order of the text."""
        return sorted(self.tree.find_all(exp.Table), key=lambda table: span_of(table).start)

    @property
    def calls(self) -> set[str]:
        """The lower-case names of the functions that it calls."""
        return {node.name.lower() for node in self.tree.find_all(exp.Anonymous)}


@dataclass(frozen=True)
class CreateStream:
    """All durations in microseconds; without columns the source's own schema counts."""

    name: str
    schema: pa.Schema | None
    timestamp: str
    source: Source
    delay: Micros = 0
    granule: Micros = SECOND
    offset: Micros = 0
    closed_left: bool = False
    late_revise: bool = False
    idle_after: Micros | None = None
    keep: Micros | None = None
    keep_in: str = MEMORY
    shed: int | None = None
    shed_approx: bool = False
    shed_first: str | None = None
    max_jump: Micros | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateIndex:
    """An index on a column of a stream that stores its window, or of a query; `kind` is None if Sash may choose."""

    stream: Name
    column: Name
    kind: str | None
    script: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropIndex:
    """`kind` is None if all indexes of the column go."""

    stream: Name
    column: Name
    kind: str | None
    script: str
    if_exists: bool = False


@dataclass(frozen=True)
class Partitioning:
    """How an archive divides insertion and expiry times; without numbers Sash chooses."""

    insertions: int | None = None
    expiries: int | None = None
    layout: str = "round_robin"
    rebuild: bool = True

    @property
    def is_auto(self) -> bool:
        return self.insertions is None


@dataclass(frozen=True)
class CreateArchive:
    """An archive of a stream or a registered query; `lifetime_column` has the lifetimes of rows, up to `lifetime`."""

    name: Name
    source: Name
    key: Name
    lifetime: Micros
    every: Micros
    lifetime_column: Name | None = None
    partitioning: Partitioning = Partitioning()
    directory: str | None = None
    script: str = ""
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterArchive:
    name: Name
    partitioning: Partitioning
    script: str


@dataclass(frozen=True)
class Setting:
    """A part of a query that ALTER QUERY sets: its word, its text, and its place in the statement."""

    word: str
    text: str
    at: Span


@dataclass(frozen=True)
class AlterQuery:
    """`edits` are parts of the query's text, and `options` what REGISTER has behind it.

    `allows_incomplete`: the answers may be incomplete for a while, though they were complete.
    """

    name: Name
    edits: tuple[Setting, ...]
    options: Mapping[str, Any]
    script: str
    allows_incomplete: bool = False


@dataclass(frozen=True)
class PauseOrResume:
    """PAUSE QUERY and RESUME QUERY; `word` is PAUSE or RESUME."""

    name: Name
    word: str
    script: str

    @property
    def paused(self) -> bool:
        return self.word == "PAUSE"


@dataclass(frozen=True)
class CreateTable:
    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    retroactive: bool
    if_not_exists: bool = False


@dataclass(frozen=True, eq=False)
class Insert:
    """Rows of constants, for the columns that are named or for all."""

    table: Name
    columns: tuple[Name, ...] | None
    rows: tuple[tuple[exp.Expr, ...], ...]
    script: str


@dataclass(frozen=True, eq=False)
class Update:
    table: Name
    values: tuple[tuple[Name, exp.Expr], ...]
    where: exp.Expr
    script: str


@dataclass(frozen=True, eq=False)
class Delete:
    table: Name
    where: exp.Expr
    script: str


@dataclass(frozen=True)
class RegisterQuery:
    """`synopsis` is the kind that the user has set (basic, running, interval, landmark), None if Sash may choose.

    `keep`: for how long its results are stored for questions.
    `replace_at` is where OR REPLACE stands; None: a query of that name is an error.
    """

    name: str
    select: Select
    priority: int = 0
    lifetime: Micros | None = None
    synopsis: str | None = None
    comment: str = ""
    if_not_exists: bool = False
    keep: Micros | None = None
    replace_at: Span | None = None

    @property
    def text(self) -> str:
        return self.select.text


@dataclass(frozen=True)
class Drop:
    """`kind` is query, stream, table or archive."""

    kind: str
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Show:
    """`what` is queries, streams, tables, indexes, archives or functions; `like` is a pattern of functions' names."""

    what: str
    like: str | None = None


@dataclass(frozen=True)
class SetExecution:
    """How continuous queries that are registered from now on are executed."""

    strategy: str


@dataclass(frozen=True)
class Describe:
    name: str
    extended: bool = False


@dataclass(frozen=True)
class Explain:
    select: Select


@dataclass(frozen=True)
class SelectStatement:
    select: Select


TableStatement = Insert | Update | Delete
Statement = (
    CreateStream
    | CreateIndex
    | CreateArchive
    | CreateTable
    | RegisterQuery
    | Drop
    | DropIndex
    | AlterArchive
    | AlterQuery
    | PauseOrResume
    | Insert
    | Update
    | Delete
    | Show
    | SetExecution
    | Describe
    | Explain
    | SelectStatement
)
