"""Scripts: read from a file, and rehearsed against an empty catalog so that mistakes show before Spark starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from sash.catalog import Catalog, RegisteredQuery, Table
from sash.core.errors import SashError
from sash.plan.continuous import AUTO, Node, streams_of
from sash.runtime.commands.archive_commands import declared_archive
from sash.runtime.commands.declare import declared_stream, is_needless
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.runtime.continuous.continuous_queries import unmeasured
from sash.runtime.explaining.explain import explain_select
from sash.runtime.explaining.explain_continuous import explain_continuous
from sash.runtime.explaining.explain_stored import explain_rows
from sash.runtime.explaining.explanation import Explanation
from sash.runtime.route import RouteDecision, SelectDecision, decide_select, question_of, route
from sash.sql import (
    SCRIPTS,
    AlterArchive,
    AlterQuery,
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    Delete,
    Describe,
    Drop,
    DropIndex,
    Explain,
    Insert,
    PauseOrResume,
    RegisterQuery,
    SelectStatement,
    SetExecution,
    Show,
    Statement,
    Update,
    altered,
    bind,
    bind_change,
    parse_script,
)

SchemaOf = Callable[[CreateStream], pa.Schema]


def read_script(path: str) -> list[Statement]:
    """The statements of a file, or of stdin for `-`."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SashError(f"cannot read the script: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SashError("cannot read the script: it is not UTF-8 text") from None
    statements = parse_script(text, SCRIPTS)
    if not statements:
        raise SashError("the script has no statements")
    return statements


def place(path: str) -> str:
    """What messages call a script."""
    return "stdin" if path == "-" else path


def title(statement: Statement) -> str:
    """A statement in a few words.

    >>> title(parse_script("DROP QUERY slow")[0])
    'DROP QUERY slow'
    """
    if isinstance(statement, Explain):
        return f"EXPLAIN {one_line(statement.select.text)}"
    if isinstance(statement, SelectStatement):
        return one_line(statement.select.text)
    if isinstance(statement, Drop | Show):
        words = ("DROP", statement.kind, statement.name) if isinstance(statement, Drop) else ("SHOW", statement.what)
        return " ".join([*(word.upper() for word in words[:2]), *words[2:]])
    return _TITLES[type(statement)].format_map(vars(statement))


_TITLES: dict[type[Statement], str] = {
    CreateStream: "CREATE STREAM {name}",
    RegisterQuery: "REGISTER QUERY {name}",
    CreateTable: "CREATE TABLE {name}",
    Insert: "INSERT INTO {table.text}",
    Update: "UPDATE {table.text}",
    Delete: "DELETE FROM {table.text}",
    CreateIndex: "CREATE INDEX ON {stream.text} ({column.text})",
    DropIndex: "DROP INDEX ON {stream.text} ({column.text})",
    CreateArchive: "CREATE ARCHIVE {name.text}",
    AlterArchive: "ALTER ARCHIVE {name.text}",
    AlterQuery: "ALTER QUERY {name.text}",
    PauseOrResume: "{word} QUERY {name.text}",
    SetExecution: "SET EXECUTION {strategy}",
    Describe: "DESCRIBE {name}",
}


