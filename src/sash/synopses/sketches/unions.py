"""One running union per group while a scan goes from pane to pane.

    rows of panes    (group, sketch's bytes or None), the youngest pane first
    bytes            a group's first sketch stays as it came: only a second one makes a union of it
    open             the unions, each of which takes in every pane's sketch once
    stale            groups whose union has changed since it was last serialised

so that windows cost one merge per pane and group together, and one serialisation per window for the groups that have
changed since the window before; groups that have not share the same bytes.
"""

from __future__ import annotations

import numpy as np

from sash.storage.keys import Codes
from sash.storage.ring import Column
from sash.synopses.sketches.base import Sketch


class Unions:
    """Needs: sketches of one kind. Time: a merge per row. Space: a sketch per group."""

    def __init__(self, kind: type[Sketch], groups: int) -> None:
        self._kind = kind
        self._bytes: Column = np.full(groups, None, dtype=np.object_)
        self._open: dict[int, Sketch] = {}
        self._stale: set[int] = set()

    def add(self, codes: Codes, sketches: Column) -> None:
        """Take in each row's sketch; None is no sketch."""
        for code, data in zip(codes.tolist(), sketches.tolist(), strict=True):
            if data is None:
                continue
            if code not in self._open:
                if self._bytes[code] is None:
                    self._bytes[code] = data
                    continue
                self._open[code] = self._kind.from_bytes(self._bytes[code])
            self._open[code].merge(data)
            self._stale.add(code)

    def values(self) -> Column:
        """The groups' sketches now: an array of its own, whose entries may be shared."""
        for code in self._stale:
            self._bytes[code] = self._open[code].to_bytes()
        self._stale.clear()
        return self._bytes.copy()
