"""The queries that a stream serves as of a version of the catalog: those that are wanted, have failed, have ended.

By the query's serial number, as text: a later query of the same name is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sash.engine.compiler import CompiledQuery
from sash.engine.periodic.stream import Progress, StreamRuntime

QueriesAt = Callable[[int], list[CompiledQuery]]
Deliver = Callable[[Progress, bool], None]


class Roster:
    """`queries_at` gives the stream's queries at a catalog version; `deliver` takes progress outward."""

    def __init__(self, runtime: StreamRuntime, queries_at: QueriesAt, deliver: Deliver) -> None:
        self._runtime = runtime
        self._queries_at = queries_at
        self._deliver = deliver
        self.version = -1
        self.wanted: dict[str, CompiledQuery] = {}
        self.failed: dict[str, str] = {}
        self._ended: set[str] = set()

    def synchronise(self, version: int) -> None:
        if version == self.version:
            return
        gone = self.failed.keys() | self._ended
        self.wanted = {str(query.serial): query for query in self._queries_at(version)}
        self._runtime.synchronise([query for serial, query in self.wanted.items() if serial not in gone])
        self.version = version

    def serials(self, names: Iterable[str]) -> dict[str, str]:
        """The serial numbers of queries by name."""
        return {query.name: serial for serial, query in self.wanted.items() if query.name in set(names)}

    def fail(self, failed: dict[str, str]) -> None:
        """Take queries, by their serial numbers, out of the runtime for good."""
        self.failed.update(failed)
        for serial in failed:
            self._runtime.remove(self.wanted[serial].name)

    def failed_since(self, before: Iterable[str]) -> dict[str, str]:
        known = set(before)
        return {serial: why for serial, why in self.failed.items() if serial not in known}

    def hand_over(self, progress: Progress, delivered: bool) -> None:
        """Take note of who has failed or ended, and take answers outward."""
        outcome = progress.outcome
        serials = self.serials([*outcome.failed, *outcome.ended])
        self.failed.update({serials[name]: why for name, why in outcome.failed.items()})
        self._ended.update(serials[name] for name in outcome.ended)
        self._take_outward(progress, delivered)

    def report_failures(self, failed: dict[str, str], reported: bool) -> None:
        found = Progress()
        names = {serial: query.name for serial, query in self.wanted.items()}
        found.outcome.failed.update({names[serial]: why for serial, why in failed.items() if serial in names})
        self._take_outward(found, reported)

    def _take_outward(self, progress: Progress, delivered: bool) -> None:
        progress.serials = {query.name: query.serial for query in self.wanted.values()}
        self._deliver(progress, delivered)

    def save(self) -> dict[str, Any]:
        return {"failed": self.failed, "ended": sorted(self._ended)}

    def load(self, saved: dict[str, Any]) -> None:
        self.failed, self._ended = dict(saved["failed"]), set(saved["ended"])
