"""Answer: one query over time, as a line, as bars or as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from nicegui import ui

from sash.core.errors import SashError
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Query
from sash.runtime.session import Session
from sash.server.page import page_charts
from sash.server.page.frame import heading, shown_rows, shown_value, table_columns

REFRESH_SECONDS = 1.0
LINE, BARS, TABLE = "Line", "Bars", "Table"
# The most lines of a chart, answers of a line, bars, rows of a page, and rows that a page may have.
_LINES, _BACK, _BARS, _ROWS, _MOST_ROWS = 8, 300, 20, 25, 500


def series(answers: Sequence[Answer], keys: list[str], value: str) -> dict[str, list[page_charts.Point]]:
    """A value over time, one line per group: those with the largest values now, then those of earlier answers.

    The newest answer of an alert is mostly empty: the chart shows its earlier ones.
    """
    names: list[str] = []
    for answer in reversed(answers):
        names += [name for name in _largest(answer.table, keys, value, _LINES) if name not in names]
        if len(names) >= _LINES:
            break
    found: dict[str, list[page_charts.Point]] = {name: [] for name in names[:_LINES]}
    for answer in answers:
        table = answer.table
        if value not in table.schema.names:
            continue
        rows = dict(zip(_names(table, keys), table[value].to_pylist(), strict=True))
        for name, line in found.items():
            point = answer.as_of, shown_value(rows.get(name))
            line.append(point if answer.complete else (*point, False))
    return found


def _lines(query: Query, keys: list[str], value: str) -> dict[str, list[page_charts.Point]]:
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
    """The best form for a query: lists and many groups as bars, else a line for each group."""
    keys, values = query.columns()
    if not values or _is_change(latest):
        return TABLE
    many = latest is not None and latest.table.num_rows > _LINES
    return BARS if keys and (many or query.is_list) else LINE


def show(session: Session, name: str) -> None:
    names = list(session.queries)
    chosen = next((each for each in names if each.lower() == name.lower()), None) if name else next(iter(names), None)
    if chosen is not None:
        _View(session, chosen).build()
        return
    heading("Answer")
    ui.label(f"There is no query {name}." if name else "No query is registered. Register one under Queries.")
    if names:
        _choice(names, None)


def _choice(names: list[str], chosen: str | None) -> None:
    choice = ui.select(names, value=chosen, label="Query").classes("w-56")
    choice.on_value_change(lambda event: ui.navigate.to(f"/answer?query={event.value}"))


class _View:
    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name
        self._form: str | None = None
        self._column: str | None = None
        self._told: tuple[Any, ...] = ()
        # The current page of the table, in Quasar's form.
        self._page: dict[str, Any] = {"page": 1, "rowsPerPage": _ROWS, "sortBy": None, "descending": False}

    def build(self) -> None:
        with ui.row().classes("w-full items-center gap-3"):
            _choice(list(self._session.queries), self._name)
            self._value = ui.select([], label="Column").classes("w-40")
            self._value.on_value_change(self._choose_column)
            self._forms = ui.toggle([LINE, BARS, TABLE]).props("no-caps").on_value_change(self._choose_form)
        self._text = ui.label("").classes("sash-mono text-sm")
        self._failed = ui.label("").classes("sash-mono text-sm text-negative").props('role="alert"')
        self._as_of = ui.label("").classes("text-sm sash-dim").props('role="status"')
        self._chart = ui.echart(page_charts.lines({})).classes("w-full h-96")
        self._dashed = ui.label("Dashed: the window was not full yet.").classes("text-sm sash-dim")
        self._table = ui.table(columns=[], rows=[], pagination={**self._page, "rowsNumber": 0}).classes("w-full")
        self._table.props('flat bordered dense :rows-per-page-options="[25, 100, 500]"').on("request", self._turn)
        ui.timer(REFRESH_SECONDS, self._draw, immediate=True)

    def _choose_column(self, event: Any) -> None:
        self._column, self._told = event.value, ()

    def _choose_form(self, event: Any) -> None:
        self._form, self._told = event.value, ()

    async def _turn(self, event: Any) -> None:
        """Turn to another page, or to another order."""
        self._page = {name: event.args["pagination"][name] for name in self._page}
        self._told = ()
        await self._draw()

    async def _draw(self) -> None:
        query = self._session.queries.get(self._name)
        if query is None:
            self._as_of.set_text(f"Query {self._name} has been dropped.")
            return
        await self._draw_query(query)

    async def _draw_query(self, query: Query) -> None:
        latest = await asyncio.to_thread(query.latest)
        # Nothing new, nothing to send.
        state = (query.answered, self._form, self._column, None if latest is None else latest.as_of, query.error)
        if state == self._told:
            return
        self._told = state
        self._text.set_text(query.text)
        self._failed.set_text(_complaint(query))
        self._failed.set_visibility(query.error is not None)
        for part in (self._value, self._forms, self._chart, self._dashed, self._table):
            part.set_visibility(latest is not None)
        if latest is None:
            self._as_of.set_text("No answer yet." if query.failure is None else "It has given no answer.")
            return
        self._as_of.set_text(_about(latest, latest.table.num_rows))
        keys, values = await asyncio.to_thread(query.columns)
        if self._form is None:
            self._form = await asyncio.to_thread(natural_form, query, latest)
            self._forms.set_value(self._form)
        if self._column not in values:
            self._column = values[0] if values else None
        self._value.set_options(values, value=self._column)
        form = TABLE if self._column is None or _is_change(latest) else self._form
        self._value.set_visibility(len(values) > 1 and form != TABLE)
        self._forms.set_visibility(not _is_change(latest))
        self._chart.set_visibility(form != TABLE)
        self._dashed.set_visibility(False)
        self._table.set_visibility(form == TABLE)
        await self._fill(query, latest, form, keys)

    async def _fill(self, query: Query, latest: Answer, form: str, keys: list[str]) -> None:
        if form == TABLE or self._column is None:
            table = await asyncio.to_thread(_shown, query, latest)
            self._as_of.set_text(_about(latest, table.num_rows))
            self._table.columns = table_columns(table.schema)
            self._page, rows = await asyncio.to_thread(page_of, table, self._page)
            self._table.rows = rows
            self._table.pagination = {**self._page, "rowsNumber": table.num_rows}
            return
        if form == BARS:
            found = await asyncio.to_thread(largest, latest.table, keys, self._column)
            self._chart.options.update(page_charts.bars(found, self._column))
        else:
            lines = await asyncio.to_thread(_lines, query, keys, self._column)
            self._chart.options.update(page_charts.lines(lines, self._column))
            self._dashed.set_visibility(any(len(point) > 2 for line in lines.values() for point in line))
        self._chart.update()


def page_of(table: pa.Table, page: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The rows of a page, and its number: a shorter table may end before the page."""
    most, column = min(page["rowsPerPage"] or _ROWS, _MOST_ROWS), page["sortBy"]
    number = max(1, min(page["page"], -(-table.num_rows // most)))
    # Nested values have no order, and a name of two columns is ambiguous.
    if table.schema.names.count(column) == 1 and not pa.types.is_nested(table.schema.field(column).type):
        table = table.sort_by([(column, "descending" if page["descending"] else "ascending")])
    return {**page, "page": number}, shown_rows(table.slice((number - 1) * most), most)


def _complaint(query: Query) -> str:
    if query.error is None:
        return ""
    return f"{'Failed' if query.failure is not None else 'Cannot write'}: {query.error}"


def _is_change(latest: Answer | None) -> bool:
    """Whether the answers are changes, which make no line over time."""
    return latest is not None and "_sign" in latest.table.schema.names


def _shown(query: Query, latest: Answer) -> pa.Table:
    """The current rows, or, for a stream of results, the latest ones."""
    if not _is_change(latest):
        return latest.table
    try:
        return query.view()
    except SashError:
        return latest.table


def _about(latest: Answer, rows: int) -> str:
    partly = "" if latest.complete else ", the window is not full yet"
    return f"as of {latest.as_of:%Y-%m-%d %H:%M:%S} UTC, {rows:,} row{'s' * (rows != 1)}{partly}"
