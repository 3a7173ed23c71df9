"""Questions that can be stopped: by a call of `Cancellation.cancel`, or by a time-out.

No thread is interrupted. The thread of the question calls `check` now and then, which raises after a cancellation. Work
elsewhere (Spark's jobs, say) is stopped by the actions of `calling`, which run in the thread that cancels.

    the question's thread      check ─── check ─── check: raises
    another, or a timer                     cancel ─┴─► the actions of `calling`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sash.core.errors import QuestionCancelledError, QuestionStoppedError, QuestionTimedOutError


class Cancellation:
    """Belongs to one question; any thread may call `cancel`.

    >>> cancellation = Cancellation()
    >>> cancellation.cancel()
    >>> cancellation.check()
    Traceback (most recent call last):
    sash.core.errors.QuestionCancelledError: the question was cancelled
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._why: QuestionStoppedError | None = None
        self._actions: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """End the question soon, without an answer. Nothing happens if it has ended, or is cancelled already."""
        self._stop(QuestionCancelledError("the question was cancelled"))

    @property
    def why(self) -> QuestionStoppedError | None:
        """None while the question may go on."""
        return self._why

    def check(self) -> None:
        """Raise the reason if the question is to stop."""
        if self._why is not None:
            raise self._why

    @contextmanager
    def calling(self, action: Callable[[], None]) -> Iterator[None]:
        """Inside, a cancellation calls `action`; at once, if the question is cancelled already."""
        with self._lock:
            self._actions.append(action)
            late = self._why is not None
        try:
            if late:
                action()
            yield
        finally:
            with self._lock:
                self._actions.remove(action)

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Cancel what runs inside after some seconds."""
        if seconds is None:
            yield
            return
        told = f"the question was not answered within {seconds:g} s; allow more time, or ask about less"
        timer = threading.Timer(seconds, self._stop, [QuestionTimedOutError(told)])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _stop(self, why: QuestionStoppedError) -> None:
        with self._lock:
            if self._why is not None:
                return
            self._why, actions = why, list(self._actions)
        for action in actions:
            action()


# The cancellation of the question that this thread works for: the layers in between need not pass it on.
QUESTION: ContextVar[Cancellation | None] = ContextVar("sash_question", default=None)


def check_question() -> None:
    """Raise if this thread's question is to stop."""
    question = QUESTION.get()
    if question is not None:
        question.check()
