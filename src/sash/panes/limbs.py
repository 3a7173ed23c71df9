"""Exact sums of wide integers in int64 arrays.

A BIGINT's or a DECIMAL's sum over a window may need more than 64 bits while it is being added up. Each
number is therefore cut into limbs of 32 bits, least significant first, the last one signed:

    int64     v = limb[0] + limb[1] * 2^32
    decimal   v = limb[0] + limb[1] * 2^32 + limb[2] * 2^64 + limb[3] * 2^96     (v: the unscaled value)

Limbs add independently without overflow for 2^31 terms; the carry is done once, when an answer is made.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_MASK = np.int64(0xFFFFFFFF)
_HALF = np.int64(1) << np.int64(31)


def carry(limbs: list[Ints]) -> list[Ints]:
    """The same numbers with every limb but the last in [0, 2^32)."""
    done: list[Ints] = []
    over = np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        total = limb + over
        done.append(total & _MASK)
        over = total >> np.int64(32)
    done.append(limbs[-1] + over)
    return done


def _fits(last: Ints) -> bool:
    return bool(np.all((last >= -_HALF) & (last < _HALF)))


def join_int64(limbs: list[Ints]) -> Ints:
    """The int64 values of two limbs; OverflowError when one does not fit."""
    low, high = carry(limbs)
    if not _fits(high):
        raise OverflowError("the sum does not fit into BIGINT")
    return (high << np.int64(32)) | low


def split_decimal(array: pa.Array) -> list[Ints]:
    """The four limbs of a decimal128 array; nulls count as zero."""
    words = np.frombuffer(array.buffers()[1], dtype=np.uint32)[array.offset * 4 : (array.offset + len(array)) * 4]
    table = words.reshape(-1, 4)
    limbs = [table[:, i].astype(np.int64) for i in range(3)] + [table[:, 3].view(np.int32).astype(np.int64)]
    if array.null_count:
        valid = np.asarray(array.is_valid())
        limbs = [np.where(valid, limb, np.int64(0)) for limb in limbs]
    return limbs


def join_decimal(limbs: list[Ints], type: pa.Decimal128Type, valid: NDArray[np.bool_]) -> pa.Array:
    """A decimal128 array of the carried limbs; OverflowError when a valid value needs more digits than `type` has."""
    done = carry([np.where(valid, limb, np.int64(0)) for limb in limbs])
    if not _fits(done[-1]) or not _has_digits(done, type.precision):
        raise OverflowError(f"the sum does not fit into {type}")
    table = np.empty((len(valid), 4), dtype=np.uint32)
    for i, limb in enumerate(done):
        table[:, i] = (limb & _MASK).astype(np.uint32)
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type, len(valid), [mask, pa.py_buffer(table.tobytes())])


def _has_digits(limbs: list[Ints], precision: int) -> bool:
    """Whether |value| < 10^precision everywhere. Nearly all values fit into an int64; the others are few."""
    low = (limbs[1] << np.int64(32)) | limbs[0]
    sign = low >> np.int64(63)
    wide = (limbs[2] != (sign & _MASK)) | (limbs[3] != sign)
    bound = 10**precision
    if bound < 2**63 and np.any(~wide & ((low >= bound) | (low <= -bound))):
        return False
    return all(
        abs(sum(int(limb[row]) << (32 * i) for i, limb in enumerate(limbs))) < bound for row in np.flatnonzero(wide)
    )
