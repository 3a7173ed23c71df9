"""A registered query as its user holds it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sash.core.errors import CatalogError, SashError
from sash.engine.answer import Answer

if TYPE_CHECKING:
    from sash.engine.session import Session

logger = logging.getLogger("sash.engine")


class AnswerMemory:
    """Bounds what all queries together remember: the oldest answers go first, each query's latest one stays."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._order: deque[tuple[Query, Answer]] = deque()
        # Answers of queries that were computed together may share a table: it is counted once.
        self._holders: dict[int, int] = {}
        self.forgotten = 0

    def add(self, query: Query, answer: Answer) -> None:
        key = id(answer.table)
        if key not in self._holders:
            self._used += answer.table.nbytes
        self._holders[key] = self._holders.get(key, 0) + 1
        self._order.append((query, answer))
        while self._used > self._limit and len(self._order) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        owner, oldest = self._order.popleft()
        key = id(oldest.table)
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]
            self._used -= oldest.table.nbytes
        self.forgotten += owner._forget(oldest)


class Query:
    """What `register` returns. Safe to use from any thread."""

    def __init__(self, session: Session, name: str, text: str, keep: int) -> None:
        self._session = session
        self.name = name
        self.text = text
        self.error: SashError | None = None
        self._answers: deque[Answer] = deque(maxlen=keep)
        self._subscribers: list[Callable[[Answer], None]] = []
        self.answered = 0
        self.subscriber_errors = 0

    def answers(self) -> list[Answer]:
        """The answers so far, oldest first: the last 1,000 by default."""
        return list(self._answers)

    def latest(self) -> Answer | None:
        """The newest answer, or None before the first."""
        try:
            return self._answers[-1]
        except IndexError:
            return None

    def subscribe(self, callback: Callable[[Answer], None]) -> None:
        """Call back with each answer from now on. After a crash an answer may come again; it is never left out."""
        self._subscribers.append(callback)

    def drop(self) -> None:
        """Unregister the query. It disappears at the next micro-batch; its answers so far stay readable here."""
        if self._session.queries.get(self.name) is not self:
            raise CatalogError(f"query '{self.name}' has been dropped already")
        self._session.drop_query(self.name)

    def _remember(self, answer: Answer) -> None:
        self._answers.append(answer)
        self.answered += 1

    def _forget(self, answer: Answer) -> bool:
        if len(self._answers) > 1 and self._answers[0] is answer:
            self._answers.popleft()
            return True
        return False

    def _deliver(self, answer: Answer) -> None:
        """A subscriber that raises is reported; the others are still served."""
        for callback in list(self._subscribers):
            try:
                callback(answer)
            except Exception:
                self.subscriber_errors += 1
                logger.exception("a subscriber of query %s raised; the others are still served", self.name)

    def __repr__(self) -> str:
        state = f"failed: {self.error}" if self.error else f"{self.answered} answers"
        return f"<Query {self.name}: {state}>"
