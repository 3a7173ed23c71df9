"""The global scheduler: how the local schedulers divide the time (thesis, section 8.4.2: a weighted share each).

Start-time fair queueing. Each name has a clock that its executions move on by cost / weight; of the names that have
something to do, the one whose clock is furthest behind is next. A name that comes back from idleness starts at the
clock of the last one chosen: it gets no credit for time that it did not want.

Card: choose O(names), charge O(1). Two names that stay backlogged differ in used / weight by at most one execution's
cost / weight. Goyal, Vin and Cheng: Start-time fair queuing, SIGCOMM 1996.
"""

from __future__ import annotations

from collections.abc import Iterable


class SharedTime:
    """Chooses whose turn it is.

    >>> shares = SharedTime()
    >>> shares.set_weight("a", 2)
    >>> for _ in range(6):
    ...     chosen = shares.choose(["a", "b"])
    ...     shares.charge(chosen, 1)
    ...     print(chosen, end=" ")
    a b a a b a
    """

    def __init__(self) -> None:
        self._weights: dict[str, float] = {}
        self._clocks: dict[str, float] = {}
        self._backlogged: set[str] = set()
        self._reached = 0.0

    def set_weight(self, name: str, weight: float) -> None:
        """Weights count relative to each other; a name without one has 1."""
        if not weight > 0:
            raise ValueError(f"the weight of '{name}' must be positive, got {weight}")
        self._weights[name] = weight

    def forget(self, name: str) -> None:
        self._weights.pop(name, None)
        self._clocks.pop(name, None)
        self._backlogged.discard(name)

    def choose(self, backlogged: Iterable[str]) -> str:
        """The next of the names that have something to execute; it is an error to ask when there is none."""
        names = set(backlogged)
        if not names:
            raise ValueError("the choice is empty: nobody has anything to execute")
        for name in names - self._backlogged:
            self._clocks[name] = max(self._clocks.get(name, 0.0), self._reached)
        self._backlogged = names
        chosen = min(names, key=lambda name: (self._clocks[name], name))
        self._reached = self._clocks[chosen]
        return chosen

    def charge(self, name: str, cost: float) -> None:
        """An execution took this long, in the unit of all charges."""
        clock = self._clocks.get(name, self._reached)
        self._clocks[name] = clock + cost / self._weights.get(name, 1.0)
