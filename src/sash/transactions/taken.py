"""Reads in two steps: take what is needed of a window in a moment, then compute with it while the window slides.

    version    4 ───────── 5 ──────────────────────
    slides                 [slide]
    read 1     [take][ compute ]                        ws: as of its start
    read 2     [take][ compute ][take][ compute ]       lws, ttu: as of its end, so once more

What is taken must stay as it is whatever slides do: copies, or arrays that are replaced and never changed. There are no
sub-windows to choose from, since all of them are taken at once; so a slide is in conflict with every read under `lws`
and `ttu`, which differ in nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")
Computed = TypeVar("Computed", covariant=True)


class Taken(Protocol[Computed]):
    """What was taken of a window, under its lock."""

    def compute(self) -> Computed:
        """The answer, without a lock; what it raises is an answer, too."""

    def is_latest(self) -> bool:
        """The window has not changed since. Asked without a lock: who compares numbers that only grow may answer."""


# None: there is nothing to be taken at this moment.
Take = Callable[[], Taken[Result] | None]
