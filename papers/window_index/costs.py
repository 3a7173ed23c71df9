"""What windows and indexes cost per tuple, in steps, as the report counts them (3.3, 5.6 and section 6).

    N, D   tuples and distinct values in the window
    b, d   tuples and distinct values in a sub-window
    h, g   hash buckets, groups

Worst cases without constants: good for comparing methods with each other and for seeing what a parameter does. The
text defines b as the number of sub-windows in 6.1; its formulas need tuples per sub-window, as everywhere else.
"""

from __future__ import annotations

from fractions import Fraction
from math import log2

Cost = Fraction | float


def insertion(storage: str, d: int, h: int, g: int) -> Fraction:
    """Adding a tuple to a sub-window.

    >>> insertion("hash", d=10, h=4, g=5)
    Fraction(5, 2)
    """
    return {"list": Fraction(1), "aggr": Fraction(d), "hash": Fraction(d, h), "group": Fraction(g)}[storage]


def space(storage: str, b: int, d: int, h: int, g: int) -> int:
    """Entries of a sub-window."""
    return {"list": b, "aggr": d, "hash": d + h, "group": g}[storage]


def search(directory: str, D: int, h: int) -> Cost:  # noqa: N803
    """Finding a value in a directory."""
    if directory == "tree":
        return log2(D)
    return Fraction(D) if directory == "list" else Fraction(D, h)


def set_index(storage: str, directory: str, b: int, d: int, D: int, h: int) -> Cost:  # noqa: N803
    """Keeping a set-valued index (table 1): LIST searches once per tuple, the others once per distinct value.

    >>> set_index("aggr", "tree", b=1024, d=512, D=4096, h=64)
    518.0
    """
    if storage == "list":
        return search(directory, D, h)
    return insertion(storage, d, h, 0) + Fraction(d, b) * search(directory, D, h)


def row_index(method: str, N: int, D: int, b: int, d: int) -> Fraction:  # noqa: N803
    """Keeping an attribute-valued index over a list: insertion and deletion; DB deletes in a constant that is left out.

    >>> row_index("bw", N=4096, D=64, b=256, d=32)
    Fraction(449, 8)
    """
    ring = Fraction(N, D)
    if method == "ring":
        return D + 2 * ring + Fraction(D, b)
    inserting = d + Fraction(d, b) * (1 + D + ring)
    return inserting + {"aux": ring, "bw": Fraction(d, b) * ring, "db": Fraction(0)}[method]


def delay(span: int, lateness: int, oldest: bool = False) -> tuple[int, int]:
    """From a tuple's arrival to the answer that has it: at least and at most.

    The report's lower bound, span + lateness, holds for the oldest tuple of a sub-window; the youngest may wait for
    late ones only.

    >>> delay(10, 2), delay(10, 2, oldest=True)
    ((2, 22), (12, 22))
    """
    return (span + lateness if oldest else lateness), 2 * span + lateness
