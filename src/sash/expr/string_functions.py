"""Functions of strings. Characters are code points; case follows Unicode's full mappings (`ß` becomes `SS`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sash.expr.comparisons import plain


def _cased(
    ascii_case: Callable[[pa.Array], pa.Array], case: Callable[[str], str], type: pa.DataType, value: pa.Array
) -> pa.Array:
    if pc.all(pc.string_is_ascii(value)).as_py() is not False:
        return ascii_case(value)
    return pa.array([None if text is None else case(text) for text in value.to_pylist()], type)


def _substring(type: pa.DataType, value: pa.Array, start: pa.Array, length: pa.Array | None = None) -> pa.Array:
    lengths = [None] * len(value) if length is None else length.to_pylist()
    missing = value.is_null() if length is None else pc.or_(value.is_null(), length.is_null())
    rows = zip(value.to_pylist(), start.to_pylist(), lengths, pc.or_(missing, start.is_null()).to_pylist(), strict=True)
    return pa.array([None if null else _part(text, first, size) for text, first, size, null in rows], type)


def _part(text: str, first: int, size: int | None) -> str:
    """Positions count from 1, negative ones from the end; one before the beginning eats into the length."""
    begin = first - 1 if first > 0 else len(text) + first if first < 0 else 0
    end = len(text) if size is None else begin + size
    return text[max(begin, 0) : max(end, 0)]


def _like(type: pa.DataType, value: pa.Array, pattern: pa.Array) -> pa.Array:
    """The pattern is one constant: the binder sees to it."""
    text = pattern[0].as_py() if len(pattern) else None
    if text is None:
        return pa.nulls(len(value), type)
    matches = re.compile(_regex(text), re.DOTALL).fullmatch
    return pa.array([None if each is None else matches(each) is not None for each in value.to_pylist()], type)


def _regex(pattern: str) -> str:
    found, rest = [], iter(pattern)
    for character in rest:
        if character == "\\":
            character = next(rest, "")
            if character not in ("_", "%", "\\"):
                raise ValueError(f"LIKE '{pattern}': \\ stands before _, % or \\ only")
            found.append(re.escape(character))
        else:
            found.append({"_": ".", "%": ".*"}.get(character) or re.escape(character))
    return "".join(found)


def _by_row(function: Callable[..., object]) -> Callable[..., pa.Array]:
    """A function of Python values, row by row; NULL where an argument is."""

    def compute(type: pa.DataType, *arguments: pa.Array) -> pa.Array:
        rows = zip(*(argument.to_pylist() for argument in arguments), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], type)

    return compute


def _split_part(text: str, delimiter: str, number: int) -> str:
    """Parts count from 1, negative ones from the end; an empty delimiter splits nothing."""
    if number == 0:
        raise ValueError("parts count from 1, or from -1 at the end, not from 0")
    parts = text.split(delimiter) if delimiter else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _concat_ws(type: pa.DataType, between: pa.Array, *parts: pa.Array) -> pa.Array:
    """NULL parts are left out. Arrow's own join loses rows whose parts are all NULL."""
    rows = zip(between.to_pylist(), *(part.to_pylist() for part in parts), strict=True)
    joined = [None if comma is None else comma.join(part for part in row if part is not None) for comma, *row in rows]
    return pa.array(joined, type)


def _replaced(text: str, sought: str, other: str = "") -> str:
    return text.replace(sought, other) if sought else text


def _padded(join: Callable[[str, str], str]) -> Callable[..., pa.Array]:
    """LPAD and RPAD: as long as the given size, cut at the end if the text is longer."""

    def pad(text: str, size: int, filling: str = " ") -> str:
        missing = max(size, 0) - len(text)
        if missing <= 0 or not filling:
            return text[: max(size, 0)]
        return join(text, (filling * (missing // len(filling) + 1))[:missing])

    return _by_row(pad)


def _locate(type: pa.DataType, sought: pa.Array, text: pa.Array, start: pa.Array | None = None) -> pa.Array:
    """Places count from 1; 0 is nowhere, also where the start is NULL."""
    starts = [1] * len(text) if start is None else start.to_pylist()
    rows = zip(sought.to_pylist(), text.to_pylist(), starts, strict=True)
    return pa.array([_place(*row) for row in rows], type)


def _place(sought: str | None, text: str | None, start: int | None) -> int | None:
    if start is None:
        return 0
    if sought is None or text is None:
        return None
    # Java finds the empty text at once, wherever it begins to look.
    return text.find(sought, start - 1 if sought else 0) + 1 if start > 0 else 0


def _substring_index(text: str, delimiter: str, count: int) -> str:
    """What stands before so many delimiters, or behind so many from the end; delimiters may overlap."""
    if not delimiter or not count:
        return ""
    size = len(delimiter)
    place = -1 if count > 0 else len(text)
    for _ in range(abs(count)):
        place = text.find(delimiter, place + 1) if count > 0 else text.rfind(delimiter, 0, max(place - 1 + size, 0))
        if place < 0:
            return text
    return text[:place] if count > 0 else text[place + size :]


def _translated(text: str, sought: str, others: str) -> str:
    """Characters by their place in a list; those without a counterpart are left out."""
    table: dict[int, str | None] = {}
    for place, character in enumerate(sought):
        other = others[place] if place < len(others) else "\0"
        table.setdefault(ord(character), None if other == "\0" else other)
    return text.translate(table)


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "ltrim": plain(partial(pc.utf8_ltrim, characters=" ")),
    "rtrim": plain(partial(pc.utf8_rtrim, characters=" ")),
    "lpad": _padded(lambda text, filling: filling + text),
    "rpad": _padded(lambda text, filling: text + filling),
    "repeat": _by_row(lambda text, times: text * max(times, 0)),
    "instr": _by_row(lambda text, sought: text.find(sought) + 1),
    "locate": _locate,
    "substring_index": _by_row(_substring_index),
    "translate": _by_row(_translated),
    "left": _by_row(lambda text, size: text[: max(size, 0)]),
    "right": _by_row(lambda text, size: text[-size:] if size > 0 else ""),
    "reverse": _by_row(lambda text: text[::-1]),
    "replace": _by_row(_replaced),
    "split_part": _by_row(_split_part),
    "startswith": _by_row(str.startswith),
    "endswith": _by_row(str.endswith),
    "contains": _by_row(str.__contains__),
    "concat_ws": _concat_ws,
    "upper": partial(_cased, pc.ascii_upper, str.upper),
    "lower": partial(_cased, pc.ascii_lower, str.lower),
    "length": plain(pc.utf8_length),
    "trim": plain(partial(pc.utf8_trim, characters=" ")),
    "concat": plain(lambda *parts: pc.binary_join_element_wise(*parts, "")),
    "substring": _substring,
    "like": _like,
}
