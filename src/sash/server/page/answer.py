"""Answer: one query over time, as a line, as bars or as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from nicegui import ui

from sash.core.errors import SashError
from sash.engine.answers.answer import Answer
from sash.engine.answers.query import Query
from sash.engine.session import Session
from sash.server.page import charts
from sash.server.page.frame import heading
from sash.server.page.rows import shown_rows, shown_value, table_columns

REFRESH_SECONDS = 1.0
LINE, BARS, TABLE = "Line", "Bars", "Table"
# How many lines a picture has, how many answers one goes back, how many bars and rows are shown.
_LINES, _BACK, _BARS, _ROWS = 8, 300, 20, 200


def series(answers: Sequence[Answer], keys: list[str], value: str) -> dict[str, list[charts.Point]]:
    """A value over time, one line per group: those with the largest values now, then those of the answers before.

    The newest answer of an alert is empty most of the time: what it said before is to be seen.
    """
    names: list[str] = []
    for answer in reversed(answers):
        names += [name for name in _largest(answer.table, keys, value, _LINES) if name not in names]
        if len(names) >= _LINES:
            break
    found: dict[str, list[charts.Point]] = {name: [] for name in names[:_LINES]}
    for answer in answers:
        table = answer.table
        if value not in table.schema.names:
            continue
        rows = dict(zip(_names(table, keys), table[value].to_pylist(), strict=True))
        for name, line in found.items():
            point = answer.as_of, shown_value(rows.get(name))
            line.append(point if answer.complete else (*point, False))
    return found


def _lines(query: Query, keys: list[str], value: str) -> dict[str, list[charts.Point]]:
    return series(query.answers()[-_BACK:], keys, value)


def largest(table: pa.Table, keys: list[str], value: str) -> dict[str, Any]:
    """The groups with the largest values, largest first."""
    return _largest(table, keys, value, _BARS)


def _largest(table: pa.Table, keys: list[str], value: str, most: int) -> dict[str, Any]:
    if value not in table.schema.names:
        return {}
    rows = zip(_names(table, keys), table[value].to_pylist(), strict=True)
    ordered = sorted((row for row in rows if row[1] is not None), key=lambda row: -row[1])
    return {name: shown_value(number) for name, number in ordered[:most]}


def _names(table: pa.Table, keys: list[str]) -> list[str]:
    if not keys:
        return ["all"] * table.num_rows
    columns = [table[key].to_pylist() for key in keys]
    return [" · ".join(str(part) for part in row) for row in zip(*columns, strict=True)]


def natural_form(query: Query, latest: Answer | None) -> str:
    """How a query is best looked at: lists and many groups as bars, else a line for each group."""
    keys, values = query.columns()
    if not values or _is_change(latest):
        return TABLE
    many = latest is not None and latest.table.num_rows > _LINES
    return BARS if keys and (many or query.is_list) else LINE


def show(session: Session, name: str) -> None:
    if not session.queries:
        heading("Answer")
        ui.label("No query is registered. Register one under Queries.")
        return
    view = _View(session, name if name in session.queries else next(iter(session.queries)))
    if name and name not in session.queries:
        ui.notify(f"There is no query {name}")
    view.build()


class _View:
    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name
        self._form: str | None = None
        self._column: str | None = None
        self._told: tuple[Any, ...] = ()

    def build(self) -> None:
        with ui.row().classes("w-full items-center gap-3"):
            self._choice = ui.select(list(self._session.queries), value=self._name, label="Query").classes("w-56")
            self._choice.on_value_change(lambda event: ui.navigate.to(f"/answer?query={event.value}"))
            self._value = ui.select([], label="Column").classes("w-40")
            self._value.on_value_change(self._choose_column)
            self._forms = ui.toggle([LINE, BARS, TABLE]).props("no-caps").on_value_change(self._choose_form)
        self._text = ui.label("").classes("sash-mono text-sm")
        self._as_of = ui.label("").classes("text-sm sash-dim").props('role="status"')
        self._chart = ui.echart(charts.lines({})).classes("w-full h-96")
        self._dashed = ui.label("Dashed: the window was not full yet.").classes("text-sm sash-dim")
        self._table = ui.table(columns=[], rows=[]).classes("w-full").props("flat bordered dense")
        ui.timer(REFRESH_SECONDS, self._draw, immediate=True)

    def _choose_column(self, event: Any) -> None:
        self._column, self._told = event.value, ()

    def _choose_form(self, event: Any) -> None:
        self._form, self._told = event.value, ()

    async def _draw(self) -> None:
        query = self._session.queries.get(self._name)
        if query is None:
            self._as_of.set_text(f"Query {self._name} has been dropped.")
            return
        await self._draw_query(query)

    async def _draw_query(self, query: Query) -> None:
        latest = await asyncio.to_thread(query.latest)
        # Nothing new, nothing to send.
        state = (query.answered, self._form, self._column, None if latest is None else latest.as_of)
        if state == self._told:
            return
        self._told = state
        self._text.set_text(query.text)
        if query.error is not None:
            self._as_of.set_text(f"Failed: {query.error}")
            return
        for part in (self._value, self._forms, self._chart, self._dashed, self._table):
            part.set_visibility(latest is not None)
        if latest is None:
            self._as_of.set_text("No answer yet.")
            return
        self._as_of.set_text(_about(latest))
        keys, values = await asyncio.to_thread(query.columns)
        if self._form is None:
            self._form = await asyncio.to_thread(natural_form, query, latest)
            self._forms.set_value(self._form)
        if self._column not in values:
            self._column = values[0] if values else None
        self._value.set_options(values, value=self._column)
        self._value.set_visibility(len(values) > 1)
        form = TABLE if self._column is None or _is_change(latest) else self._form
        self._forms.set_visibility(not _is_change(latest))
        self._chart.set_visibility(form != TABLE)
        self._dashed.set_visibility(False)
        self._table.set_visibility(form == TABLE)
        await self._fill(query, latest, form, keys)

    async def _fill(self, query: Query, latest: Answer, form: str, keys: list[str]) -> None:
        if form == TABLE or self._column is None:
            table = await asyncio.to_thread(_shown, query, latest)
            self._table.columns = table_columns(table.schema)
            self._table.rows = shown_rows(table, _ROWS)
            return
        if form == BARS:
            found = await asyncio.to_thread(largest, latest.table, keys, self._column)
            self._chart.options.update(charts.bars(found, self._column))
        else:
            lines = await asyncio.to_thread(_lines, query, keys, self._column)
            self._chart.options.update(charts.lines(lines, self._column))
            self._dashed.set_visibility(any(len(point) > 2 for line in lines.values() for point in line))
        self._chart.update()


def _is_change(latest: Answer | None) -> bool:
    """A continuous query's answers are changes: over time they make no line."""
    return latest is not None and "_sign" in latest.table.schema.names


def _shown(query: Query, latest: Answer) -> pa.Table:
    """What holds now, or, of a stream of results, which never holds, what came last."""
    if not _is_change(latest):
        return latest.table
    try:
        return query.view()
    except SashError:
        return latest.table


def _about(latest: Answer) -> str:
    partly = "" if latest.complete else ", the window is not full yet"
    rows = f"{latest.table.num_rows:,} row{'s' * (latest.table.num_rows != 1)}"
    return f"as of {latest.as_of:%Y-%m-%d %H:%M:%S} UTC, {rows}{partly}"
