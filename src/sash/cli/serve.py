"""`sash serve`: execute a script, run its queries live, and answer over HTTP.

    main thread     waits for Ctrl-C or SIGTERM, reports streams that fail
    sash-server     the event loop of the web server
    Spark's own     micro-batches

The address is taken before Spark starts: a port in use is reported at once. A stream starts with its first query, which
may come over HTTP. A failed stream does not end the server, which goes on answering from the existing data, and says so
(/api/health); the exit code says it in the end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

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
    open_session,
    stop,
    stop_requested,
)
from sash.cli.rehearsal import place, read_script, rehearse, title
from sash.cli.run import Others, TextOutput, execute
from sash.core.errors import SashError, missing_extra
from sash.runtime.answers.registered_query import Query
from sash.runtime.session import Session
from sash.runtime.settings import DEFAULT_POLICY, Settings
from sash.runtime.streams.load import ENDED, FAILED, IDLE, RUNNING
from sash.sql import SelectStatement, Statement

if TYPE_CHECKING:
    from sash.server import Server, ServerSettings

_LOOK_SECONDS = 0.5
_ROWS = 20


def serve(
    script: Script,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Other machines cannot reach a loopback address.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any free port.")] = 8642,
    token: Annotated[
        str | None,
        typer.Option(envvar="SASH_TOKEN", help="Clients must send this token. Only a loopback host needs none."),
    ] = None,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="Read what the sources have now, then only answer questions.")
    ] = False,
    checkpoint: Checkpoint = None,
    prune: Prune = False,
    trigger: Trigger = "1 sec",
    policy: Policy = DEFAULT_POLICY,
    share_predicates: SharePredicates = "auto",
    packages: Packages = "",
    refresh_when_idle: RefreshWhenIdle = False,
    max_seconds: Annotated[float, typer.Option(min=0.001, help="How long a one-time question may take.")] = 60.0,
    max_questions: Annotated[int, typer.Option(min=1, help="How many questions are answered at once.")] = 4,
    max_rows: Annotated[int, typer.Option(min=1, help="The most rows of an answer.")] = 100_000,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the address and errors.")] = False,
) -> None:
    """Execute a script, run its queries live, and answer over HTTP until Ctrl-C.

    /docs describes the API. One-time SELECTs of the script are left out; clients can ask them.

    Exit codes: 0 stopped, 1 an error in the script or a failed stream, 2 usage.
    """
    messages = stderr_console(quiet)
    with reporting_errors(place(script)), logging_to(stderr_console().print):
        web = _settings(host, port, token, max_seconds, max_questions, max_rows)
        settings = Settings(policy, share_predicates, refresh_when_idle)
        statements = read_script(script)
        if checkpoint is None:
            rehearse(statements)
        from sash.server import Server, listen

        with listen(web) as listening, open_session(messages, checkpoint, settings, packages) as session:
            _execute(session, statements, messages, prune)
            with stop_requested() as stopped, Server(session, web, listening) as server:
                code = _ServedSession(session, messages, stopped).until_stopped(
                    server, None if until_drained else trigger
                )
    raise typer.Exit(code)


def _settings(
    host: str, port: int, token: str | None, max_seconds: float, max_questions: int, max_rows: int
) -> ServerSettings:
    try:
        from sash.server import ServerSettings
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("sash"):
            raise
        raise missing_extra("sash serve", error.name, "server") from None
    limits = {"max_questions": max_questions, "max_rows": max_rows}
    try:
        return ServerSettings(host, port, token, max_seconds=max_seconds, **limits)
    except SashError as error:
        raise typer.BadParameter(f"{error} (--token, or SASH_TOKEN in the environment)") from None


def _execute(session: Session, statements: Sequence[Statement], messages: Console, prune: bool) -> None:
    output, others = TextOutput(stdout_console(), _ROWS, quiet=True), Others(session, prune)
    for statement in statements:
        if isinstance(statement, SelectStatement):
            messages.print(f"{title(statement)}: left out; ask it at /api/query", style="dim")
            continue
        result = execute(session, statement)
        if isinstance(result, Query):
            others.remove(result)
        if result is None or isinstance(result, Query):
            messages.print(f"{title(statement)}: done", style="dim")
        else:
            output.result(statement, result)
    others.settle(messages)


class _ServedSession:
    """A served session, from its start to its stop."""

    def __init__(self, session: Session, messages: Console, stopped: threading.Event) -> None:
        self._session = session
        self._messages = messages
        self._stopped = stopped
        self._has_ended = False
        # Streams that were started, or could not be.
        self._tried: set[str] = set()

    def until_stopped(self, server: Server, trigger: str | None) -> int:
        """Run live with a trigger, else read the current input. Returns the exit code."""
        stdout_console().print(server.url)
        with_token = "" if server.settings.token is None else f"; a browser comes in by {server.url}?token=<the token>"
        self._messages.print(f"Serving; Ctrl-C ends{with_token}", style="dim")
        if self._session.unread:
            self._start(trigger)
        else:
            self._messages.print("No query is registered yet; the first one starts its streams.", style="dim")
        while not self._stopped.wait(_LOOK_SECONDS):
            self._start_new(trigger)
            self._look(trigger)
        self._look(trigger)
        stop(self._session, self._messages)
        return INPUT_ERROR if self._session.state().name == FAILED else DONE

    def _start(self, trigger: str | None) -> None:
        """Start all streams that have something to do."""
        self._tried |= set(self._session.unread)
        self._has_ended = False
        if trigger is None:
            threading.Thread(target=self._drain, name="sash-drain", daemon=True).start()
        else:
            self._session.start(trigger)

    def _start_new(self, trigger: str | None) -> None:
        """Start streams that have their first query now; others stop for a moment. A drained session reads no more."""
        state, new = self._session.state().name, set(self._session.unread) - self._tried
        if not new or (trigger is None and self._tried):
            return
        if state not in (IDLE, RUNNING):
            self._tried |= new
            told = f"{', '.join(sorted(new))}: not started, since a stream has failed or ended; start the server again."
            self._messages.print(told)
            return
        try:
            if state == RUNNING:
                self._session.stop()
            self._start(trigger)
        except SashError as error:
            self._tell_failure(error)

    def _drain(self) -> None:
        try:
            self._session.run()
            self._tell_end()
        except SashError as error:
            self._tell_failure(error)

    def _look(self, trigger: str | None) -> None:
        """Report how live streams have ended; a drain reports that itself."""
        try:
            if trigger is not None and self._tried and not self._has_ended and self._session.wait(0):
                self._tell_end()
        except SashError as error:
            self._tell_failure(error)

    def _tell_end(self) -> None:
        self._has_ended = True
        if self._session.state().name == ENDED:
            self._messages.print("The streams have ended; what they left can be asked. Ctrl-C ends.", style="dim")

    def _tell_failure(self, error: SashError) -> None:
        then = "" if self._stopped.is_set() else "\nThe server goes on with what is there; Ctrl-C ends."
        print_error(stderr_console(), f"{error}{then}")
