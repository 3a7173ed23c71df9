"""The way of a query's answers into a sink: in order, and none left out.

    answer ──► wait in line ──► the oldest first: written, or stay and be tried again with the next answer, at the end
    micro-batch's thread   │    a thread of the outlet's own                 of a run and when the session stops
                           └ in the checkpoint, while writing fails or takes long

A sink that is away for a while gets everything once it is back. One that stays away is given up when too much waits:
what it has then is everything up to some answer, without a hole, and nothing after it.

A micro-batch waits for a sink a moment, so that a sink that is quick is never behind its answers. All waits together
take PATIENCE_SECONDS at most, of which REGAINED comes back with every second that passes. When they are used up, the
sink is not waited for until it has caught up: answers are put into the checkpoint, and the stream goes on. So a sink
that is slow, or slow to fail, costs the stream ten seconds, and a tenth of the time after that.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sash.core.errors import CheckpointError, SashError
from sash.core.events import report
from sash.core.time import to_datetime, to_micros
from sash.engine.answers.answer import Answer
from sash.storage.files import damaged, make_directory, read_table, remove, table_bytes, write_bytes, written

logger = logging.getLogger("sash.engine")

# What may wait for a sink that fails, in answers and in bytes.
WAITING_ANSWERS = 1_000
WAITING_BYTES = 256 * 2**20
# How long micro-batches wait for a sink, and how long a session that ends waits for one that writes nothing.
PATIENCE_SECONDS = 10.0
REGAINED = 0.1
LAST_PATIENCE_SECONDS = 60.0
_FACTS = b"sash.answer"


class NotKeptError(CheckpointError):
    """An answer that no sink has could not be stored either: its micro-batch must not be committed."""


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
            remove(path)

    def keep(self) -> None:
        """Who still waits and has no file yet gets one, before the micro-batch is committed."""
        if self._directory is None or not self._line:
            return
        try:
            with written(self._directory):
                self._keep_in(self._directory)
        except CheckpointError as error:
            raise NotKeptError(str(error)) from error

    def _keep_in(self, directory: Path) -> None:
        make_directory(directory)
        last = next((path for path, _ in reversed(self._line) if path is not None), None)
        number = 0 if last is None else int(last.name.split(".")[0]) + 1
        for place, (path, answer) in enumerate(self._line):
            if path is None:
                data = table_bytes(_marked(answer))
                path = directory / f"{number:09d}.{zlib.crc32(data):08x}.arrow"
                write_bytes(path, data)
                self._line[place] = (path, answer)
                number += 1

    def forget(self) -> None:
        self._line.clear()
        self._bytes = 0
        if self._directory is not None:
            remove(self._directory)


class Outlet:
    """`why` puts an error into a line; `place` is the sink's directory, if its answers have one to themselves.

    Its thread lives while there is something to write.
    """

    def __init__(
        self,
        query: str,
        sink: Writes,
        directory: Path | None,
        why: Callable[[BaseException], str],
        place: str | None = None,
    ) -> None:
        self.place = place
        self._query = query
        self._sink = sink
        self._why = why
        self._waiting = Waiting(query, directory)
        self._written = 0
        self._error: str | None = None
        self._closed = False
        self._worker: threading.Thread | None = None
        # What waiting has taken of the patience that there is, and as of when.
        self._spent = 0.0
        self._looked_at = time.monotonic()
        # A micro-batch has waited for the sink in vain, and nobody waits until it has caught up.
        self._is_behind = False
        self._changed = threading.Condition()

    @property
    def sink(self) -> str:
        return self._sink.name

    def take(self, answer: Answer) -> None:
        with self._changed:
            if self._closed:
                return
            self._waiting.add(answer)
            self._begin()
            self._wait_a_moment()
            self._waiting.keep()
            if self._waiting.is_too_long:
                self._give_up()

    def _wait_a_moment(self) -> None:
        before = time.monotonic()
        self._spent = max(0.0, self._spent - REGAINED * (before - self._looked_at))
        if not self._is_behind:
            left = max(0.0, PATIENCE_SECONDS - self._spent)
            self._is_behind = not self._changed.wait_for(lambda: self._worker is None, left)
        self._looked_at = time.monotonic()
        self._spent += self._looked_at - before

    def flush(self) -> None:
        """Try again what waits, and wait for it as long as the sink gets on."""
        with self._changed:
            self._begin()
            self._wait_while_it_gets_on()
            if not self._closed:
                self._waiting.keep()

    def drop(self) -> None:
        """The query is gone: one last try."""
        with self._changed:
            self._begin()
            self._wait_while_it_gets_on()
            if len(self._waiting):
                told = "query %(query)s is dropped with %(why)s"
                report(logger, logging.ERROR, "sink.unwritten", told, query=self._query, why=str(self.error))
            self._waiting.forget()
            self._closed = True

    def _wait_while_it_gets_on(self) -> None:
        before = -1
        while self._worker not in (None, threading.current_thread()) and before < self._written:
            before = self._written
            self._changed.wait_for(lambda: self._worker is None, LAST_PATIENCE_SECONDS)
        if self._worker is not None and not self._closed:
            told = "query %(query)s waits no longer for %(sink)s, which takes nothing"
            self._report(logging.ERROR, "sink.stuck", told)

    def _begin(self) -> None:
        if self._worker is None and len(self._waiting):
            self._worker = threading.Thread(target=self._work, name=f"sash-sink-{self._query}", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        """Write what waits, until nothing does or the sink fails."""
        while (answer := self._next()) is not None:
            try:
                self._sink.write(answer.as_of, answer.table, answer.rows)
                with self._changed:
                    self._written += 1
                    if not self._closed:
                        self._waiting.leave()
            except Exception as error:
                self._failed(error)
                return

    def _next(self) -> Answer | None:
        with self._changed:
            if len(self._waiting) and not self._closed:
                return self._waiting.first
            self._is_behind = False
            if self._error is not None and not self._closed:
                self._report(logging.INFO, "sink.again", "query %(query)s writes to %(sink)s again")
                self._error = None
            self._ends()
            return None

    def _failed(self, error: Exception) -> None:
        with self._changed:
            if self._error is None:
                told = "query %(query)s cannot write to %(sink)s; its answers wait"
                self._report(logging.ERROR, "sink.waiting", told, exception=True)
            self._error = self._why(error)
            self._ends()

    def _ends(self) -> None:
        self._worker = None
        self._changed.notify_all()

    def _give_up(self) -> None:
        self._closed = True
        self._error = self._error or "it takes answers more slowly than they come"
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
            table = read_table(path, int(path.name.split(".")[1], 16))
        except (OSError, ValueError) as error:
            raise damaged(path, error) from None
        facts = json.loads(table.schema.metadata[_FACTS])
        plain = table.replace_schema_metadata(None)
        yield path, Answer(query, to_datetime(facts["as_of"]), True, True, plain, facts["rows"])
