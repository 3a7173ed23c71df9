"""One window of a synopsis, as of a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sash.core.time import Micros
from sash.core.window import Window
from sash.storage.keys import KeyDictionary
from sash.synopses.accumulator import Accumulator
from sash.synopses.partials import Partial


@dataclass(frozen=True)
class WindowView:
    """The groups of one window.

    `later` folds only the panes that start at or after a time, for readers of partials that came later.
    """

    window: Window
    empty: bool
    accumulator: Accumulator
    keys: KeyDictionary
    oldest: Micros
    since: Mapping[Partial, Micros | None]
    later: Callable[[Micros], Accumulator]

    def accumulator_for(self, partials: Iterable[Partial]) -> Accumulator:
        """What to read so that all these partials speak of the same tuples."""
        starts = [start for partial in partials if (start := self.since[partial]) is not None]
        since = max(starts, default=self.oldest)
        return self.accumulator if since <= self.oldest else self.later(since)
