"""The queries that a stream serves as of a version of the catalog: those that are wanted, have failed, have ended.

By the query's serial number, as text: a later query of the same name is another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from sash.plan.nodes import Lookup
from sash.runtime.compiler import CompiledQuery
from sash.runtime.periodic.stream_runtime import Progress, StreamRuntime
from sash.runtime.records.stream_queries import StreamQueries

Deliver = Callable[[Progress, bool], None]


class Roster:
    """`queries` are the stream's at the versions of the catalog; `deliver` takes progress outward.

    A version that differs by one query from the version before it costs what that query costs.
    """

    def __init__(self, runtime: StreamRuntime, queries: StreamQueries[CompiledQuery], deliver: Deliver) -> None:
        self._runtime = runtime
        self._queries = queries
        self._deliver = deliver
        self.version = -1
        self.wanted: dict[str, CompiledQuery] = {}
        # The serial number that a name has among those that are wanted.
        self._serials: dict[str, int] = {}
        # The tables in which tuples are looked up, and for how many queries.
        self.lookups: Counter[Lookup] = Counter()
        self.failed: dict[str, str] = {}
        self._ended: set[str] = set()

    def synchronise(self, version: int) -> None:
        if version == self.version:
            return
        gone, come = self._queries.go_to(version)
        for query in gone:
            del self.wanted[str(query.serial)], self._serials[query.name]
            self.lookups -= Counter(query.lookups)
        for query in come:
            self.wanted[str(query.serial)] = query
            self._serials[query.name] = query.serial
            self.lookups.update(query.lookups)
        self._runtime.change([query.name for query in gone], [query for query in come if not self._is_over(query)])
        self.version = version

    def _is_over(self, query: CompiledQuery) -> bool:
        return str(query.serial) in self.failed or str(query.serial) in self._ended

    def serials(self, names: Iterable[str]) -> dict[str, str]:
        """The serial numbers of queries by name."""
        return {name: str(self._serials[name]) for name in names if name in self._serials}

    def fail(self, failed: dict[str, str]) -> None:
        """Take queries, by their serial numbers, out of the runtime for good."""
        self.failed.update(failed)
        self._runtime.change([self.wanted[serial].name for serial in failed], ())

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
        known = {serial: why for serial, why in failed.items() if serial in self.wanted}
        found.outcome.failed.update({self.wanted[serial].name: why for serial, why in known.items()})
        self._take_outward(found, reported)

    def _take_outward(self, progress: Progress, delivered: bool) -> None:
        progress.serials = self._serials
        self._deliver(progress, delivered)

    @property
    def ended(self) -> list[str]:
        """The queries, by serial number, whose LIFETIME is over."""
        return sorted(self._ended)

    def load(self, failed: dict[str, str], ended: Iterable[str]) -> None:
        self.failed, self._ended = dict(failed), set(ended)
