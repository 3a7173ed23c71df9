"""Changes: the currency between continuous operators.

A change says that a row joins an answer (sign +1) or leaves it before its time (sign -1), at an instant `ts`. A row
that joins with an `exp` leaves by itself at that instant; `NEVER` means that the end is not known yet. All instants are
microseconds. A row is in the answer at t when ts <= t < exp and nothing has taken it back by t.

`ids` identify a row: one number per base tuple that the row was made of. A negative change has the ids of the row that
it takes back, so operators find that row without comparing rows. Where no operator above needs ids, there are none.

An update pattern says in which order the results of a plan appear and disappear (thesis 3.2.1):

MONOTONIC   results never expire
WEAKEST     every result lives equally long: first in, first out
WEAK        a result's expiry is known when it appears, but lifetimes differ
STRICT      some results end at times that only later tuples decide: negative tuples announce them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass
class EmptyOnce:
    """An empty relation answers once, also as its first answer. Then it rests until rows come.

    >>> relation = EmptyOnce()
    >>> [relation.tells(rows) for rows in (0, 0, 3, 0, 0)]
    [True, False, True, True, False]
    """

    rests: bool = False

    def tells(self, rows: int) -> bool:
        """Whether an answer with this many rows is given."""
        told = rows > 0 or not self.rests
        self.rests = rows == 0
        return told


class UpdatePattern(IntEnum):
    """Ordered from the simplest to the most complex: the pattern of several inputs is their greatest."""

    MONOTONIC = 0
    WEAKEST = 1
    WEAK = 2
    STRICT = 3

    @property
    def label(self) -> str:
        """The name in the thesis and in EXPLAIN."""
        return ("MON", "WKS", "WK", "STR")[self]


NEVER = int(np.iinfo(np.int64).max)
# The columns that a change stream has besides those of the query.
TS, EXP, SIGN = "_ts", "_exp", "_sign"
# The column with the time of a row's answer, where rows of several answers are together.
AS_OF = "as_of"
INSTANT = pa.timestamp("us", "UTC")


def with_instants(schema: pa.Schema, *names: str) -> pa.Schema:
    """Add columns of instants, unless there are columns with these names.

    >>> with_instants(pa.schema([("n", pa.int64())]), "as_of").names
    ['n', 'as_of']
    """
    missing = [name for name in names if name not in schema.names]
    return pa.schema([*schema, *(pa.field(name, INSTANT) for name in missing)])


@dataclass(frozen=True)
class Changes:
    """Columnar; in order of `ts`, and at one instant negative changes come first."""

    rows: pa.Table
    ts: NDArray[np.int64]
    exp: NDArray[np.int64]
    sign: NDArray[np.int8]
    ids: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ts)

    @classmethod
    def none(cls, schema: pa.Schema, width: int = 0) -> Changes:
        zero = np.zeros(0, dtype=np.int64)
        return cls(schema.empty_table(), zero, zero, zero.astype(np.int8), np.zeros((0, width), dtype=np.int64))

    def take(self, places: NDArray[np.int64]) -> Changes:
        rows = self.rows.take(pa.array(places))
        return Changes(rows, self.ts[places], self.exp[places], self.sign[places], self.ids[places])

    def where(self, wanted: NDArray[np.bool_]) -> Changes:
        return self if wanted.all() else self.take(np.flatnonzero(wanted))

    def with_rows(self, rows: pa.Table) -> Changes:
        return replace(self, rows=rows)

    def nameless(self) -> Changes:
        """The changes without ids, for operators that do not need them."""
        return replace(self, ids=np.zeros((len(self), 0), dtype=np.int64))

    def in_order(self) -> Changes:
        """By instant, negative changes first; equal ones keep their order."""
        if len(self) < 2 or _is_ordered(self.ts, self.sign):
            return self
        return self.take(np.lexsort((self.sign, self.ts)))

    def to_table(self) -> pa.Table:
        """The change stream in the form for users."""
        exp = pa.array(self.exp, mask=self.exp == NEVER).cast(INSTANT)
        table = self.rows.append_column(TS, pa.array(self.ts).cast(INSTANT))
        return table.append_column(EXP, exp).append_column(SIGN, pa.array(self.sign))


def together(parts: Iterable[Changes]) -> Changes:
    """All changes of several batches, in order."""
    first, *others = parts
    found = [part for part in (first, *others) if len(part)]
    if len(found) < 2:
        return found[0] if found else first
    return Changes(
        pa.concat_tables([part.rows for part in found]),
        np.concatenate([part.ts for part in found]),
        np.concatenate([part.exp for part in found]),
        np.concatenate([part.sign for part in found]),
        np.concatenate([part.ids for part in found]),
    ).in_order()


def _is_ordered(ts: NDArray[np.int64], sign: NDArray[np.int8]) -> bool:
    later, same = ts[1:] > ts[:-1], ts[1:] == ts[:-1]
    return bool((later | (same & (sign[1:] >= sign[:-1]))).all())
