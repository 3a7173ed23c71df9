"""Work that somebody waits for can be told to stop: by whoever holds its `Cancellation`, or when its time is over.

Nothing is torn out of the hands of a thread. The one that works looks now and then whether it is to stop (`check`);
what works for it elsewhere is told (`calling`), in the thread that cancels.

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
    """Whoever asks passes it on with one question, and any thread may call `cancel`.

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
        """The question ends soon, without an answer. Nothing happens if it has ended, or was told before."""
        self._stop(QuestionCancelledError("the question was cancelled"))

    @property
    def why(self) -> QuestionStoppedError | None:
        """None while the question may go on."""
        return self._why

    def check(self) -> None:
        """Raise why the question is to stop, if it is."""
        if self._why is not None:
            raise self._why

    @contextmanager
    def calling(self, action: Callable[[], None]) -> Iterator[None]:
        """Inside, `action` is called when the question is told to stop; it is if that has happened already."""
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
        """What goes on inside is told to stop after so many seconds."""
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


# The question that this thread works for; who asks says it, and no layer between has to know.
QUESTION: ContextVar[Cancellation | None] = ContextVar("sash_question", default=None)


def check_question() -> None:
    """Raise if the question that this thread works for is to stop."""
    question = QUESTION.get()
    if question is not None:
        question.check()
