"""Spark's part of a micro-batch: the one action for all pane tables, and further actions for some windows.

    rows ─► with columns of tables (lookups) ─► partials of every pane and group      the one action
                                             ─► files of pane tables in the cluster   one, where there are such
         ─► tuples that the watermark passes get their numbers ─► their partials      two, for windows of rows
            the others wait: `pending`

If an expression fails, the queries that have it fail; then the action is repeated without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from sash.core.time import Micros
from sash.isolation import Isolation
from sash.panes.pane_rows import BatchFacts
from sash.plan.nodes import Lookup
from sash.runtime.periodic.cluster_tables import ClusterTables
from sash.runtime.periodic.stream_runtime import NumberedPartials, StreamRuntime
from sash.runtime.records.session_tables import Tables
from sash.runtime.spark_pass import PassResult, StreamSource
from sash.spark.preparation import Interval, looked_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sash.runtime.streams.pane_runtime import PaneQueries

T = TypeVar("T")


class Passes:
    """Changes only the pane_queries, and only when a query fails: the caller applies the results."""

    def __init__(
        self,
        source: StreamSource,
        runtime: StreamRuntime,
        pane_queries: PaneQueries,
        cluster: ClusterTables,
        tables: Tables | None,
        isolation: Isolation,
    ) -> None:
        self._source = source
        self._runtime = runtime
        self._pane_queries = pane_queries
        self._cluster = cluster
        self._tables = tables
        self._isolation = isolation
        # Tuples of row-based windows that the watermark has not passed.
        self.pending: pa.Table | None = None

    def aggregate(self, rows: DataFrame, epoch: int) -> PassResult:
        """The one action, those of pane tables in the cluster, and those of row-based windows."""

        def passes() -> PassResult:
            found = self._looked_up(rows)
            table = self._source.pipeline.aggregate(found, self._runtime.tables())
            self._cluster.write(found, epoch)
            facts = self.facts(table)
            self._cluster.check_written(facts)
            return PassResult(table, facts, *self._count(rows, self._runtime.next_watermark(facts)))

        return self._without_culprits(rows, passes)

    def count_pending(self, watermark: Micros | None) -> tuple[pa.Table | None, pa.Table | None]:
        """Number the waiting tuples that a watermark (None: the end) passes; the others still wait."""
        if self.pending is None:
            return None, None
        return self._without_culprits(None, lambda: self._count(None, watermark))

    def _count(self, rows: DataFrame | None, watermark: Micros | None) -> tuple[pa.Table | None, pa.Table | None]:
        """Number the tuples that a watermark passes; the result is their partials, and the tuples that still wait."""
        tables = self._runtime.tables(by_rows=True)
        if not tables:
            return None, None
        interval = Interval(self._runtime.watermark, watermark)
        return self._source.pipeline.aggregate_numbered(rows, self.pending, interval, self._runtime.counted, tables)

    def facts(self, table: pa.Table) -> BatchFacts:
        """The result of the pass over a micro-batch, by pane tables."""
        return self._source.pipeline.facts(table, self._runtime.tables())

    def numbered(self, counted: pa.Table | None, pending: pa.Table | None) -> NumberedPartials | None:
        """The result of the pass over numbered tuples, by pane tables."""
        facts = self._source.pipeline.numbered_facts(counted, self._runtime.tables(by_rows=True))
        return None if facts is None else NumberedPartials(facts, 0 if pending is None else len(pending))

    def looked_up(self, rows: DataFrame, lookups: Iterable[Lookup]) -> DataFrame:
        """The rows, joined with the tables that queries look them up in."""
        wanted = dict.fromkeys(lookups)
        if self._tables is None or not wanted:
            return rows
        return looked_up(rows, self._source.stream, self._tables.all_versions(wanted))

    def _looked_up(self, rows: DataFrame) -> DataFrame:
        return self.looked_up(rows, self._pane_queries.lookups)

    # -- errors of expressions -------------------------------------------------------------------------

    def _without_culprits(self, rows: DataFrame | None, action: Callable[[], T]) -> T:
        """When an expression fails, find its queries, fail only them, and go on."""
        while True:
            with self._runtime.statistics.in_spark():
                try:
                    return action()
                except Exception as error:
                    if rows is not None:
                        self._source.pipeline.readable(rows)
                    if not self._fail_culprits(rows):
                        raise error

    def _fail_culprits(self, rows: DataFrame | None) -> bool:
        pipeline = self._source.pipeline
        # Row-based windows also read tuples of earlier micro-batches, which waited for their numbers.
        waited = pipeline.with_pending(rows, self.pending)
        found_rows = None if rows is None else self._looked_up(rows)
        culprits = {}
        for query in (active.compiled for active in self._runtime.active.values()):
            read = waited if query.readings[0].table.by_rows else found_rows
            culprits[query.name] = None if read is None else pipeline.failure(read, query.leaves)
        serials = self._pane_queries.serials(culprits)
        found = {serials[name]: why for name, why in culprits.items() if why is not None}
        with self._isolation.slide():
            self._pane_queries.fail(found)
        return bool(found)
