"""The CQL editor: colours, the error at its word after a pause, and buttons for a text.

Nothing that the server sends writes into the field: the server's text is older than the typed text. NiceGUI sends the
text with every changed property of an editor. So marks and colours are set by calls of the editor's methods, and marks
only if the browser still has the text that they were made for.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from nicegui import Client, ui

from sash.core.errors import CqlError, SashError
from sash.runtime.session import Session
from sash.server.api import Service
from sash.server.http_questions import refuse_python
from sash.server.models import Question
from sash.server.page.frame import shown_rows, table_columns
from sash.server.problems import ProblemError
from sash.sql import RegisterQuery, parse

_ROWS = 500
_PAUSE_SECONDS = 0.4

T = TypeVar("T")
_SLIDE = re.compile(r" +SLIDE +(EXACTLY +)?\d+( +[a-z]+)?(?= *\]| +LAG)", re.IGNORECASE)
# Words of CQL that the colours of SQL leave out.
_WORDS = re.compile(
    r"\b(WINDOW|RANGE|SLIDE|EXACTLY|LAG|ROWS|PARTITION|UNBOUNDED|NOW|INTERNAL|REGISTER|QUERY|LIFETIME|PRIORITY|USING"
    r"|ISTREAM|DSTREAM|RSTREAM|WSTREAM|TOP|FREQUENT|HISTOGRAM|MEDIAN|QUANTILE|APPROX_\w+)\b",
    re.IGNORECASE,
)
_MARK = """
const element = getElement({id});
if (element?.editor?.state.doc.toString() === {text}) element.setDecorations({marks});
"""
# The rest of the page follows the browser's dark mode by itself; the editor needs this.
_FOLLOW_MODE = """
const element = getElement({id}), dark = window.matchMedia('(prefers-color-scheme: dark)').matches;
element.editorPromise.then(() => element.setTheme(dark ? 'githubDark' : 'githubLight'));
"""


def mistake_in(session: Session, text: str) -> SashError | None:
    """The engine's error about a text; None without one."""
    if not text.strip():
        return None
    try:
        statement = parse(text)
        select = getattr(statement, "select", None)
        if select is not None:
            session.explain(text)
    except SashError as error:
        return error
    return None


def decorations(text: str, mistake: Exception | None) -> list[dict[str, Any]]:
    """Marks of the editor: the words of CQL, and a wavy line under the wrong word."""
    marks = [
        {"kind": "mark", "from": found.start(), "to": found.end(), "class": "sash-word"}
        for found in _WORDS.finditer(text)
    ]
    if isinstance(mistake, CqlError) and mistake.span is not None and text:
        start = min(mistake.span.start, len(text) - 1)
        end = min(max(mistake.span.end, start + 1), len(text))
        marks.append({"kind": "mark", "from": start, "to": end, "class": "sash-error"})
    return marks


def register(service: Service, text: str, name: str) -> str:
    """Register a SELECT under a name, or execute REGISTER QUERY; returns the query's name."""
    statement = parse(text)
    replaced = ""
    if isinstance(statement, RegisterQuery) and statement.replace_at is not None:
        replaced = statement.name
    service.check_room(replaced)
    if not isinstance(statement, RegisterQuery) and not name.strip():
        raise SashError("give the query a name, or write REGISTER QUERY name AS SELECT ...")
    refuse_python(service.session, text)
    if isinstance(statement, RegisterQuery):
        service.session.execute(statement)
        return statement.name
    return service.session.register(text, name.strip()).name


async def _is_gone(client: Client) -> bool:
    return not client.has_socket_connection


