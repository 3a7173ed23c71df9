"""`sash explain`: how the queries of a script would be answered, and what they would share. Nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.text import Text

from sash.catalog import Stream
from sash.cli.console import logging_to, reporting_errors, stderr_console, stdout_console
from sash.cli.opening import Policy, SharePredicates, open_session
from sash.cli.rehearsal import Rehearsal, declared_columns, declares_all_columns, one_line, place, read_script, title
from sash.runtime.compiler import CompiledQuery, as_select
from sash.runtime.explaining.explain import explain as explain_query
from sash.runtime.explaining.explain import read_as, schedule_all, tried
from sash.runtime.explaining.explanation import Explanation
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import DEFAULT_POLICY, Settings
from sash.sql import CreateStream, Statement


def explain(
    script: Annotated[str, typer.Argument(help="A file of statements, or - for stdin.")],
    policy: Policy = DEFAULT_POLICY,
    share_predicates: SharePredicates = "auto",
) -> None:
    """Explain every query of a script, with the script's other queries as its neighbours.

    Shows the plan, the pane table and synopsis that a query reads, the queries that share them, and the expected cost.
    No source is read. Spark is started only if a stream does not declare its columns.
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
    by_stream = {stream.name: _registered(stream, rehearsal, settings) for stream in rehearsal.catalog.streams}
    for query in rehearsal.queries.values():
        text = rehearsal.catalog.query(query.name).text
        heading = f"{query.name}: {one_line(text, 1_000)}"
        read = read_as(as_select(text), rehearsal.catalog)
        _print_one(heading, Explanation([*read, *explain_query(query, by_stream[query.stream]).parts]), console)
    for name, explanation in rehearsal.explained.items():
        _print_one(name, explanation, console)
    for statement, query, decision in rehearsal.questions:
        # A SELECT with SLIDE is explained as if it were registered.
        runtime = tried(by_stream[query.stream], _of_stream(query.stream, rehearsal), query)
        _print_one(title(statement), rehearsal.explain_select(decision, explain_query(query, runtime)), console)
    if not rehearsal.queries and not rehearsal.questions and not rehearsal.explained:
        console.print("The script has no queries.")


def _registered(stream: Stream, rehearsal: Rehearsal, settings: Settings) -> StreamRuntime:
    """A runtime with the queries of a stream, which has not begun."""
    runtime = StreamRuntime(stream, settings, flies=True)
    # As in a session on this machine: executors see its files.
    runtime.may_move = True
    runtime.change([], _of_stream(stream.name, rehearsal))
    schedule_all(runtime)
    return runtime


def _of_stream(name: str, rehearsal: Rehearsal) -> list[CompiledQuery]:
    return [query for query in rehearsal.queries.values() if query.stream == name]


def _print_one(heading: str, explanation: str, console: Console) -> None:
    console.print(Text(heading, "bold cyan"), soft_wrap=True)
    console.print(f"{explanation}\n", soft_wrap=True)
