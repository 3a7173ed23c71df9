"""The way of answers into sinks: each sink gets all answers of a query, in order.

    answers of a micro-batch ──► a line per query and sink ──► one write for all that waits
                                       │                       a thread of the channel's own
                                       └ in the checkpoint, while writing fails or takes long

Sinks that one job can serve (Kafka with the same options) share a channel: one write has all answers that wait for
them. The plans of a micro-batch commit one after the other, so their answers are stored first and written together at
its end. Any other sink has its own channel. When the write for several queries fails, the channel writes each query by
itself until a write has succeeded: so a query whose answers no sink takes does not keep others from writing.

A sink that is away for a while gets everything once it is back. A sink that stays away is given up when too many
answers wait: it then has all answers up to some time, without a hole, and none after it.

A micro-batch waits briefly for a channel, so that a quick sink is never behind its answers. All waits together take
PATIENCE_SECONDS at most, of which REGAINED comes back with every second that passes. When the patience is used up,
micro-batches do not wait for the channel until it has caught up: answers go into the checkpoint, and the stream goes
on. So a slow or failing sink costs the stream ten seconds, and a tenth of the time after that.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from sash.core.errors import CheckpointError, SashError
from sash.core.events import report
from sash.core.time import to_datetime, to_micros
from sash.runtime.answers.answer import Answer
from sash.storage.files import damaged, make_directory, read_table, remove, table_bytes, write_bytes, written

logger = logging.getLogger("sash.runtime")

# The most that may wait for a failing sink, in answers and in bytes.
WAITING_ANSWERS = 1_000
WAITING_BYTES = 256 * 2**20
# About the most bytes of one write: after a sink was away, more may wait.
WRITTEN_BYTES = 64 * 2**20
# How long micro-batches wait for a sink, and how long an ending session waits for a sink that writes nothing.
PATIENCE_SECONDS = 10.0
REGAINED = 0.1
LAST_PATIENCE_SECONDS = 60.0
_FACTS = b"sash.answer"


class NotKeptError(CheckpointError):
    """An answer could be neither written nor stored: its micro-batch must not be committed."""


class Writes(Protocol):
    """A sink. `name` is for people; sinks with an equal `channel` are written together (None: by itself)."""

    name: str
    channel: str | None

    def write(self, answers: Sequence[Answer]) -> None:
        """Answers of one query or several, those of each in order."""


class AnswerLine:
    """Answers in line, also as files where there is a `directory`: a restart finds the unwritten answers."""

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

    def first(self, most: int) -> list[Answer]:
        """The first answers with `most` bytes together, and at least one."""
        chosen = list[Answer]()
        for _, answer in self._line:
            if chosen and answer.table.nbytes > most:
                break
            most -= answer.table.nbytes
            chosen.append(answer)
        return chosen

    def leave(self, number: int) -> None:
        """The first `number` answers have been written."""
        gone = [self._line.popleft() for _ in range(number)]
        self._bytes -= sum(answer.table.nbytes for _, answer in gone)
        for path, _ in gone:
            if path is not None:
                remove(path)

    def keep(self) -> None:
        """Store every answer that has no file yet, before the micro-batch is committed."""
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
    """The line of a query before a sink. `why` puts an error into a line of text.

    `place` is the sink's directory, if its answers have one to themselves.
    """

    def __init__(
        self,
        query: str,
        sink: Writes,
        directory: Path | None,
        why: Callable[[BaseException], str],
        place: str | None = None,
        channels: dict[str, Channel] | None = None,
    ) -> None:
        """`channels` are the channels of other queries' sinks, by name."""
        self.place = place
        self.query = query
        self.writer = sink
        self._why = why
        self.line = AnswerLine(query, directory)
        self._written = 0
        self._error: str | None = None
        self._closed = False
        # The write for several queries has failed, and this query's answers have not been written by themselves since.
        self.is_apart = False
        shared = {} if channels is None or sink.channel is None else channels
        # The channel writes what is in line.
        self.channel = shared.setdefault(sink.channel or "", Channel())
        self.channel.enter(self)

    @property
    def sink(self) -> str:
        return self.writer.name

    def add(self, answer: Answer) -> Channel:
        """Put an answer into the line; the result is the channel that writes it."""
        with self.channel.changed:
            if not self._closed:
                self.line.add(answer)
        return self.channel

    @property
    def is_crowded(self) -> bool:
        return self.line.is_too_long

    def store(self) -> None:
        """Store the waiting answers, so that a restart finds them."""
        with self.channel.changed:
            if not self._closed:
                self.line.keep()

    def flush(self) -> None:
        """Write the waiting answers again, and wait while the sink makes progress."""
        self.channel.flush()

    def drop(self) -> None:
        """The query is dropped: try one last write."""
        self.channel.flush(keep=False)
        with self.channel.changed:
            if len(self.line):
                told = "query %(query)s is dropped with %(why)s"
                report(logger, logging.ERROR, "sink.unwritten", told, query=self.query, why=str(self.error))
            self.line.forget()
            self._closed = True
            self.channel.leave(self)

    # -- for the channel, which holds its lock ----------------------------------------------------------

    @property
    def waits(self) -> bool:
        return len(self.line) > 0 and not self._closed

    def wrote(self, number: int) -> None:
        self._written += number
        if not self._closed:
            self.line.leave(number)
        self.is_apart = False
        if self._error is not None and not self._closed:
            self.tell(logging.INFO, "sink.again", "query %(query)s writes to %(sink)s again")
            self._error = None

    def failed(self, error: Exception) -> None:
        if self._error is None:
            told = "query %(query)s cannot write to %(sink)s; its answers wait"
            self.tell(logging.ERROR, "sink.waiting", told, exception=True)
        self._error = self._why(error)

    def keep(self) -> None:
        if self._closed:
            return
        self.line.keep()
        if self.line.is_too_long:
            self._give_up()

    def _give_up(self) -> None:
        self._closed = True
        self._error = self._error or "it takes answers more slowly than they come"
        told = "query %(query)s gives up its sink %(sink)s: too much waits"
        self.tell(logging.ERROR, "sink.given_up", told, waiting=len(self.line))
        self.line.forget()

    def tell(self, level: int, event: str, told: str, **fields: Any) -> None:
        report(logger, level, event, told, query=self.query, sink=self.writer.name, **fields)

    @property
    def error(self) -> SashError | None:
        if self._error is None:
            return None
        state = f"{len(self.line)} answers wait and are tried again"
        if self._closed:
            state = f"given up after {self._written} answers, which are there without a hole; call write_to again"
        return SashError(f"query '{self.query}' cannot write to {self.writer.name}: {self._error} ({state})")

    def statistics(self) -> dict[str, Any]:
        return {
            "sink": self.writer.name,
            "written": self._written,
            "waiting": len(self.line),
            "error": None if self.error is None else str(self.error),
        }


