"""The slow, obvious way to sessions: from the tuples of a group, in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from sash.catalog import Stream
from sash.core.time import SECOND
from tests.support.oracle import duck, recompute

FORMS = [
    ("SELECT {e}k, SUM(v) AS total, COUNT(*) AS n FROM s {w} GROUP BY k", "k", "TRUE"),
    ("SELECT {e}COUNT(*) AS n, COUNT(v) AS nv, SUM(w) AS total, AVG(v) AS mean FROM s {w}", "", "TRUE"),
    ("SELECT {e}g, MAX(v) AS hi, MIN(x) AS lo FROM s {w} WHERE v > 10 GROUP BY g", "g", "v > 10"),
    ("SELECT {e}MAX(g) AS last, MIN(g) AS first FROM s {w} WHERE k = 1 OR k IS NULL", "", "k = 1 OR k IS NULL"),
    ("SELECT {e}k, g, AVG(x) AS mean, STDDEV(v) AS spread FROM s {w} GROUP BY k, g", "k, g", "TRUE"),
    ("SELECT {e}k, MAX(v) - MIN(v) AS span FROM s {w} GROUP BY k HAVING COUNT(*) > 1", "k", "TRUE"),
    ("SELECT {e}v % 3 AS r, SUM(v + 1) AS t FROM s {w} WHERE v IS NOT NULL GROUP BY v % 3", "v % 3", "v IS NOT NULL"),
    ("SELECT {e}k, SUM(v) FILTER (WHERE g = 'a') AS t FROM s {w} GROUP BY k", "k", "TRUE"),
]


@dataclass(frozen=True)
class Sessions:
    """A query for sessions, in seconds; `form` is one of FORMS."""

    form: int
    gap: int
    most: int
    slide: int

    @property
    def clause(self) -> str:
        return f"[SESSION GAP {self.gap} sec MAX {self.most} sec SLIDE {self.slide} sec]"

    @property
    def text(self) -> str:
        return FORMS[self.form][0].format(w=self.clause, e="window_start() AS start, window_end() AS end, ")

    def told(self, tuples: pa.Table, declared: Stream, after: int = 0, until: int = 2**60) -> list[dict[str, Any]]:
        """The rows of the sessions of some tuples that are final after a time, and not after another one."""
        form, keys, where = FORMS[self.form]
        connection = duck()
        connection.register("all_tuples", tuples)
        kept = connection.sql(f"SELECT *, ({keys or '0'}) AS _key FROM all_tuples WHERE {where}").to_arrow_table()
        rows = sorted(zip(map(str, kept["_key"].to_pylist()), kept["_us"].to_pylist(), range(len(kept)), strict=True))
        found = list[dict[str, Any]]()
        for _, group in groupby(rows, key=lambda row: row[0]):
            mine = [(us, place) for _, us, place in group]
            for final, start, end, places in sessions_of(mine, *self.micros, declared.offset, declared.closed_left):
                if not after < final <= until:
                    continue
                subset = kept.take(pa.array(places)).drop_columns(["_key"])
                made = f"make_timestamptz({start}) AS start, make_timestamptz({end}) AS end, "
                text = form.format(w="[]", e=made)
                found += recompute(text, subset, 2**60, 2**61)
        return found

    @property
    def micros(self) -> tuple[int, int]:
        return self.gap * SECOND, self.most * SECOND


def sessions_of(
    tuples: Sequence[tuple[int, int]], gap: int, most: int, offset: int = 0, closed_left: bool = False
) -> Iterable[tuple[int, int, int, list[int]]]:
    """When each session is final, its window, and the places of its tuples, which are pairs of a time and a place."""
    runs: list[list[tuple[int, int]]] = []
    for us, place in sorted(tuples):
        if not runs or us > runs[-1][-1][0] + gap:
            runs.append([])
        runs[-1].append((us, place))
    for run in runs:
        first, last = run[0][0], run[-1][0]
        if last + gap - first <= most:
            yield last + gap + closed_left, first, last + gap, [place for _, place in run]
            continue
        for number, (cut, part) in enumerate(groupby(run, key=lambda row: _cut(row[0], most, offset, closed_left))):
            mine = list(part)
            end = min(mine[-1][0] + gap, cut)
            # A tuple at the end itself may come later, and join, where windows have their starts.
            final = end if end == cut else end + closed_left
            yield (
                final if number else max(final, first + most + closed_left),
                mine[0][0],
                end,
                [place for _, place in mine],
            )


def _cut(us: int, most: int, offset: int, closed_left: bool) -> int:
    """The multiple of the maximum at which a session of this tuple is cut at the latest."""
    cells = (us - offset) // most + 1 if closed_left else -((offset - us) // most)
    return cells * most + offset
