"""From a column of merged sketches to the values of an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sash.storage.ring import Column

T = TypeVar("T")
N = TypeVar("N")


def read(sketches: Column, value: Callable[[bytes], T], missing: N) -> list[T | N]:
    """Each sketch's value, or what stands for none. Groups that share their bytes are read once."""
    known: dict[int, T] = {}
    found: list[T | N] = []
    for data in sketches.tolist():
        if data is not None and id(data) not in known:
            known[id(data)] = value(data)
        found.append(missing if data is None else known[id(data)])
    return found
