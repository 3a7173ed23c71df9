"""What must hold for every text that somebody sends; `hostile_grammar` makes such texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import strategies as st

from sash.catalog import Catalog, QueryResult, RegisteredQuery, Route, Stream
from sash.core.errors import CqlError, SashError
from sash.plan.continuous import EXECUTIONS, Node, streams_of
from sash.runtime.answers.change_view import ChangeView
from sash.runtime.commands.archive_commands import declared_archive
from sash.runtime.commands.declare import declared_stream
from sash.runtime.commands.index_commands import IndexCommands
from sash.runtime.compiler import as_select, compile_panes, compile_query
from sash.runtime.continuous.continuous_queries import unmeasured
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.explaining.explain_continuous import explain_continuous
from sash.runtime.explaining.explain_stored import explain_rows
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.route import decide_registered, is_continuous, question_of, result_of, route_plan
from sash.runtime.session_parts import SessionParts
from sash.runtime.settings import Settings
from sash.runtime.stored.stored_window import StoredWindow
from sash.sql import (
    AlterQuery,
    CreateArchive,
    CreateIndex,
    CreateStream,
    Delete,
    DropIndex,
    Explain,
    Insert,
    RegisterQuery,
    Select,
    SelectStatement,
    Statement,
    StoredQuestion,
    Update,
    altered,
    bind,
    bind_change,
    bind_stored,
    has_slide,
    parse,
    parse_script,
    plan_changes,
    stream_names,
)
from tests.sql.examples import catalog
from tests.sql.hostile_grammar import EXAMPLES, Sentences

_COLUMNS = """(ts TIMESTAMP, src INT, dst INT, protocol STRING, port INT, length INT, price DECIMAL(10,2), ratio DOUBLE,
    day DATE, ok BOOLEAN, tags ARRAY<STRING>) FROM csv OPTIONS (path 'x') TIMESTAMP ts"""
_STREAMS = {
    "stored": "KEEP 10 min",
    "files": "KEEP 10 min STORED IN CLUSTER",
    "busy": "SHED RANDOM 0.5",
    "guessed": "SHED RANDOM 0.1 APPROX",
    "left": "CLOSED LEFT KEEP 10 min",
    "revised": "LATE REVISE OFFSET 30 sec",
    "careful": "MAX JUMP 1 day DELAY 10 sec GRANULE 2 sec",
}
_MORE = (
    "REGISTER QUERY udp AS SELECT src, length FROM packets [WINDOW 8 sec] WHERE protocol = 'UDP'",
    "CREATE ARCHIVE calls FROM udp KEY src LIFETIME UP TO 8 sec UPDATE EVERY 2 sec",
    "CREATE ARCHIVE log FROM packets KEY src LIFETIME UP TO 10 min UPDATE EVERY 1 min",
)


def _catalog() -> Catalog:
    """That of the other tests, with streams of every kind, what the reference declares, its queries and archives."""
    known = catalog()
    for text in (*(f"CREATE STREAM {name} {_COLUMNS} {clauses}" for name, clauses in _STREAMS.items()), *_MORE):
        _declare(known, parse(text))
    for text in EXAMPLES:
        try:
            _declare(known, parse(text))
        except SashError:
            # A stream or table that the tests have under the same name, with other columns.
            continue
    return known


def _declare(known: Catalog, statement: Statement) -> None:
    if isinstance(statement, CreateStream) and statement.schema is not None:
        known.add_stream(declared_stream(statement, statement.schema))
    elif isinstance(statement, CreateArchive):
        known.add_archive(
            declared_archive(statement, known, partial(decide_registered, catalog=known), partial(_plan_of, known))
        )
    elif isinstance(statement, RegisterQuery):
        streams: tuple[str, ...] = ()
        bound = bind(statement.select, known)
        if is_continuous(bound):
            streams = streams_of(plan_changes(bound))
        first = streams[0] if streams else compile_panes(bound).stream
        route = Route.CHANGES if streams else Route.PANES
        known.add_query(RegisteredQuery(statement.name, statement.text, first, streams=streams, route=route))


def _plan_of(known: Catalog, query: RegisteredQuery) -> Node:
    return plan_changes(bind(as_select(query.text), known))


CATALOG = _catalog()
TEXTS: st.SearchStrategy[str] = st.randoms(use_true_random=False).map(lambda random: Sentences(random).text())


def survives(text: str, catalog: Catalog = CATALOG) -> bool:
    """Parse and bind a text in every possible way: only a SashError may come of it.

    Gives whether something was accepted.
    """
    try:
        statements = parse_script(text)
    except SashError as error:
        _check_place(error)
        return False
    accepted = False
    for action in (action for statement in statements for action in _actions(statement, catalog)):
        try:
            action()
            accepted = True
        except SashError as error:
            _check_place(error)
    return accepted


def _check_place(error: SashError) -> None:
    """It can be shown, on any terminal."""
    assert str(error).encode()
    if isinstance(error, CqlError) and error.span is not None:
        assert 0 <= error.span.start <= len(error.text) + 1 and error.line is not None


def _actions(statement: Statement, catalog: Catalog) -> Iterator[Callable[[], object]]:
    if isinstance(statement, SelectStatement | RegisterQuery | Explain):
        yield from _bindings(statement.select, catalog)
    if isinstance(statement, Explain):
        yield lambda: explain_continuous(unmeasured(route_plan(plan_changes(bind(statement.select, catalog)))))
        yield lambda: _explained_question(statement.select, catalog)
        yield lambda: _explained(statement.select, catalog)
    if isinstance(statement, RegisterQuery):
        query = RegisteredQuery(statement.name, statement.text, "", synopsis=statement.synopsis)
        yield lambda: compile_query(query, catalog)
        yield lambda: compile_panes(bind(statement.select, catalog), statement.name, synopsis=statement.synopsis)
    if isinstance(statement, AlterQuery):
        for query in catalog.queries:
            yield partial(_altered, statement, query, catalog)
    if isinstance(statement, Insert | Update | Delete):
        yield lambda: bind_change(statement, catalog)
    if isinstance(statement, CreateStream) and statement.schema is not None:
        schema = statement.schema
        yield lambda: declared_stream(statement, schema)
    if isinstance(statement, CreateArchive):
        yield lambda: declared_archive(
            statement, catalog, partial(decide_registered, catalog=catalog), partial(_plan_of, catalog)
        )
    if isinstance(statement, CreateIndex | DropIndex):
        yield lambda: _index(statement, catalog)


def _altered(statement: AlterQuery, query: RegisteredQuery, catalog: Catalog) -> None:
    bind(as_select(altered(as_select(query.text), statement.edits, statement.script)), catalog)


def _bindings(select: Select, catalog: Catalog) -> Iterator[Callable[[], object]]:
    is_kept_up_to_date = False

    def bound() -> None:
        nonlocal is_kept_up_to_date
        plan_changes(bind(select, catalog))
        is_kept_up_to_date = True

    yield lambda: (is_continuous(bind(select, catalog)), has_slide(select), stream_names(select))
    yield lambda: compile_panes(bind(select, catalog))
    yield bound
    yield lambda: bind_stored(select, catalog)
    yield lambda: question_of(select, catalog, partial(decide_registered, catalog=catalog))
    for execution in EXECUTIONS if is_kept_up_to_date else ():
        yield partial(unmeasured, route_plan(plan_changes(bind(select, catalog)), execution))


def _explained_question(select: Select, catalog: Catalog) -> str:
    question = question_of(select, catalog, partial(decide_registered, catalog=catalog))
    return explain_rows(question) if isinstance(question, StoredQuestion) else ""


def _explained(select: Select, catalog: Catalog) -> str:
    query = compile_panes(bind(select, catalog), one_time=not has_slide(select))
    return explain(query, tried(StreamRuntime(catalog.stream(query.stream), Settings()), [], query))


def _index(statement: CreateIndex | DropIndex, catalog: Catalog) -> None:
    """Over an empty window or result, and away with it."""
    shared = SessionParts(catalog, CatalogHistory(), None, streams=cast(Any, _Windows(catalog)))
    commands = IndexCommands(shared, cast(Any, _Plans(catalog)))
    try:
        if isinstance(statement, CreateIndex):
            commands.create(statement)
        else:
            commands.drop(statement)
    finally:
        catalog.indexes.clear()


@dataclass(frozen=True)
class _Plans:
    """Plans of which nothing is known but an empty view."""

    catalog: Catalog

    def result_of(self, query: RegisteredQuery) -> QueryResult:
        return result_of(query, self.catalog, partial(decide_registered, catalog=self.catalog))

    def rows_of(self, query: RegisteredQuery) -> Any:
        view = ChangeView(self.result_of(query).schema)
        return SimpleNamespace(index_values=lambda index: len(view.index(index).directory), drop_index=view.release)


class _Windows(dict[str, Any]):
    """Running streams of which nothing is known but an empty stored window."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog

    def __missing__(self, name: str) -> Any:
        stream: Stream = self._catalog.stream(name)
        return SimpleNamespace(stored_window=StoredWindow(stream))
