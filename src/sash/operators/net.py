"""The net effect of each instant: what is taken back and given again, with the same expiry, has not changed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sash.core.changes import Changes
from sash.operators.keys import dense_codes


def net(changes: Changes) -> Changes:
    """Changes without pairs that cancel each other."""
    if not (changes.sign < 0).any():
        return changes
    doubtful = np.flatnonzero(
        np.isin(changes.ts, np.intersect1d(changes.ts[changes.sign < 0], changes.ts[changes.sign > 0]))
    )
    if not len(doubtful):
        return changes
    some = changes.take(doubtful)
    rows = some.rows.append_column("_ts", pa.array(some.ts)).append_column("_exp", pa.array(some.exp))
    (codes,) = dense_codes([rows], [rows.schema.names], null_safe=True)
    order = np.lexsort((some.sign, codes))
    starts = np.searchsorted(codes[order], codes[order])
    rank = np.arange(len(order)) - starts
    negatives = np.bincount(codes, weights=some.sign < 0, minlength=len(codes)).astype(np.int64)[codes[order]]
    sizes = np.bincount(codes, minlength=len(codes))[codes[order]]
    pairs = np.minimum(negatives, sizes - negatives)
    # Of a row's changes the negative ones come first: `pairs` of them go, and as many of the positive ones.
    cancelled = (rank < pairs) | ((rank >= negatives) & (rank < negatives + pairs))
    keep = np.ones(len(changes), dtype=np.bool_)
    keep[doubtful[order[cancelled]]] = False
    return changes.where(keep)
