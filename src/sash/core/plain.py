"""Values in JSON's form."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

# Programs that read numbers as doubles (JavaScript) would read greater numbers wrongly.
SAFE_INTEGER = 2**53 - 1


def plain(value: Any, safe_integers: bool = False) -> Any:
    """Times in ISO 8601, decimals and NaN as strings, bytes in base 64.

    With `safe_integers`, whole numbers that a double cannot hold are strings, too.

    >>> plain({"a": Decimal("1.10"), "b": float("nan"), "c": b"x"})
    {'a': '1.10', 'b': 'NaN', 'c': 'eA=='}
    >>> plain([2**53 - 1, 2**53], safe_integers=True)
    [9007199254740991, '9007199254740992']
    """
    match value:
        case dict():
            return {str(key): plain(item, safe_integers) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item, safe_integers) for item in value]
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case bool():
            return value
        case int() if safe_integers and abs(value) > SAFE_INTEGER:
            return str(value)
        case None | int() | float() | str():
            return value
        case _:
            return str(value)
