"""The output of `sash run`: JSON lines on stdout, a Parquet file per answer."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from sash.core.errors import SashError
from sash.core.events import report
from sash.core.plain import plain
from sash.runtime.answers.answer import Answer

logger = logging.getLogger("sash.cli")

Sink = Callable[[Answer], None]


# -- JSON lines ----------------------------------------------------------------------------------------


def write_json_answer(answer: Answer) -> None:
    write_json(
        {
            "query": answer.query,
            "as_of": answer.as_of.isoformat(),
            "complete": answer.complete,
            "scheduled": answer.scheduled,
            "rows": answer.table.to_pylist(),
        }
    )


def write_json(record: dict[str, Any]) -> None:
    """One line, at once: the reader of a pipe waits for it."""
    sys.stdout.write(json.dumps(plain(record), ensure_ascii=False) + "\n")
    sys.stdout.flush()


# -- Parquet -------------------------------------------------------------------------------------------


class ParquetAnswers:
    """`DIR/<query>/<as of>.parquet`, with the column `as_of` first; over row-based windows `<as of>-<rows>.parquet`.

    A file is named by its answer, so an answer that comes again after a crash replaces itself; a file appears under its
    name only when it is complete.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._warned: set[str] = set()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SashError(f"cannot write answers to {directory}: {error.strerror or error}") from None

    def __call__(self, answer: Answer) -> None:
        folder = self._directory / folder_name(answer.query)
        folder.mkdir(exist_ok=True)
        # Row-based windows may give several answers as of one time.
        counted = "" if answer.rows is None else f"-{answer.rows:012d}"
        name = f"{answer.as_of:%Y%m%dT%H%M%S.%fZ}{counted}.parquet"
        unfinished = folder / f".{name}.{os.getpid()}.tmp"
        pq.write_table(self._with_as_of(answer), unfinished)
        unfinished.replace(folder / name)

    def _with_as_of(self, answer: Answer) -> pa.Table:
        table = answer.table
        clash = next((name for name in table.column_names if name.lower() == "as_of"), None)
        if clash is not None:
            renamed = _free_name(clash, table.column_names)
            self._warn_once(answer.query, clash, renamed)
            table = table.rename_columns([renamed if name == clash else name for name in table.column_names])
        as_of = pa.array([answer.as_of] * table.num_rows, pa.timestamp("us", "UTC"))
        facts = {"sash.complete": json.dumps(answer.complete), "sash.scheduled": json.dumps(answer.scheduled)}
        return table.add_column(0, "as_of", as_of).replace_schema_metadata(facts)

    def _warn_once(self, query: str, column: str, renamed: str) -> None:
        if query not in self._warned:
            self._warned.add(query)
            told = "query %(query)s has a column %(column)s of its own; it is written as %(renamed)s"
            report(logger, logging.WARNING, "column.renamed", told, query=query, column=column, renamed=renamed)


def _free_name(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


def folder_name(query: str) -> str:
    """A query's name as the name of a folder, whatever characters it has.

    >>> folder_name("big_talkers"), folder_name("a/b c"), folder_name("..")
    ('big_talkers', 'a%2Fb%20c', '%2E.')
    """
    name = quote(query, safe="")
    return f"%2E{name[1:]}" if name.startswith(".") else name


# -- all of them ---------------------------------------------------------------------------------------


class Sinks:
    """Passes each answer on to all sinks; keeps the first error, and then calls `stop`.

    The engine calls this on its own thread and ignores errors of subscribers, so the command needs `stop`.
    """

    def __init__(self, sinks: list[Sink], stop: Callable[[], None]) -> None:
        self._sinks = sinks
        self._stop = stop
        self._lock = threading.Lock()
        self.error: Exception | None = None

    def __call__(self, answer: Answer) -> None:
        with self._lock:
            if self.error is not None:
                return
            try:
                for sink in self._sinks:
                    sink(answer)
            except (OSError, pa.ArrowException) as error:
                self.error = error
                self._stop()

    @property
    def reader_is_gone(self) -> bool:
        return isinstance(self.error, BrokenPipeError)

    def check(self) -> None:
        if self.error is not None:
            raise SashError(f"cannot write answers: {self.error}")
