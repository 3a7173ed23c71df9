"""What a name may mean at one place of a SELECT: columns, aliases, and whether aggregates may stand.

Columns come from a stream's tuples (`StreamColumns`), from the answers of sub-queries (`AnswerColumns`), or, in a
continuous query, from windows and sub-queries alike (`WindowColumns`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from sash.catalog import Stream
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.language.expressions.terms import Term

_NOWHERE = Span(0, 1)


@dataclass(frozen=True)
class StreamColumns:
    """The columns of one stream, which may be called by its alias or its name."""

    stream: Stream
    alias: str
    what, plural, aggregable = "stream", "streams", True

    @property
    def qualifiers(self) -> tuple[str, ...]:
        return (self.alias,)

    def names(self, qualifier: str | None) -> list[str]:
        return list(self.stream.schema.names)

    def has(self, qualifier: str) -> bool:
        return qualifier.lower() in (self.alias.lower(), self.stream.name.lower())

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        """What the name may mean: nothing, one column, or several where it is ambiguous."""
        column = self.stream.column(name)
        return [] if column is None else [Term("column", (), column.type, span, column.name)]


@dataclass(frozen=True)
class AnswerTable:
    """The answer of one sub-query under its alias; `name` is what the plan calls it, if that is not the alias."""

    alias: str
    columns: tuple[tuple[str, pa.DataType], ...]
    name: str = ""

    @property
    def fields(self) -> list[tuple[str, Term]]:
        """Its columns as terms that stand nowhere yet."""
        prefix = self.name or self.alias
        return [(name, Term("field", (), type, _NOWHERE, f"{prefix}.{name}")) for name, type in self.columns]


@dataclass(frozen=True)
class AnswerColumns:
    """The columns of joined answers.

    `visible` is what SELECT * shows and what a name without a qualifier may mean: a column of USING stands there
    once, and all columns of the tables can be called by their qualified names.
    """

    tables: tuple[AnswerTable, ...]
    visible: tuple[tuple[str, Term], ...]
    what, plural, aggregable = "sub-query", "sub-queries", False

    @property
    def qualifiers(self) -> tuple[str, ...]:
        return tuple(table.alias for table in self.tables)

    def names(self, qualifier: str | None) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.all(qualifier)))

    def has(self, qualifier: str) -> bool:
        return self.table(qualifier) is not None

    def table(self, alias: str) -> AnswerTable | None:
        return next((table for table in self.tables if table.alias.lower() == alias.lower()), None)

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        return [replace(term, span=span) for column, term in self.all(qualifier) if column.lower() == name.lower()]

    def all(self, qualifier: str | None) -> Sequence[tuple[str, Term]]:
        """The columns that a name may mean, with this qualifier or without one."""
        if qualifier is None:
            return self.visible
        table = self.table(qualifier)
        return table.fields if table is not None else ()

    def starred(self, qualifier: str | None) -> Iterator[tuple[str, str | None, Term]]:
        """What `*` or `a.*` stands for, each column with the alias of its table; USING's are of several tables."""
        owners = {term.value: table.alias for table in self.tables for _, term in table.fields}
        hidden = owners.keys() - {term.value for _, term in self.visible}
        merged = {str(value).split(".", 1)[1].lower() for value in hidden} if qualifier is None else set[str]()
        for name, term in self.all(qualifier):
            yield name, None if name.lower() in merged else owners[term.value], term
            # A column of USING stands before all others of its name.
            merged.discard(name.lower())


@dataclass(frozen=True)
class WindowColumns(AnswerColumns):
    """The columns of FROM in a continuous query. `outer` are those of the query around it, which its own hide."""

    outer: WindowColumns | None = None
    what, plural, aggregable = "stream or sub-query", "windows", True

    @property
    def qualifiers(self) -> tuple[str, ...]:
        return (*super().qualifiers, *(self.outer.qualifiers if self.outer is not None else ()))

    def names(self, qualifier: str | None) -> list[str]:
        outer = self.outer.names(qualifier) if self.outer is not None else []
        return list(dict.fromkeys((*super().names(qualifier), *outer)))

    def has(self, qualifier: str) -> bool:
        return super().has(qualifier) or (self.outer is not None and self.outer.has(qualifier))

    def find(self, name: str, qualifier: str | None, span: Span) -> list[Term]:
        found = super().find(name, qualifier, span)
        if found or self.outer is None or (qualifier is not None and super().has(qualifier)):
            return found
        return self.outer.find(name, qualifier, span)


@dataclass(frozen=True)
class Scope:
    """`no_aggregates` is why an aggregate may not stand here, or empty where it may."""

    script: str
    columns: StreamColumns | AnswerColumns
    no_aggregates: str = ""
    aliases: Mapping[str, Term] = field(default_factory=dict)
    aliases_first: bool = False

    def without_aggregates(self, reason: str) -> Scope:
        return replace(self, no_aggregates=reason, aliases={})

    def with_aliases(self, aliases: Mapping[str, Term], *, first: bool = False, no_aggregates: str = "") -> Scope:
        return replace(self, aliases=aliases, aliases_first=first, no_aggregates=no_aggregates)

    def check_aggregate(self, name: str, word: Span) -> None:
        """Whether an aggregate, or a call of TOP and its like, may stand here at all."""
        if not self.columns.aggregable:
            raise self.unsupported(f"the aggregate {name} over sub-queries; aggregate inside a sub-query", word)
        if self.no_aggregates:
            raise self.error(f"the aggregate {name} {self.no_aggregates}", word)

    def error(self, reason: str, span: Span) -> CqlError:
        return CqlError(reason, self.script, span)

    def unsupported(self, what: str, span: Span) -> NotSupportedError:
        return NotSupportedError(what, self.script, span)


# How the rules of single expressions come back to the typer of all.
Typer = Callable[[exp.Expr, Scope], Term]
