"""How many tasks work on each bucket of a plan: buckets that gave far more results than others are divided.

What is divided is the finding of results, not the state (operators/share), so it may change from epoch to epoch and
nobody has to remember it: a replayed epoch gives the same changes, however it is divided.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

# A bucket of fewer results than this is not divided: what every share does again, the exchange of the bucket's tuples
# and the reading of its state, would cost more.
LEAST_RESULTS = 100_000
# A bucket is divided when it has so many times what a core should do.
_HOT = 1.5


class Shares:
    """Remembers what buckets gave; `stages` has, for each stage, how many buckets it has and whether it is divisible.

    Where several streams take turns many an epoch gives nothing, so what was given before fades, by half in an epoch.

    >>> shares = Shares([(2, True), (2, False)], cores=4, least=100)
    >>> shares.saw([(0, 900), (1, 100), (2, 1_000), (3, 0)])
    >>> shares.now()
    {0: 4}
    """

    def __init__(self, stages: Sequence[tuple[int, bool]], cores: int, least: int = LEAST_RESULTS) -> None:
        self._stages = stages
        self._cores = cores
        self._least = least
        self._results: dict[int, float] = {}

    def saw(self, results: Iterable[tuple[int, int]]) -> None:
        """Of one epoch, how many results each bucket gave; a divided one by its shares."""
        latest = Counter[int]()
        for bucket, number in results:
            latest[bucket] += number
        self._results = {bucket: max(number, self._results.get(bucket, 0) / 2) for bucket, number in latest.items()}

    def now(self) -> dict[int, int]:
        """The divided buckets, numbered through, with how many shares each has."""
        found, first = dict[int, int](), 0
        for number, divisible in self._stages:
            buckets = range(first, first + number)
            first += number
            if divisible:
                found |= self._divided({bucket: self._results.get(bucket, 0) for bucket in buckets})
        return found

    def _divided(self, results: Mapping[int, float]) -> dict[int, int]:
        fair = sum(results.values()) / self._cores
        hot = {bucket for bucket, number in results.items() if number > max(self._least, _HOT * fair)}
        return {bucket: min(self._cores, math.ceil(results[bucket] / fair)) for bucket in sorted(hot)}
