"""The language reference keeps its word: its examples bind, and its lists are complete."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from sash.catalog import Catalog, RegisteredQuery, Route, Stream, Table
from sash.core.errors import CqlError
from sash.plan.continuous import Node, streams_of
from sash.runtime.commands.archive_commands import declared_archive
from sash.runtime.compiler import as_select, compile_panes
from sash.runtime.route import decide_registered, is_continuous, stored_question
from sash.sql import (
    CreateArchive,
    CreateStream,
    CreateTable,
    Delete,
    Explain,
    Insert,
    RegisterQuery,
    SelectStatement,
    Update,
    bind,
    bind_change,
    has_slide,
    parse_script,
    plan_changes,
    plan_panes,
)
from sash.sql.expressions.aggregates import ITEM_FUNCTIONS, NAMES
from tests.sql.examples import CATALOG

REFERENCE, EXAMPLES = (
    (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8") for page in ("language.md", "examples.md")
)


def plan_of(catalog: Catalog, query: RegisteredQuery) -> Node:
    return plan_changes(bind(as_select(query.text), catalog))


@pytest.mark.parametrize(("page", "least"), [("language.md", 20), ("examples.md", 10)])
def test_every_example_binds(page: str, least: int) -> None:
    catalog, bound = Catalog(), 0
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    for script in re.findall(r"```sql\n(.*?)```", text, re.DOTALL):
        for statement in parse_script(script):
            if isinstance(statement, CreateStream) and statement.schema is not None:
                clauses = {"keep": statement.keep, "shed": statement.shed, "closed_left": statement.closed_left}
                catalog.add_stream(Stream(statement.name, statement.schema, statement.timestamp, **clauses))
            if isinstance(statement, CreateTable):
                catalog.add_table(Table(statement.name, statement.schema, statement.key, statement.retroactive))
            if isinstance(statement, Insert | Update | Delete):
                bind_change(statement, catalog)
            if isinstance(statement, CreateArchive):
                catalog.add_archive(
                    declared_archive(
                        statement, catalog, partial(decide_registered, catalog=catalog), partial(plan_of, catalog)
                    )
                )
            if isinstance(statement, RegisterQuery) and is_continuous(bind(statement.select, catalog)):
                streams = streams_of(plan_changes(bind(statement.select, catalog)))
                route = Route.CHANGES
                query = RegisteredQuery(statement.name, statement.text, streams[0], streams=streams, route=route)
                if not catalog.has_query(query.name):
                    catalog.add_query(query)
            elif isinstance(statement, RegisterQuery | SelectStatement | Explain):
                periodic = has_slide(statement.select)
                try:
                    plan_panes(bind(statement.select, catalog), periodic=periodic)
                except CqlError:
                    question = stored_question(statement.select, catalog, partial(decide_registered, catalog=catalog))
                    assert all(reading.stream.keep is not None for reading in question.windows.values())
                if isinstance(statement, RegisterQuery) and statement.keep is not None:
                    stream = compile_panes(bind(statement.select, catalog)).stream
                    catalog.add_query(RegisteredQuery(statement.name, statement.text, stream, keep=statement.keep))
                bound += 1
    assert bound > least


def test_the_queries_of_traderbot_bind() -> None:
    blocks = re.findall(r"```sql\n(REGISTER QUERY (?:momentum|surge) .*?;)\n```", EXAMPLES, re.DOTALL)
    assert len(blocks) == 2
    for text in blocks:
        (statement,) = parse_script(text)
        assert isinstance(statement, RegisterQuery)
        assert plan_panes(bind(statement.select, CATALOG), periodic=True).outputs[0].name == "symbol"


@pytest.mark.parametrize("name", sorted((*NAMES, *ITEM_FUNCTIONS)))
def test_every_aggregate_is_described(name: str) -> None:
    assert f"`{name.upper()}(" in REFERENCE
