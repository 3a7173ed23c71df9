"""Tables for windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def of_values(values: Sequence[Any], type: pa.DataType | None = None) -> pa.Table:
    """One column, `value`."""
    return pa.table({"value": pa.array(values, type or pa.int64())})
