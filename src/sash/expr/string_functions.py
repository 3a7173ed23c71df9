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


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "upper": partial(_cased, pc.ascii_upper, str.upper),
    "lower": partial(_cased, pc.ascii_lower, str.lower),
    "length": plain(pc.utf8_length),
    "trim": plain(partial(pc.utf8_trim, characters=" ")),
    "concat": plain(lambda *parts: pc.binary_join_element_wise(*parts, "")),
    "substring": _substring,
    "like": _like,
}
