"""`sash explain`: how the queries of a script would be answered, and what they would share. Nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from sash.cli.console import logging_to, reporting_errors, stderr_console, stdout_console
from sash.cli.opening import Policy, SharePredicates, open_session
from sash.cli.rehearsal import Rehearsal, declared_columns, declares_all_columns, one_line, place, read_script, title
from sash.runtime.compiler import CompiledQuery
from sash.runtime.explaining.explain import explain as explain_query
from sash.runtime.settings import DEFAULT_POLICY, Settings
from sash.sql import CreateStream, Statement


def explain(
    script: Annotated[str, typer.Argument(help="A file of statements, or - for stdin.")],
    policy: Policy = DEFAULT_POLICY,
    share_predicates: SharePredicates = "auto",
) -> None:
    """Explain every query of a script, with the script's other queries as its neighbours.

    Shows the plan, the pane table and synopsis that a query reads, with whom it shares them, and the expected cost.
    No source is read. Spark is started only when a stream leaves its columns to the source.
    """
    messages = stderr_console()
    with reporting_errors(place(script)), logging_to(messages.print):
        settings = Settings(policy, share_predicates)
        statements = read_script(script)
        _print(_rehearsed(statements, messages), settings, stdout_console())


def _rehearsed(statements: Sequence[Statement], messages: Console) -> Rehearsal:
    rehearsal = Rehearsal()
    if declares_all_columns(statements):
        rehearsal.play(statements, declared_columns)
        return rehearsal
    from sash.spark.sources import open_source, schema_of

    with open_session(messages) as session:

        def columns(statement: CreateStream) -> pa.Schema:
            return statement.schema or schema_of(open_source(session.spark, statement.source, None))

        rehearsal.play(statements, columns)
    return rehearsal


def _print(rehearsal: Rehearsal, settings: Settings, console: Console) -> None:
    for query in rehearsal.queries.values():
        text = rehearsal.catalog.query(query.name).text
        others = [other for other in rehearsal.queries.values() if other is not query]
        _print_one(query.name, text, query, others, rehearsal, settings, console)
    for name, explanation in rehearsal.explained.items():
        console.print(Text(name, "bold cyan"), soft_wrap=True)
        console.print(f"{explanation}\n", soft_wrap=True)
    for statement, query in rehearsal.questions:
        _print_one(title(statement), None, query, list(rehearsal.queries.values()), rehearsal, settings, console)
    if not rehearsal.queries and not rehearsal.questions and not rehearsal.explained:
        console.print("The script has no queries.")


def _print_one(
    name: str,
    text: str | None,
    query: CompiledQuery,
    others: list[CompiledQuery],
    rehearsal: Rehearsal,
    settings: Settings,
    console: Console,
) -> None:
    neighbours = [other for other in others if other.stream.lower() == query.stream.lower()]
    console.print(Text(name if text is None else f"{name}: {one_line(text, 1_000)}", "bold cyan"), soft_wrap=True)
    stream = rehearsal.catalog.stream(query.stream)
    console.print(explain_query(query, neighbours, stream, settings, {}, {}), soft_wrap=True)
    console.print()
