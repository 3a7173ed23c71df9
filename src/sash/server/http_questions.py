"""One-time questions over HTTP: limited in number and in time, and each can be cancelled.

    request ──► a free place? ──► a thread of the pool ──► session.query(timeout, cancellation, max_rows)
                429 if there is none     the table is put into its form there: large answers do not hold up others
                cancels when the client leaves, or DELETE /api/query/{id} comes

A client gets a time-out when its time is over, even if the engine takes a moment more to stop. Until then the place
stays taken: the limit is on work, not on waiting.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from sash.core.errors import QuestionTimedOutError, SashError
from sash.core.stopping import Cancellation
from sash.runtime.session import Session
from sash.server.models import Question, RunningQuestion
from sash.server.problems import CONFLICT, TOO_MANY, UNAVAILABLE, ProblemError
from sash.server.server_settings import ServerSettings
from sash.sql import RegisterQuery, SelectStatement, parse

# Seconds between two checks whether the client is still there.
_LOOK_SECONDS = 0.25
# Seconds that the engine has to stop when the time of a question is over.
_GRACE_SECONDS = 1.0

T = TypeVar("T")
# Makes the client's response from the answer to the question of this id.
Finish = Callable[[str, pa.Table], T]


@dataclass(frozen=True)
class _RunningQuestion:
    id: str
    text: str
    cancellation: Cancellation = field(default_factory=Cancellation)
    since: float = field(default_factory=time.monotonic)

    def told(self) -> RunningQuestion:
        seconds, cancelled = time.monotonic() - self.since, self.cancellation.why is not None
        return RunningQuestion(id=self.id, text=self.text, seconds=round(seconds, 3), cancelled=cancelled)


class HttpQuestions:
    """Takes questions, and limits their number."""

    def __init__(self, session: Session, settings: ServerSettings) -> None:
        self._session = session
        self._settings = settings
        self._pool = ThreadPoolExecutor(settings.max_questions, thread_name_prefix="sash-question")
        self._lock = threading.Lock()
        self._asked: dict[str, _RunningQuestion] = {}
        self._is_closed = False

    async def ask(self, question: Question, finish: Finish[T], is_gone: Callable[[], Awaitable[bool]]) -> T:
        """The result of `finish` for the answer. `is_gone`: nobody waits for it any more."""
        most = self._settings.max_seconds
        seconds = min(question.timeout or most, most)
        asked = self._enter(question)
        working = asyncio.get_running_loop().run_in_executor(self._pool, self._work, asked, question, seconds, finish)
        # A client that has left does not read the error.
        working.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            while not (await asyncio.wait([working], timeout=_LOOK_SECONDS))[0]:
                if await is_gone():
                    asked.cancellation.cancel()
                if time.monotonic() - asked.since > seconds + _GRACE_SECONDS:
                    raise asked.cancellation.why or QuestionTimedOutError("the question took too long")
        except asyncio.CancelledError:
            asked.cancellation.cancel()
            raise
        return working.result()

    def cancel(self, id: str) -> bool:
        """Cancel a question; whether it exists."""
        with self._lock:
            asked = self._asked.get(id)
        if asked is not None:
            asked.cancellation.cancel()
        return asked is not None

    def questions(self) -> list[RunningQuestion]:
        """The questions without an answer yet, the oldest first."""
        with self._lock:
            return [asked.told() for asked in self._asked.values()]

    def close(self) -> None:
        """End all questions, and take no more."""
        with self._lock:
            self._is_closed = True
            asked = list(self._asked.values())
        for each in asked:
            each.cancellation.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _enter(self, question: Question) -> _RunningQuestion:
        asked = _RunningQuestion(question.id or uuid.uuid4().hex, question.text)
        with self._lock:
            if self._is_closed:
                raise ProblemError(UNAVAILABLE, "the server stops")
            if asked.id in self._asked:
                raise ProblemError(CONFLICT, f"a question with the id '{asked.id}' is being answered")
            if len(self._asked) >= self._settings.max_questions:
                told = f"{self._settings.max_questions} questions are being answered, and not more at once"
                raise ProblemError(TOO_MANY, told, {"Retry-After": "1"})
            self._asked[asked.id] = asked
        return asked

    def _work(self, asked: _RunningQuestion, question: Question, seconds: float, finish: Finish[T]) -> T:
        most = self._settings.max_rows
        rows = most if question.max_rows is None else min(question.max_rows, most)
        try:
            refuse_python(self._session, question.text)
            table = self._session.query(question.text, question.priority, seconds, asked.cancellation, rows)
            return finish(asked.id, table)
        finally:
            with self._lock:
                del self._asked[asked.id]


def refuse_python(session: Session, text: str) -> None:
    """A program's own functions and aggregates run Python: only the program calls them, never a text from a request."""
    statement = parse(text)
    called = statement.select.calls if isinstance(statement, SelectStatement | RegisterQuery) else set[str]()
    of_program = dict.fromkeys(session.catalog.aggregates, "aggregate")
    of_program |= dict.fromkeys(session.catalog.functions, "function")
    for name in sorted(called & of_program.keys()):
        raise SashError(
            f"the {of_program[name]} '{name}' runs Python functions of the program, which a request cannot: "
            "register the query in the program"
        )
