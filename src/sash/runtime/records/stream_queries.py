"""The queries of one stream, of one kind, as of a version of the catalog.

    history    .. │ register a │ register b │ drop a │ register c │ ..
                               ▲ version: a             ▲ go_to: gone a, come b

A stream goes from the version of one micro-batch to that of the next. The cost is that of the changes in between, not
of all queries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from sash.catalog import RegisteredQuery
from sash.runtime.records.catalog_history import CatalogHistory


class SerialQuery(Protocol):
    """`serial` tells a query from an earlier one of the same name."""

    @property
    def serial(self) -> int: ...


T = TypeVar("T", bound=SerialQuery)


class StreamQueries(Generic[T]):
    """`wants` selects registrations, and `compile` compiles them.

    `lock` is the catalog's: nothing is registered meanwhile.
    """

    def __init__(
        self,
        history: CatalogHistory,
        lock: threading.RLock,
        wants: Callable[[RegisteredQuery], bool],
        compile: Callable[[RegisteredQuery], T],
    ) -> None:
        self._history = history
        self._lock = lock
        self._wants = wants
        self._compile = compile
        self._by_name: dict[str, T] = {}
        self._version = -1

    def at(self, version: int | None) -> list[T]:
        """The queries at a version, in the order in which they came; None: now."""
        with self._lock:
            self.go_to(self._history.version if version is None else version)
            return list(self._by_name.values())

    def go_to(self, version: int) -> tuple[list[T], list[T]]:
        """Go from the last version to this one; the result is the queries that are gone, and those that have come."""
        if version == self._version:
            return [], []
        with self._lock:
            changed = self._history.changed_queries(self._version, version)
            gone, come = self._compared(self._history.queries(version)) if changed is None else changed
            fresh = {query.name.lower(): self._compile(query) for query in come if self._wants(query)}
            left = [self._by_name.pop(name) for name in gone if name in self._by_name]
            self._by_name |= fresh
            self._version = version
            return left, list(fresh.values())

    def _compared(self, queries: dict[str, RegisteredQuery]) -> tuple[list[str], list[RegisteredQuery]]:
        known = {name: compiled.serial for name, compiled in self._by_name.items()}
        now = {name: query.serial for name, query in queries.items()}
        gone = [name for name, serial in known.items() if now.get(name) != serial]
        return gone, [query for name, query in queries.items() if known.get(name) != query.serial]
