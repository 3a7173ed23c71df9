"""Join values of n inputs as numbers: equal numbers mean equal values, within one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.operators.keys import NO_KEY, Codes, dense_codes, is_whole, whole


def join_values(
    tables: Sequence[pa.Table], names: Sequence[Sequence[str]]
) -> tuple[list[Codes], list[NDArray[np.bool_]]]:
    """The numbers, and which rows have a value at all: NULL equals nothing. `names` has each table's columns.

    >>> tables = [pa.table({"a": [7, 8]}), pa.table({"b": [8]})]
    >>> join_values(tables, [["a"], ["b"]])[0]
    [array([7, 8]), array([8])]
    """
    columns = [table[own[0]] for table, own in zip(tables, names, strict=True)]
    if len(names[0]) == 1 and all(is_whole(column.type) and not column.null_count for column in columns):
        numbers = [whole(column) for column in columns]
        return numbers, [np.ones(len(codes), dtype=np.bool_) for codes in numbers]
    dense = dense_codes(tables, names, null_safe=False)
    return dense, [codes != NO_KEY for codes in dense]
