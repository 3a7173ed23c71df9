"""The interface between the runtime and Spark, and a micro-batch that Spark has read.

    RunningStream, Passes, ClusterTables ──► SparkPipeline ◄── sash.spark.pipeline.Pipeline     rows are a DataFrame
                                                           ◄── tests/support                    rows are what they like

The runtime does not look into the rows of a micro-batch: it gives them back to the pipeline that they came from. So a
pipeline that has only `SparkPass` runs periodic queries and stored windows without a JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from sash.catalog import Stream
from sash.core.time import Micros
from sash.panes.pane_rows import BatchFacts
from sash.plan.periodic import PeriodicAggregate
from sash.sharing.groups import PaneTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sash.spark.preparation import Interval, Jumps


class SparkPass(Protocol):
    """The passes over one micro-batch. The log stores the result of `aggregate`, and gives it back after a restart."""

    @property
    def is_streaming(self) -> bool:
        """Whether the source brings micro-batches, not one finite batch."""

    @property
    def is_local(self) -> bool:
        """Whether executors see the files of this machine."""

    def aggregate(self, batch: DataFrame, tables: list[PaneTable]) -> pa.Table:
        """The partials of a micro-batch for some pane tables."""

    def facts(self, result: pa.Table, tables: list[PaneTable]) -> BatchFacts:
        """Split the result of `aggregate` by pane tables."""

    def aggregate_numbered(
        self,
        batch: DataFrame | None,
        pending: pa.Table | None,
        interval: Interval,
        counted: int,
        tables: list[PaneTable],
    ) -> tuple[pa.Table | None, pa.Table | None]:
        """For row-based windows: partials of the tuples that the watermark has passed, and the waiting tuples."""

    def numbered_facts(self, result: pa.Table | None, tables: list[PaneTable]) -> BatchFacts | None:
        """Split the first result of `aggregate_numbered` by pane tables."""

    def rows_to_keep(self, batch: DataFrame, time: str, oldest: Micros) -> pa.Table:
        """The rows that a stored window takes: the stream's columns, and event time under the name `time`."""


class SparkPipeline(SparkPass, Protocol):
    """A stream's Spark query, and the calls that only some streams, or a failed pass, need."""

    @property
    def session(self) -> SparkSession: ...

    def read_once(self, on_batch: Callable[[DataFrame, int], None]) -> None: ...

    def start(
        self, on_batch: Callable[[DataFrame, int], None], checkpoint: Path, trigger: str | None, most: int | None = None
    ) -> Any: ...

    def readable(self, batch: DataFrame) -> None:
        """Raise SourceError when the rows themselves cannot be read."""

    def with_pending(self, batch: DataFrame | None, pending: pa.Table | None) -> DataFrame | None: ...

    def failure(self, batch: DataFrame, leaves: Sequence[PeriodicAggregate]) -> str | None:
        """Why a query's own expressions fail over a micro-batch; None when they do not."""

    def stamped(self, batch: DataFrame, arrival: Micros) -> DataFrame:
        """TIMESTAMP ARRIVAL: the rows with the time of their arrival."""

    def jumps(self, batch: DataFrame, reached: Micros | None) -> Jumps | None:
        """MAX JUMP: the tuples that are too far ahead."""

    def scaled(self, result: pa.Table, tables: list[PaneTable], one_in: int) -> pa.Table:
        """SHED: scale the result of a pass over one tuple in `one_in` to an estimate for all tuples."""

    def write_panes(self, batch: DataFrame, table: PaneTable, place: Path) -> None:
        """STORED IN CLUSTER, and short lists: the rows of a pane table go to files."""

    def short_lists(self, paths: Sequence[Path], table: PaneTable) -> pa.Table:
        """The short lists of the panes in such files."""


@dataclass
class StreamSource:
    """A declared stream, and the pipeline that reads it. A program may declare both anew after a restart."""

    stream: Stream
    pipeline: SparkPipeline


@dataclass(frozen=True)
class PassResult:
    """The result of the pass over a micro-batch: the partials, as the log has them and split by pane tables.

    For row-based windows, `counted` are the partials of the tuples that got their numbers, and `pending` are the tuples
    that have no number yet. SHED kept one tuple of `one_in`; MAX JUMP kept `jumped` tuples out, the first of this time.
    """

    table: pa.Table
    facts: BatchFacts
    counted: pa.Table | None = None
    pending: pa.Table | None = None
    one_in: int = 1
    jumped: tuple[int, Micros] = (0, 0)


@dataclass(frozen=True)
class BatchTimes:
    """The event times of a micro-batch: its greatest, a bound of its least, and the greatest of all before it.

    Tuples before `late`, the watermark of its stream, came too late.
    """

    latest: Micros | None
    earliest: Micros | None
    before: Micros | None
    late: Micros | None = None


@dataclass(frozen=True)
class Batch:
    """A micro-batch of a stream: its rows, about how many, their times, and the watermark after it.

    `tuples` has, by `Leaves`, the tuples of a plan's windows that are in this process already; `passed` is for the pane
    tables. The epoch sees this `version` of the catalog. It `began` then, and live the next one begins after
    `interval` seconds. `missed` tuples came too late for some runtime that has taken the micro-batch. If it `is_far`,
    the executors process the tuples of plans.
    """

    stream: str
    rows: DataFrame
    number: int
    epoch: int
    seen: BatchTimes
    watermark: Micros | None
    tuples: Mapping[Any, pa.Table] = field(default_factory=dict)
    passed: PassResult | None = None
    version: int = 0
    began: float = 0.0
    interval: float | None = None
    missed: int = 0
    is_far: bool = False
