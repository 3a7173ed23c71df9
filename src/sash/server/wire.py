"""Tables on their way out: as JSON for people and browsers, as an Arrow IPC stream for programs.

JSON has fewer types than a table. A value that JSON cannot hold exactly is a string:

    whole numbers beyond 2**53 - 1, decimals        "9007199254740993", "1.10"
    NaN, Infinity, -Infinity                        the same words
    times, dates                                    ISO 8601, times in UTC: "2026-01-01T00:00:05+00:00"
    binary                                          base 64
    lists, structs; maps                            arrays, objects; arrays of [key, value]

`columns` has SQL's types. Of columns with one name, the second gets a `_2`. Arrow keeps everything unchanged; the
schema's metadata has the time of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sash.core.plain import SAFE_INTEGER, plain
from sash.sql.types import spark_name

JSON, ARROW, EVENTS = "application/json", "application/vnd.apache.arrow.stream", "text/event-stream"


def accepted(accept: str | None, offered: Sequence[str]) -> str | None:
    """The best of the types offered for an Accept header; the first without a preference, None if none fits.

    >>> accepted("text/html, application/json;q=0.5", (JSON, ARROW))
    'application/json'
    >>> accepted("image/png", (JSON, ARROW)) is None
    True
    """
    wanted = list(_ranges(accept or "*/*"))
    best = max(offered, key=lambda each: (_quality(each, wanted), -offered.index(each)))
    return best if _quality(best, wanted) > 0 else None


def _ranges(accept: str) -> Iterable[tuple[str, float]]:
    for part in accept.split(","):
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        try:
            yield name, float(quality)
        except ValueError:
            yield name, 0.0


def _quality(offered: str, wanted: Sequence[tuple[str, float]]) -> float:
    """The quality by the most specific range."""
    kind = offered.partition("/")[0] + "/*"
    for name in (offered, kind, "*/*"):
        found = [quality for each, quality in wanted if each == name]
        if found:
            return max(found)
    return 0.0


def described(schema: pa.Schema) -> list[dict[str, str]]:
    """The columns with their types."""
    return [
        {"name": name, "type": _type_name(field.type)}
        for name, field in zip(_told_apart(schema.names), schema, strict=True)
    ]


def _type_name(type: pa.DataType) -> str:
    try:
        return spark_name(type)
    except (KeyError, ValueError, TypeError):
        return str(type)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in JSON's form.

    >>> rows_of(pa.table({"n": [1, 2**60], "x": [0.5, float("nan")]}))
    [{'n': 1, 'x': 0.5}, {'n': '1152921504606846976', 'x': 'NaN'}]
    """
    names = _told_apart(table.column_names)
    if not names:
        return [{} for _ in range(table.num_rows)]
    columns = [_values(column) for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values if _is_plain(column) else [plain(value, safe_integers=True) for value in values]


def _is_plain(column: pa.ChunkedArray) -> bool:
    """Whether JSON has all these values unchanged: checking a column is much faster than checking each value."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return True
    if pa.types.is_integer(kind):
        ends = pc.min_max(column).as_py()
        return all(end is None or abs(end) <= SAFE_INTEGER for end in ends.values())
    if pa.types.is_floating(kind):
        return pc.all(pc.is_finite(column), skip_nulls=True).as_py() is not False
    return False


def _told_apart(names: Sequence[str]) -> list[str]:
    """
    >>> _told_apart(["k", "k", "k_2"])
    ['k', 'k_3', 'k_2']
    """
    told: list[str] = []
    for place, name in enumerate(names):
        number, new = 2, name
        while new in told or (new != name and new in names[place + 1 :]):
            new, number = f"{name}_{number}", number + 1
        told.append(new)
    return told


def cut(table: pa.Table, most: int) -> tuple[pa.Table, bool]:
    """At most `most` rows, and whether some were cut."""
    return table.slice(0, most), table.num_rows > most
