"""Stored windows of (time, number) rows: in memory, and in files as Spark would write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sash.catalog import Stream
from sash.core.time import Micros
from sash.isolation import Recorder
from sash.runtime.stored.stored_indexes import TIME
from sash.runtime.stored.stored_window import StoredRows, StoredWindow
from sash.storage.window_files import WindowFiles

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64())])
WHOLE = SCHEMA.append(pa.field(TIME, pa.int64()))


def table(times: list[int], first: int = 0) -> pa.Table:
    columns = [pa.array(times, pa.timestamp("us", "UTC")), pa.array(range(first, first + len(times))), times]
    return pa.table([pa.array(column, type) for column, type in zip(columns, WHOLE.types, strict=True)], schema=WHOLE)


def _all_that_came(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.greater_equal(rows["v"], 0))


class InMemory:
    """`accepted` is what the log has of each micro-batch that came; `wanted` is what a look picks out of rows."""

    wanted: Callable[[pa.Table], pa.Table] | None = staticmethod(_all_that_came)

    def __init__(self, stream: Stream, level: str = "ttu", recorder: Recorder | None = None) -> None:
        self.kept = StoredWindow(stream, level, recorder)
        self.accepted: list[pa.Table] = []

    def come(self, times: list[int], first: int, watermark: Micros | None) -> None:
        rows = self.kept.accepted(table(times, first))
        self.kept.take(rows, watermark)
        self.accepted.append(rows)

    def restart(self, everything: bool) -> None:
        """As from a checkpoint: with all rows so far, or with those that are still needed."""
        again = StoredWindow(self.kept.stream)
        again.load(self.kept.save(), self._lasting(everything))
        self.kept = again

    def _lasting(self, everything: bool) -> list[pa.Table]:
        return [rows for rows in self.accepted if everything or self.kept.last_end(rows) > self.kept.oldest]

    def look(self, reach: int | None) -> tuple[StoredRows, list[tuple[int, int]]] | None:
        """The stored state, and its rows, the oldest first."""
        with self.kept.reading():
            stored = self.kept.read(reach, self.wanted)
            return None if stored is None else (stored, self.rows(stored, reach))

    def rows(self, stored: StoredRows, reach: int | None) -> list[tuple[int, int]]:
        return list(zip(stored.rows[TIME].to_pylist(), stored.rows["v"].to_pylist(), strict=True))


class InFiles(InMemory):
    wanted = None

    def __init__(self, stream: Stream, directory: Path, level: str = "ttu", recorder: Recorder | None = None) -> None:
        self._directory = directory
        self.files = WindowFiles(directory)
        self.kept = StoredWindow(stream, level, recorder, self.files)
        self.accepted = []

    def come(self, times: list[int], first: int, watermark: Micros | None) -> None:
        came = self.kept.of_files(self._written(len(self.accepted), times, first))
        rows = self.kept.accepted(came)
        taken = rows["file"].to_pylist()
        self.files.discard(set(came["file"].to_pylist()) - set(taken))
        self.files.hold(taken)
        self.kept.take(rows, watermark)
        self.accepted.append(rows)
        self.kept.let_go(taken_back=False)

    def _written(self, epoch: int, times: list[int], first: int) -> pa.Table:
        rows, place = table(times, first), self.files.place(epoch)
        length, offset = self.kept.length, self.kept.stream.offset
        stamps = np.asarray(rows[TIME]) - offset
        whole = stamps // length + 1 if self.kept.stream.closed_left else -(-stamps // length)
        ends = whole * length + offset
        for end in np.unique(ends).tolist():
            (place / f"_pane={end}").mkdir(parents=True)
            pq.write_table(rows.filter(pa.array(ends == end)), place / f"_pane={end}" / "part-0.parquet")
        return self.files.found(place)

    def restart(self, everything: bool) -> None:
        # The files of an epoch that was not committed.
        self._written(len(self.accepted), [1, 2], 0)
        self.files = WindowFiles(self._directory)
        again = StoredWindow(self.kept.stream, files=self.files)
        again.load(self.kept.save(), self._lasting(everything))
        again.keep_only_files()
        self.kept = again

    def rows(self, stored: StoredRows, reach: int | None) -> list[tuple[int, int]]:
        """Spark would sort and filter."""
        names = stored.rows["file"].to_pylist()
        parts = [pq.read_table(self.files.path(name), partitioning=None) for name in names]
        rows = pa.concat_tables([WHOLE.empty_table(), *parts])
        if reach is not None:
            low = pc.greater_equal if self.kept.stream.closed_left else pc.greater
            rows = rows.filter(low(rows[TIME], stored.as_of - reach))
        assert self.kept.count(stored.rows) >= len(rows)
        return sorted(zip(rows[TIME].to_pylist(), rows["v"].to_pylist(), strict=True))

    def named(self) -> set[str]:
        """The rows in the window or in its buffer."""
        names = [name for rows in self.accepted for name in rows["file"].to_pylist()]
        return {name for name in names if int(name.split("=")[1].split("/")[0]) > self.kept.oldest}

    def on_disk(self) -> set[str]:
        return {path.relative_to(self._directory).as_posix() for path in self._directory.rglob("*.parquet")}