def one_line(text: str, width: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


@dataclass
class Rehearsal:
    """What a script would leave in the catalog, and its one-time questions. Needs no Spark."""

    catalog: Catalog = field(default_factory=Catalog)
    queries: dict[str, CompiledQuery] = field(default_factory=dict)
    questions: list[tuple[Statement, CompiledQuery, SelectDecision]] = field(default_factory=list)
    # Explanations of queries that panes do not answer, by what they are called.
    explained: dict[str, Explanation] = field(default_factory=dict)
    decisions: dict[str, RouteDecision] = field(default_factory=dict)
    execution: str = AUTO

    def play(self, statements: Sequence[Statement], schema_of: SchemaOf) -> None:
        for statement in statements:
            self._play(statement, schema_of)

    def _play(self, statement: Statement, schema_of: SchemaOf) -> None:
        if is_needless(statement, self.catalog):
            return
        match statement:
            case CreateStream():
                self.catalog.add_stream(declared_stream(statement, schema_of(statement)))
            case CreateTable():
                table = Table(statement.name, statement.schema, statement.key, statement.retroactive)
                self.catalog.add_table(table)
            case Insert() | Update() | Delete():
                bind_change(statement, self.catalog)
            case RegisterQuery():
                self._register(statement)
            case AlterQuery(name=name, edits=edits, script=script):
                known = self.catalog.query(name.text)
                select = as_select(altered(as_select(known.text), edits, script))
                self._register(RegisterQuery(known.name, select, replace_at=name.span))
            case PauseOrResume(name=name):
                self.catalog.query(name.text)
            case Drop(kind=kind, name=name):
                self._drop(kind, name)
            case CreateArchive():
                self.catalog.add_archive(declared_archive(statement, self.catalog, self._decision_of, self._plan_of))
            case SelectStatement(select=select):
                self._explain(statement, SelectDecision(question_of(select, self.catalog, self._decision_of)))
            case SetExecution(strategy=strategy):
                self.execution = strategy
            case Explain(select=select):
                self._explain(statement, decide_select(select, self.catalog, self._decision_of, self.execution))

    def _drop(self, kind: str, name: str) -> None:
        match kind:
            case "query":
                dropped = self.catalog.drop_query(name)
                self.queries.pop(name.lower(), None)
                self.decisions.pop(name.lower(), None)
                self.explained.pop(dropped.name, None)
            case "stream":
                self.catalog.check_unread_stream(name)
                self.catalog.drop_stream(name)
            case "table":
                self.catalog.drop_table(name)
            case "archive":
                self.catalog.drop_archive(name)

    def _register(self, statement: RegisterQuery) -> None:
        if statement.replace_at is not None and self.catalog.has_query(statement.name):
            self._drop("query", statement.name)
        name, text, bound = statement.name, statement.select.text, bind(statement.select, self.catalog)
        routed = self.decisions[name.lower()] = route(bound, self.execution)
        query = RegisteredQuery(name, text, "", route=routed.route, keep=statement.keep, kept_form=routed.kept_form)
        if routed.changes is not None:
            self.explained[name] = self._explain_continuous(routed)
            streams = streams_of(routed.changes)
            self.catalog.add_query(replace(query, stream=streams[0], streams=streams))
            return
        compiled = compile_panes(bound, name, synopsis=statement.synopsis)
        stream, others = compiled.stream, self.queries.values()
        compiled = compiled.beside(lambda: [other for other in others if other.stream == stream])
        self.catalog.add_query(replace(query, stream=stream))
        self.queries[name.lower()] = replace(compiled, serial=len(self.catalog.queries))

    def _decision_of(self, query: RegisteredQuery) -> RouteDecision:
        return self.decisions[query.name.lower()]

    def _plan_of(self, query: RegisteredQuery) -> Node:
        return self._decision_of(query).written

    def _explain(self, statement: Statement, decision: SelectDecision) -> None:
        """What panes answer is explained later, with the queries that the script registers after it."""
        if isinstance(decision.answer, CompiledQuery):
            self.questions.append((statement, decision.answer, decision))
        else:
            answer = None if decision.answer is None else explain_rows(decision.answer)
            self.explained[title(statement)] = self.explain_select(decision, answer)

    def explain_select(self, decision: SelectDecision, answer: Explanation | None) -> Explanation:
        """`answer` explains the decision's answer."""
        return explain_select(decision, answer, self._explain_continuous)

    def _explain_continuous(self, routed: RouteDecision) -> Explanation:
        streams = map(self.catalog.stream, streams_of(routed.written))
        return explain_continuous(unmeasured(routed), streams)


def declares_all_columns(statements: Sequence[Statement]) -> bool:
    return all(s.schema is not None for s in statements if isinstance(s, CreateStream))


def declared_columns(statement: CreateStream) -> pa.Schema:
    assert statement.schema is not None
    return statement.schema


def rehearse(statements: Sequence[Statement]) -> None:
    """Raise what is wrong with a script, as far as that can be told without opening its sources."""
    if declares_all_columns(statements):
        Rehearsal().play(statements, declared_columns)
