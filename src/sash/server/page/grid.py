"""Rows of Arrow tables as a table of the page shows them."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sash.sql.roles import is_number

# Beyond this a browser's numbers are not exact any more.
_EXACT = 2**53


def table_columns(schema: pa.Schema) -> list[dict[str, Any]]:
    """Numbers to the right, in the order of the schema."""
    return [
        {
            "name": field.name,
            "label": field.name,
            "field": field.name,
            "align": "right" if is_number(field.type) else "left",
            "sortable": True,
        }
        for field in schema
    ]


def shown_rows(table: pa.Table, most: int) -> list[dict[str, Any]]:
    return [{name: shown_value(value) for name, value in row.items()} for row in table.slice(0, most).to_pylist()]


def shown_value(value: Any) -> Any:
    """A value that JSON can carry.

    >>> shown_value(Decimal("1.50")), shown_value(float("nan")), shown_value(2**60), shown_value(b"ab")
    (1.5, 'NaN', '1152921504606846976', '6162')
    """
    match value:
        case bool() | str() | None:
            return value
        case int():
            return value if abs(value) < _EXACT else str(value)
        case float():
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        case Decimal():
            return shown_value(float(value))
        case datetime():
            return value.isoformat(sep=" ")
        case bytes():
            return value.hex()
    return str(value)
