"""The way of a query's answers into a sink: in order, and none left out.

    answer ──► wait in line ──► the oldest first: written, or stay and be tried again with the next answer, at the end
               (in the checkpoint,               of a run and when the session stops
                while writing fails)

A sink that is away for a while gets everything once it is back. One that stays away is given up when too much waits:
what it has then is everything up to some answer, without a hole, and nothing after it.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sash.core.errors import CheckpointError, SashError
from sash.core.events import report
from sash.core.time import to_datetime, to_micros
from sash.engine.answer import Answer
from sash.storage.files import write_table

logger = logging.getLogger("sash.engine")

# What may wait for a sink that fails, in answers and in bytes.
WAITING_ANSWERS = 1_000
WAITING_BYTES = 256 * 2**20
_FACTS = b"sash.answer"


class Writes(Protocol):
    """A sink; `name` is for people."""

    name: str

    def write(self, as_of: datetime, table: pa.Table, rows: int | None) -> None: ...


class Waiting:
    """Answers in line, also as files where there is a `directory`: a restart finds those that were not written."""

    def __init__(self, query: str, directory: Path | None) -> None:
        self._directory = directory
        self._line: deque[tuple[Path | None, Answer]] = deque(_stored(query, directory))
        self._bytes = sum(answer.table.nbytes for _, answer in self._line)

    def __len__(self) -> int:
        return len(self._line)

    @property
    def is_too_long(self) -> bool:
        return len(self._line) > WAITING_ANSWERS or self._bytes > WAITING_BYTES

    def add(self, answer: Answer) -> None:
        self._line.append((None, answer))
        self._bytes += answer.table.nbytes

    @property
    def first(self) -> Answer:
        return self._line[0][1]

    def leave(self) -> None:
        """The first one has been written."""
        path, answer = self._line.popleft()
        self._bytes -= answer.table.nbytes
        if path is not None:
            path.unlink(missing_ok=True)

    def keep(self) -> None:
        """Writing failed: whoever has no file yet gets one, before the micro-batch is committed."""
        if self._directory is None:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        last = next((path for path, _ in reversed(self._line) if path is not None), None)
        number = 0 if last is None else int(last.stem) + 1
        for place, (path, answer) in enumerate(self._line):
            if path is None:
                path = self._directory / f"{number:09d}.arrow"
                write_table(path, _marked(answer))
                self._line[place] = (path, answer)
                number += 1

    def forget(self) -> None:
        self._line.clear()
        self._bytes = 0
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


class Outlet:
    """`why` puts an error into a line. Its own lock keeps the micro-batch's thread and a stopping one apart."""

    def __init__(self, query: str, sink: Writes, directory: Path | None, why: Callable[[BaseException], str]) -> None:
        self._query = query
        self._sink = sink
        self._why = why
        self._waiting = Waiting(query, directory)
        self._written = 0
        self._error: str | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def sink(self) -> str:
        return self._sink.name

    def take(self, answer: Answer) -> None:
        with self._lock:
            if self._closed:
                return
            self._waiting.add(answer)
            self._write()
            if self._waiting.is_too_long:
                self._give_up()

    def flush(self) -> None:
        """Try again what waits."""
        with self._lock:
            self._write()

    def drop(self) -> None:
        """The query is gone: one last try."""
        with self._lock:
            self._write()
            if len(self._waiting):
                told = "query %(query)s is dropped with %(why)s"
                report(logger, logging.ERROR, "sink.unwritten", told, query=self._query, why=str(self.error))
            self._waiting.forget()
            self._closed = True

    def _write(self) -> None:
        try:
            while len(self._waiting):
                answer = self._waiting.first
                self._sink.write(answer.as_of, answer.table, answer.rows)
                self._waiting.leave()
                self._written += 1
        except Exception as error:
            if self._error is None:
                told = "query %(query)s cannot write to %(sink)s; its answers wait"
                self._report(logging.ERROR, "sink.waiting", told, exception=True)
            self._error = self._why(error)
            self._waiting.keep()
            return
        if self._error is not None and not self._closed:
            self._report(logging.INFO, "sink.again", "query %(query)s writes to %(sink)s again")
            self._error = None

    def _give_up(self) -> None:
        self._closed = True
        told = "query %(query)s gives up its sink %(sink)s: too much waits"
        self._report(logging.ERROR, "sink.given_up", told, waiting=len(self._waiting))
        self._waiting.forget()

    def _report(self, level: int, event: str, told: str, **fields: Any) -> None:
        report(logger, level, event, told, query=self._query, sink=self._sink.name, **fields)

    @property
    def error(self) -> SashError | None:
        if self._error is None:
            return None
        state = f"{len(self._waiting)} answers wait and are tried again"
        if self._closed:
            state = f"given up after {self._written} answers, which are there without a hole; call write_to again"
        return SashError(f"query '{self._query}' cannot write to {self._sink.name}: {self._error} ({state})")

    def statistics(self) -> dict[str, Any]:
        return {
            "sink": self._sink.name,
            "written": self._written,
            "waiting": len(self._waiting),
            "error": None if self.error is None else str(self.error),
        }


def _marked(answer: Answer) -> pa.Table:
    facts = {"as_of": to_micros(answer.as_of), "rows": answer.rows}
    return answer.table.replace_schema_metadata({_FACTS: json.dumps(facts).encode()})


def _stored(query: str, directory: Path | None) -> Iterator[tuple[Path, Answer]]:
    """What an earlier session could not write, oldest first. Whether it was complete or scheduled, no sink asks."""
    for path in sorted(directory.glob("*.arrow")) if directory is not None else ():
        try:
            table = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all()
        except pa.ArrowInvalid:
            raise CheckpointError(f"the checkpoint file {path} is damaged") from None
        facts = json.loads(table.schema.metadata[_FACTS])
        plain = table.replace_schema_metadata(None)
        yield path, Answer(query, to_datetime(facts["as_of"]), True, True, plain, facts["rows"])