class Channel:
    """Writes what waits in the lines of its outlets. Its thread lives while there is something to write."""

    def __init__(self) -> None:
        self._outlets: list[Outlet] = []
        self._worker: threading.Thread | None = None
        self._writes = 0
        # After how many writes somebody waited in vain for the next: other queries of the channel do not wait again.
        self._stuck_at = -1
        # How much of the patience is spent, and as of when.
        self._spent = 0.0
        self._looked_at = time.monotonic()
        # A micro-batch has waited in vain: no micro-batch waits until all is written.
        self._is_behind = False
        self.changed = threading.Condition()

    def enter(self, outlet: Outlet) -> None:
        with self.changed:
            self._outlets.append(outlet)

    def leave(self, outlet: Outlet) -> None:
        self._outlets.remove(outlet)

    @property
    def is_shared(self) -> bool:
        """Whether several queries write here together."""
        return len(self._outlets) > 1

    def begin(self) -> None:
        """Write the waiting answers in the channel's thread; the micro-batch goes on."""
        with self.changed:
            if self._worker is None and any(outlet.waits for outlet in self._outlets):
                self._worker = threading.Thread(target=self._work, name="sash-sink", daemon=True)
                self._worker.start()

    def wait_a_moment(self) -> None:
        """Wait until all is written or patience ends; then store the answers that still wait."""
        with self.changed:
            before = time.monotonic()
            self._spent = max(0.0, self._spent - REGAINED * (before - self._looked_at))
            if not self._is_behind:
                left = max(0.0, PATIENCE_SECONDS - self._spent)
                self._is_behind = not self.changed.wait_for(lambda: self._worker is None, left)
            self._looked_at = time.monotonic()
            self._spent += self._looked_at - before
            self._keep()

    def flush(self, keep: bool = True) -> None:
        """Write the waiting answers again, and wait while the sinks make progress."""
        with self.changed:
            self.begin()
            before = self._stuck_at
            while self._worker not in (None, threading.current_thread()) and before < self._writes:
                before = self._writes
                self.changed.wait_for(lambda: self._worker is None, LAST_PATIENCE_SECONDS)
            if self._worker is not None and self._stuck_at < self._writes:
                self._report_stuck()
                self._stuck_at = self._writes
            if keep:
                self._keep()

    def _report_stuck(self) -> None:
        for outlet in self._outlets:
            if outlet.waits:
                told = "query %(query)s waits no longer for %(sink)s, which takes nothing"
                outlet.tell(logging.ERROR, "sink.stuck", told)

    def _keep(self) -> None:
        for outlet in self._outlets:
            outlet.keep()

    def _work(self) -> None:
        """Write until nothing waits or a write fails."""
        while writing := self._next():
            answers = [answer for _, mine in writing for answer in mine]
            try:
                writing[0][0].writer.write(answers)
                with self.changed:
                    self._writes += 1
                    for outlet, mine in writing:
                        outlet.wrote(len(mine))
            except Exception as error:
                self._failed([outlet for outlet, _ in writing], error)
                return

    def _next(self) -> list[tuple[Outlet, list[Answer]]]:
        """The outlets of the next write with their answers: first the outlets that can be written together."""
        with self.changed:
            waiting = [outlet for outlet in self._outlets if outlet.waits]
            if not waiting:
                self._is_behind = False
                self._ends()
            chosen, room = list[tuple[Outlet, list[Answer]]](), WRITTEN_BYTES
            for outlet in [outlet for outlet in waiting if not outlet.is_apart] or waiting[:1]:
                if room > 0:
                    chosen.append((outlet, outlet.line.first(room)))
                    room -= sum(answer.table.nbytes for answer in chosen[-1][1])
            return chosen

    def _failed(self, outlets: list[Outlet], error: Exception) -> None:
        with self.changed:
            for outlet in outlets:
                outlet.failed(error)
                outlet.is_apart = True
            # The other outlets come first the next time.
            self._outlets.sort(key=outlets.__contains__)
            self._ends()

    def _ends(self) -> None:
        self._worker, self._stuck_at = None, -1
        self.changed.notify_all()


def _marked(answer: Answer) -> pa.Table:
    facts = {"as_of": to_micros(answer.as_of), "rows": answer.rows}
    return answer.table.replace_schema_metadata({_FACTS: json.dumps(facts).encode()})


def _stored(query: str, directory: Path | None) -> Iterator[tuple[Path, Answer]]:
    """The answers that an earlier session could not write, oldest first. No sink reads `complete` or `scheduled`."""
    for path in sorted(directory.glob("*.arrow")) if directory is not None else ():
        try:
            table = read_table(path, int(path.name.split(".")[1], 16))
        except (OSError, ValueError) as error:
            raise damaged(path, error) from None
        facts = json.loads(table.schema.metadata[_FACTS])
        plain = table.replace_schema_metadata(None)
        yield path, Answer(query, to_datetime(facts["as_of"]), True, True, plain, facts["rows"])