class Editor:
    """`changed` is called when queries have come or gone."""

    def __init__(self, service: Service, changed: Callable[[], Awaitable[None]]) -> None:
        self._service = service
        self._session = service.session
        self._changed = changed
        # The text at the last look, the text that was checked last, and how often a button was pressed.
        self._seen: str | None = None
        self._checked: str | None = None
        self._deeds = 0
        # The id of the running question, if there is one.
        self._asked = ""

    def build(self) -> None:
        with ui.card().classes("w-full gap-2").props("flat bordered"):
            self._text = (
                ui.codemirror(self._first_words(), language="SQL", line_wrapping=True)
                .classes("w-full h-32 sash-editor")
                .props('aria-label="CQL"')
            )
            self._mistake = ui.label("").classes("sash-mono text-sm text-negative").props('role="alert"')
            with ui.row().classes("items-center gap-2"):
                ui.button("Ask once", on_click=self._ask).props("no-caps")
                self._stop = ui.button("Cancel", on_click=self._cancel).props("no-caps outline color=negative")
                self._stop.set_visibility(False)
                ui.button("Explain", on_click=self._explain).props("no-caps outline")
                self._name = ui.input("Name").props("dense outlined").classes("w-40")
                ui.button("Register", on_click=self._register).props("no-caps outline")
            self._said = ui.label("").classes("sash-mono text-sm").props('role="status"')
            self._table = ui.table(columns=[], rows=[], pagination=25).classes("w-full").props("flat bordered dense")
            self._table.set_visibility(False)
        ui.timer(_PAUSE_SECONDS, self._check)
        ui.timer(0, lambda: ui.run_javascript(_FOLLOW_MODE.format(id=self._text.id)), once=True)

    def _first_words(self) -> str:
        """A question that can be answered: some query's, asked once."""
        query = next(iter(list(self._session.queries.values())), None)
        return "" if query is None else _SLIDE.sub("", query.text)

    async def _check(self) -> None:
        """Check the text when the user has stopped typing."""
        text = self._text.value
        has_paused, self._seen = text == self._seen, text
        if text == self._checked or not has_paused:
            return
        self._checked, deeds = text, self._deeds
        mistake = await asyncio.to_thread(mistake_in, self._session, text)
        # The result of a button that was pressed meanwhile matters more.
        if deeds == self._deeds:
            self._show_mistake(text, mistake)

    def _show_mistake(self, text: str, mistake: Exception | None) -> None:
        self._mistake.set_text("" if mistake is None else str(mistake))
        marks = json.dumps(decorations(text, mistake))
        ui.run_javascript(_MARK.format(id=self._text.id, text=json.dumps(text), marks=marks))

    async def _do(self, action: Awaitable[T]) -> T | None:
        """The result of an action; None after a mistake, which is shown."""
        self._deeds += 1
        text = self._checked = self._text.value
        self._said.set_text("")
        self._table.set_visibility(False)
        try:
            result = await action
        except (SashError, ProblemError) as error:
            self._show_mistake(text, error)
            return None
        self._show_mistake(text, None)
        return result

    def _cancel(self) -> None:
        self._service.questions.cancel(self._asked)

    async def _ask(self) -> None:
        """Ask as the API does, within the same limits."""
        self._asked = uuid.uuid4().hex
        question = Question(text=self._text.value, id=self._asked, max_rows=_ROWS)
        client = ui.context.client
        self._stop.set_visibility(True)
        table = await self._do(self._service.questions.ask(question, lambda _, found: found, partial(_is_gone, client)))
        self._stop.set_visibility(False)
        if table is None:
            return
        metadata = table.schema.metadata or {}
        as_of = metadata.get(b"as_of", b"").decode()
        more = ", and there are more" if b"truncated" in metadata else ""
        rows = f"{table.num_rows:,} row{'s' * (table.num_rows != 1)}"
        self._said.set_text(f"{rows}{more}{f', as of {as_of}' * bool(as_of)}")
        self._table.columns, self._table.rows = table_columns(table.schema), shown_rows(table, _ROWS)
        self._table.set_visibility(True)

    async def _explain(self) -> None:
        explanation = await self._do(asyncio.to_thread(self._session.explain, self._text.value))
        if explanation is not None:
            self._said.set_text(str(explanation))

    async def _register(self) -> None:
        name = await self._do(asyncio.to_thread(register, self._service, self._text.value, self._name.value or ""))
        if name is not None:
            self._said.set_text(f"Registered {name}.")
            self._name.set_value("")
            await self._changed()
