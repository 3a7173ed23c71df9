"""Clients that follow the answers of a query.

    micro-batch ──► Follower.take: a bounded line per client ──► the client, as fast as it reads
                    full: the oldest goes, and is counted         (the server's event loop)

`take` runs in the thread of the micro-batch and never waits: it appends, and wakes the event loop. So a client costs no
thread, and a slow client does not delay the stream. A client that leaves takes its queue with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import Query
from sash.runtime.session import Session
from sash.runtime.streams.load import CLOSED, ENDED, FAILED, SessionState
from sash.server.problems import TOO_MANY, ProblemError
from sash.server.server_settings import ServerSettings

# Seconds between two checks whether more answers are to come.
_LOOK_SECONDS = 1.0
# Seconds without an answer after which a sign of life is sent: proxies close silent connections.
_BEAT_SECONDS = 15.0


@dataclass(frozen=True)
class Gap:
    """How many answers were left out, because the client was behind."""

    answers: int


@dataclass(frozen=True)
class End:
    """No more answers come."""

    reason: str


class Beat:
    """Nothing has happened."""


Happening = Answer | Gap | End | Beat


class Followers:
    """All followers; their number is limited."""

    def __init__(self, session: Session, settings: ServerSettings) -> None:
        self._session = session
        self._settings = settings
        self._here: set[Follower] = set()
        self._state: SessionState | None = None
        self._looked = 0.0
        self._is_closing = False

    async def follow(self, query: Query, starting_with: Callable[[Sequence[Answer]], Sequence[Answer]]) -> Follower:
        """`starting_with` selects from the remembered answers."""
        if len(self._here) >= self._settings.max_followers:
            raise ProblemError(TOO_MANY, f"{self._settings.max_followers} clients follow answers, and not more at once")
        follower = Follower(query, self._settings.follower_queue, self.why_ended, self._here.discard)
        self._here.add(follower)
        try:
            await follower.begin(starting_with)
        except BaseException:
            follower.leave()
            raise
        return follower

    async def why_ended(self, query: Query) -> str | None:
        """Why no more answers of a query will come; None if they may."""
        if self._is_closing:
            return "the server stops"
        if self._session.queries.get(query.name) is not query:
            return "the query was dropped, or its lifetime is over"
        if query.failure is not None:
            return str(query.failure)
        state = await self._looked_at()
        if state.name == FAILED:
            return f"the engine has stopped: {state.error}"
        return {ENDED: "the streams have ended", CLOSED: "the session is closed"}.get(state.name)

    async def _looked_at(self) -> SessionState:
        """The state of the session, read once a second whatever the number of clients."""
        if self._state is None or time.monotonic() - self._looked >= _LOOK_SECONDS:
            self._looked = time.monotonic()
            self._state = await run_in_threadpool(self._session.state)
        return self._state

    def close(self) -> None:
        """End all streams of answers with an `end` event. From any thread."""
        self._is_closing = True
        for follower in list(self._here):
            follower.wake()


class Follower:
    """One client. The event loop makes, follows and ends it; any thread may call `take` and `wake`."""

    def __init__(
        self,
        query: Query,
        queue: int,
        why_ended: Callable[[Query], Awaitable[str | None]],
        left: Callable[[Follower], None],
    ) -> None:
        self._query = query
        self._queue = queue
        self._why_ended = why_ended
        self._left = left
        self._line: deque[Answer] = deque()
        self._missed = 0
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._subscription = query.subscribe(self.take)

    async def begin(self, starting_with: Callable[[Sequence[Answer]], Sequence[Answer]]) -> None:
        """Send remembered answers first. An answer that comes at this moment may be among them: it is sent once."""
        remembered = await run_in_threadpool(self._query.answers)
        known = {id(answer) for answer in remembered}
        with self._lock:
            self._line = deque([*starting_with(remembered), *(each for each in self._line if id(each) not in known)])

    def take(self, answer: Answer) -> None:
        with self._lock:
            if len(self._line) >= self._queue:
                self._line.popleft()
                self._missed += 1
            self._line.append(answer)
        self.wake()

    def wake(self) -> None:
        # The server's loop may have ended before the stream.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)

    async def happenings(self) -> AsyncIterator[Happening]:
        """The events for the client, until the end."""
        told = time.monotonic()
        while True:
            # Read before the queue is emptied: answers that came by then are still sent.
            reason = await self._why_ended(self._query)
            for each in self._happened():
                yield each
                told = time.monotonic()
            if reason is not None:
                yield End(reason)
                return
            if time.monotonic() - told >= _BEAT_SECONDS:
                yield Beat()
                told = time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), _LOOK_SECONDS)
            self._woken.clear()

    def _happened(self) -> list[Happening]:
        with self._lock:
            line, missed = list(self._line), self._missed
            self._line.clear()
            self._missed = 0
        return [*([Gap(missed)] if missed else []), *line]

    def leave(self) -> None:
        self._subscription.cancel()
        self._left(self)
