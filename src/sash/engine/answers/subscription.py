"""What `query.subscribe` returns: the way to leave."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Subscription:
    """Cancelled by hand, or by the end of a `with`.

    >>> with Subscription(lambda: print("left")) as subscription:
    ...     print("here")
    here
    left
    >>> subscription.cancel()
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """No answer comes any more, but for one that is on its way; what waits in a queue is let go."""
        with self._lock:
            leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()
