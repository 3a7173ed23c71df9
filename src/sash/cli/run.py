"""`sash run`: execute a script, then read its streams: all that the sources have now, or live.

Statements are executed in order. A one-time SELECT asks the live windows, which are empty at first. So before a
one-time SELECT the streams are drained, which also closes their last panes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

from sash.cli.answer_files import ParquetAnswers, Sink, Sinks, write_json, write_json_answer
from sash.cli.console import (
    DONE,
    INPUT_ERROR,
    logging_to,
    print_error,
    reporting_errors,
    stderr_console,
    stdout_console,
)
from sash.cli.opening import (
    Checkpoint,
    Packages,
    Policy,
    Prune,
    RefreshWhenIdle,
    Script,
    SharePredicates,
    Trigger,
    abandon,
    interrupt_main_thread,
    open_session,
    raising_interrupts,
    stop,
    stop_requested,
)
from sash.cli.printing import answer_table, arrow_table, metadata, one_time_table, showing_progress, summary
from sash.cli.rehearsal import one_line, place, read_script, rehearse, title
from sash.core.errors import CatalogError
from sash.runtime.answers.registered_query import Query
from sash.runtime.session import Session
from sash.runtime.settings import DEFAULT_POLICY, Settings
from sash.sql import CreateArchive, CreateStream, SelectStatement, Statement

READER_GONE = 128 + signal.SIGPIPE
_LOOK_SECONDS = 0.5


def run(
    script: Script,
    until_drained: Annotated[
        bool,
        typer.Option("--until-drained", help="Read what the sources have now, then end. Otherwise live until Ctrl-C."),
    ] = False,
    checkpoint: Checkpoint = None,
    prune: Prune = False,
    answers: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write each answer to DIR/<query>/<as of>.parquet.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print each answer as a line of JSON, and nothing else.")
    ] = False,
    rows: Annotated[int, typer.Option(min=0, help="The most rows of an answer to print.")] = 20,
    trigger: Trigger = "1 sec",
    policy: Policy = DEFAULT_POLICY,
    share_predicates: SharePredicates = "auto",
    packages: Packages = "",
    refresh_when_idle: RefreshWhenIdle = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no messages, no summary.")] = False,
) -> None:
    """Execute a script of statements and run its queries.

    Statements are executed in order. Before a one-time SELECT the streams are drained, to fill the windows.
    At the end the last answer of each query is printed.

    Exit codes: 0 done, 1 an error in the script or a failed query, 2 usage.
    """
    messages = stderr_console(quiet or json)
    with reporting_errors(place(script)), logging_to(stderr_console().print):
        settings = Settings(policy, share_predicates, refresh_when_idle)
        statements = read_script(script)
        if checkpoint is None:
            rehearse(statements)
        sinks = Sinks(_sinks(json, answers), interrupt_main_thread)
        with open_session(messages, checkpoint, settings, packages) as session:
            output = JsonOutput() if json else TextOutput(stdout_console(), rows, quiet)
            script_run = ScriptRun(session, sinks, output, messages, prune)
            code = script_run.all(statements, None if until_drained else trigger)
    raise typer.Exit(code)


def _sinks(json: bool, answers: Path | None) -> list[Sink]:
    chosen: list[Sink] = []
    if answers is not None:
        chosen.append(ParquetAnswers(answers))
    if json:
        chosen.append(write_json_answer)
    return chosen


# -- output --------------------------------------------------------------------------------------------


class TextOutput:
    """Tables for people."""

    def __init__(self, console: Console, rows: int, quiet: bool) -> None:
        self._console = console
        self._rows = rows
        self._quiet = quiet

    def result(self, statement: Statement, result: pa.Table | str) -> None:
        if isinstance(result, str):
            self._console.print(result)
        elif isinstance(statement, SelectStatement):
            self._console.print(one_time_table(one_line(statement.select.text), result, self._rows))
        else:
            self._console.print(arrow_table(result, max(self._rows, result.num_rows)))

    def end(self, session: Session) -> None:
        for query in session.queries.values():
            latest = query.latest()
            if latest is not None:
                self._console.print(answer_table(latest, self._rows))
            elif query.error is None:
                self._console.print(f"{query.name}: no answer yet")
        if not self._quiet:
            self._console.print(summary(session.stats()))


class JsonOutput:
    """Lines for programs. The sink writes the answers of registered queries."""

    def result(self, statement: Statement, result: pa.Table | str) -> None:
        record: dict[str, Any] = {"statement": title(statement)}
        if isinstance(result, str):
            record["text"] = result
        else:
            facts = metadata(result)
            if "as_of" in facts:
                record |= {"as_of": facts["as_of"], "complete": facts["complete"] == "true"}
            record["rows"] = result.to_pylist()
        write_json(record)

    def end(self, session: Session) -> None:
        pass


def execute(session: Session, statement: Statement) -> pa.Table | Query | str | None:
    """Execute a statement. An error without a place in the script names its statement."""
    try:
        return session.execute(statement)
    except CatalogError as error:
        raise CatalogError(f"{title(statement)}: {error}") from None


class Others:
    """The queries of a checkpoint that the script does not name."""

    def __init__(self, session: Session, prune: bool) -> None:
        self._queries = dict(session.queries)
        self._session = session
        self._prune = prune

    def remove(self, query: Query) -> None:
        """Remove a query that the script registers."""
        self._queries.pop(query.name, None)

    def settle(self, messages: Console) -> None:
        """At the end of the script: drop these queries, or say that they go on."""
        left = [query for query in self._queries.values() if self._session.queries.get(query.name) is query]
        if not left:
            return
        if not self._prune:
            names = ", ".join(query.name for query in left)
            messages.print(f"Of the checkpoint, and not in the script: {names}. They go on; --prune drops them.")
            return
        for query in left:
            try:
                query.drop()
                messages.print(f"Dropped, since the script does not have it: {query.name}", style="dim")
            except CatalogError as error:
                messages.print(f"Not dropped, though the script does not have it: {error}")


# -- running -------------------------------------------------------------------------------------------


class ScriptRun:
    def __init__(
        self, session: Session, sinks: Sinks, output: TextOutput | JsonOutput, messages: Console, prune: bool
    ) -> None:
        self._session = session
        self._others = Others(session, prune)
        self._sinks = sinks
        self._output = output
        self._messages = messages
        self._unread = True
        for query in session.queries.values():
            query.subscribe(sinks)

    def all(self, statements: Sequence[Statement], trigger: str | None) -> int:
        """Execute the statements, then read the streams: drained, or live with a trigger. Returns the exit code."""
        try:
            for statement in statements:
                self._execute(statement)
            self._others.settle(self._messages)
            if self._session.queries:
                if trigger is None:
                    self._drain()
                else:
                    self._live(trigger)
        except KeyboardInterrupt:
            if self._sinks.error is None:
                raise
        if self._sinks.reader_is_gone:
            return _leave_quietly()
        self._sinks.check()
        self._output.end(self._session)
        return self._failures()

    def _execute(self, statement: Statement) -> None:
        if isinstance(statement, SelectStatement) and self._session.has_work:
            self._drain()
        known = set(self._session.queries)
        result = execute(self._session, statement)
        # A stream that stores rows, or an archive, has to be read first, as for a query.
        self._unread |= isinstance(statement, CreateStream | CreateArchive)
        read = ""
        if isinstance(result, Query):
            self._others.remove(result)
            self._attach(result, result.name in known)
            read = "" if result.cql == result.text else f", read as {one_line(result.cql)}"
        elif result is not None:
            self._output.result(statement, result)
            return
        self._messages.print(f"{title(statement)}: done{read}", style="dim")

    def _attach(self, query: Query, known: bool) -> None:
        """Attach the output to a query; one that came when its synopsis existed has answered already."""
        self._unread = True
        if not known:
            for answer in query.answers():
                self._sinks(answer)
            query.subscribe(self._sinks)

    def _drain(self) -> None:
        """Read all input, unless nothing has changed since the last time."""
        if not self._unread:
            return
        with raising_interrupts(), showing_progress(self._session, self._messages, "Reading"):
            self._session.run()
        self._unread = False

    def _live(self, trigger: str) -> None:
        """Run until Ctrl-C or SIGTERM; a second one does not wait for the micro-batch in flight."""
        self._messages.print("Live; Ctrl-C ends. (--until-drained ends when everything has been read.)", style="dim")
        with stop_requested() as stopped:
            self._session.start(trigger)
            try:
                with showing_progress(self._session, self._messages, "Live", answers=True):
                    while not (stopped.is_set() or self._session.wait(_LOOK_SECONDS)):
                        pass
            except KeyboardInterrupt:
                abandon()
                raise
            stop(self._session, self._messages)

    def _failures(self) -> int:
        failed = [query for query in self._session.queries.values() if query.error is not None]
        for query in failed:
            print_error(stderr_console(), str(query.error))
        return INPUT_ERROR if failed else DONE


def _leave_quietly() -> int:
    """Exit without a message: the reader of our pipe has left (`sash run --json | head`)."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    return READER_GONE
