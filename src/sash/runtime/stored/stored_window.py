"""The stored window of a stream with KEEP: its rows, in sub-windows of equal length.

    micro-batch ──► rows as Arrow ──► buffer ──► sub-window (end - s, end]  ──► ring of n sub-windows ──► one-time
                                      not seen    when the watermark has         the oldest goes           questions
                                      by anyone   passed its end

Rows are kept as they came, with their event time in microseconds beside them (`TIME`). A tuple whose sub-window was
attached before it came is late: left out, or, with LATE REVISE, inserted into a new version of its sub-window.

With STORED IN CLUSTER the rows are in files that Spark has written, one or a few for each sub-window and micro-batch,
and the tables here have a row for each file: its name, its number of rows, and as its time the last instant of its
sub-window. The rules above hold for files, too, since every row of a file belongs to the same sub-window.

Rows in memory have a limit. A window with more rows gives up: it drops all rows, stores nothing more, and tells every
question why. A session with a larger limit goes on with the window, from the next sub-window without a loss.

A slide, an insertion of late tuples and a question are transactions (sash.isolation): the isolation level decides which
state of the window a question sees while the window slides. A question that collects rows never begins again: it drops
rows of sub-windows that have left, reads the new ones, and gets late tuples of sub-windows that it has read (thesis
7.4.3). A question that folds rows into groups (`fold`) takes back rows that have left, if that is exact.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sash.catalog import StoredIndex, Stream
from sash.core.errors import SashError
from sash.core.events import report
from sash.core.stopping import check_question
from sash.core.time import Micros, multiple_after, multiple_at_or_after
from sash.isolation import Recorder, SharedWindow
from sash.rows import SubWindow
from sash.runtime.limits import too_much_stored
from sash.runtime.records.journal import SavedWindow
from sash.runtime.settings import DEFAULT_MAX_ROWS
from sash.runtime.spark_pass import SparkPass
from sash.runtime.statistics import ReadStatistics
from sash.runtime.stored.stored_indexes import NEVER, TIME, StoredIndexes, end_of, row_sub_window
from sash.spark.answer_frames import frame_of
from sash.spark.sources import spark_schema
from sash.spark.stored_rows import ordered, stored_rows, without_order, write_rows
from sash.storage.window_files import SEAL, WindowFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("sash.runtime")

# The caller sets how much a question matters; the layers between need not know it.
PRIORITY: ContextVar[int] = ContextVar("sash_priority", default=0)
# The facts about a file of rows.
_FILES = pa.schema([("file", pa.string()), ("rows", pa.int64()), (TIME, pa.int64()), *SEAL])


@dataclass(frozen=True)
class StoredRows:
    """The rows of a window as of a time, or the files that have them; rows before `since` are missing.

    `has_ended`: no more tuples were expected.
    """

    rows: pa.Table
    as_of: Micros
    since: Micros
    has_ended: bool = False


@dataclass(frozen=True)
class EveryStoredRow:
    """All rows of a window, or the files that have them, also those that no question sees yet.

    `earliest` is a bound of their least time. `missed`: rows up to there are missing; None if none are.
    """

    rows: pa.Table
    earliest: Micros
    missed: Micros | None

    def since(self, oldest: Micros | None) -> EveryStoredRow:
        """Without rows before a time."""
        if oldest is None or oldest <= max(self.earliest, self.missed or NEVER):
            return self
        return EveryStoredRow(self.rows.filter(pc.greater_equal(self.rows[TIME], oldest)), oldest, oldest - 1)


def nothing_to_ask(stream: Stream) -> SashError:
    return SashError(f"no row of stream '{stream.name}' is stored yet: there is nothing to ask")


def _asked() -> int:
    """The priority of a question: at least one, so higher than that of repeated executions."""
    return 1 + PRIORITY.get()


class WindowFold(Protocol):
    """Folds the sub-windows of a window, in any order."""

    @property
    def is_reversible(self) -> bool:
        """Whether rows can be taken back."""

    def add(self, rows: pa.Table) -> None: ...

    def take_back(self, rows: pa.Table) -> None:
        """Take back rows that were added before."""

    def restart(self) -> None:
        """Forget everything."""


class StoredWindow:
    """One thread takes rows, any thread reads; `level` is the isolation between them.

    With `files`, the rows are there, and the window takes and reads descriptions of files (`of_files`); else it has
    `most_rows` at most.
    """

    def __init__(
        self,
        stream: Stream,
        level: str = "ttu",
        recorder: Recorder | None = None,
        files: WindowFiles | None = None,
        most_rows: int = DEFAULT_MAX_ROWS,
    ) -> None:
        assert stream.keep is not None
        self.stream = stream
        self.files = files
        self.length = stream.sub_window
        self._most = -(-stream.keep // self.length)
        nothing = [row_sub_window(number, NEVER, self.empty()) for number in range(self._most)]
        self._window = SharedWindow(nothing, level, self._with_late, recorder)
        self._indexes = StoredIndexes(self._window, self.length)
        self._oldest_before: Micros = NEVER
        self.reads = ReadStatistics()
        # The end of the youngest sub-window, attached or passed over, and since when all rows are here.
        self.now: Micros | None = None
        self._since: Micros | None = None
        self._buffer: list[pa.Table] = []
        # No more tuples are expected for now: a question over several streams does not wait for this one.
        self.has_ended = False
        # With how many rows the window gave up; sub-windows that end by `_lost` may lack rows.
        self.gave_up_at: int | None = None
        self._lost: Micros = NEVER
        self._most_rows = most_rows
        # At least the number of rows: rows that have left are counted only when the number seems too large.
        self._rows_about = 0
        # One thread at a time changes the window and its indexes.
        self._writing = threading.RLock()

    # -- tuples come ---------------------------------------------------------------------------------

    def of_files(self, found: pa.Table) -> pa.Table:
        """Written files (WindowFiles.found), in the form that this window takes."""
        last = np.asarray(found["end"]) - (1 if self.stream.closed_left else 0)
        return pa.table([found["file"], found["rows"], last, *(found[name] for name in dict(SEAL))], schema=_FILES)

    def count(self, rows: pa.Table) -> int:
        """How many tuples there are in rows, or in files."""
        return len(rows) if self.files is None else int(np.asarray(rows["rows"]).sum())

    def accepted(self, rows: pa.Table) -> pa.Table:
        """The rows of a micro-batch that are not late, or may revise stored rows."""
        if self.now is None:
            return rows
        edge = self.now - self._most * self.length if self.stream.late_revise else self.now
        return rows.filter(pa.array(self._ends(rows) > edge))

    def take(self, rows: pa.Table, watermark: Micros | None) -> None:
        """Take accepted rows; then move to a watermark."""
        with self._writing:
            self._take(rows, watermark)

    def _take(self, rows: pa.Table, watermark: Micros | None) -> None:
        if len(rows) and (self.gave_up_at is not None or self._lost > NEVER):
            whole = self._ends(rows) > self._lost if self.gave_up_at is None else np.zeros(len(rows), dtype=np.bool_)
            rows = rows.filter(pa.array(whole))
        self._rows_about += len(rows)
        if len(rows):
            self.has_ended = False
            ends = self._ends(rows)
            late = ends <= self.now if self.now is not None else np.zeros(len(rows), dtype=np.bool_)
            if late.any():
                self._revise(rows.filter(pa.array(late)))
                rows = rows.filter(pa.array(~late))
            if not late.all():
                begins = int(ends[~late].min()) - self.length
                self._since = begins if self._since is None else min(begins, self._since)
            self._buffer.append(rows)
        if watermark is not None:
            ahead = multiple_after if self.stream.closed_left else multiple_at_or_after
            self._attach(ahead(watermark, self.length, self.stream.offset) - self.length)
        self._check_rows()

    def _check_rows(self) -> None:
        if self.files is not None or self._rows_about <= self._most_rows:
            return
        self._rows_about = sum(sub.size for sub in self._window.sub_windows()) + sum(map(len, self._buffer))
        if self._rows_about > self._most_rows:
            self._give_up(self._rows_about)

    def _give_up(self, rows: int) -> None:
        """Drop all rows; time goes on with empty sub-windows."""
        self.gave_up_at, self._rows_about = rows, 0
        self._buffer, self._since = [], None
        stored = self._window.sub_windows()
        emptied = [replace(sub, size=0, rows=self.empty()) for sub in stored]

        def empty() -> None:
            for old, new in zip(stored, emptied, strict=True):
                if old.size:
                    self._window.revise(new.number, new)

        self._indexes.change(emptied, empty)
        name, why = self.stream.name, self.why_not
        report(logger, logging.ERROR, "window.overfull", "%(why)s", stream=name, rows=rows, why=why)

    @property
    def why_not(self) -> str | None:
        """Why the window answers no question; None if it does."""
        if self.gave_up_at is None:
            return None
        return too_much_stored(self.stream.name, self.gave_up_at, self._most_rows)

    def allow(self, most_rows: int, latest: Micros | None) -> None:
        """Set another limit; the youngest tuple of the stream is at `latest`."""
        with self._writing:
            self._most_rows = most_rows
            if self.gave_up_at is not None and self.gave_up_at <= most_rows:
                self.gave_up_at = None
                self._lost = NEVER if latest is None else self._end_of(latest)

    def finish(self, latest: Micros) -> None:
        """The stream has ended, or is idle: attach the rows of the buffer."""
        with self._writing:
            self._attach(self._end_of(latest))
            self.has_ended = True

    def _end_of(self, time: Micros) -> Micros:
        """The end of the sub-window that contains a time."""
        ahead = multiple_after if self.stream.closed_left else multiple_at_or_after
        return ahead(time, self.length, self.stream.offset)

    def _ends(self, rows: pa.Table) -> NDArray[np.int64]:
        """The ends of the sub-windows that contain rows."""
        stamps, offset = np.asarray(rows[TIME]) - self.stream.offset, self.stream.offset
        whole = stamps // self.length + 1 if self.stream.closed_left else -(-stamps // self.length)
        return whole * self.length + offset

    def _attach(self, until: Micros) -> None:
        """Attach every sub-window that ends by a time, in order; after a long gap, as many as the window has."""
        if self.now is not None and until <= self.now:
            return
        waiting = pa.concat_tables([self.empty(), *self._buffer])
        ends = self._ends(waiting)
        gone = until - self._most * self.length
        # Only the rows that stay: a sub-window keeps the memory of every table that it is cut out of.
        due = dict(self._cut(waiting.filter(pa.array((gone < ends) & (ends <= until)))))
        self._buffer = [waiting.filter(pa.array(ends > until))]
        oldest = gone + self.length
        first = oldest if self.now is None else max(oldest, self.now + self.length)
        self._slide(range(first, until + 1, self.length), due)

    def _slide(self, ends: Sequence[Micros], rows: Mapping[Micros, pa.Table]) -> None:
        """Slide by the sub-windows of these ends; readers of an index see the states before and after a jump only."""
        first, empty = self._window.youngest + 1, self.empty()
        new = [row_sub_window(first + place, end, rows.get(end, empty)) for place, end in enumerate(ends)]
        if len(new) == len(self._window):
            self._indexes.change(new, partial(self._slide_to, new, self._window.slide))
        else:
            self._slide_to(new, self._indexes.slide)

    def _slide_to(self, new: Iterable[SubWindow], slide: Callable[[SubWindow], object]) -> None:
        for each in new:
            slide(each)
            self.now = end_of(each)

    def _cut(self, rows: pa.Table) -> Iterator[tuple[Micros, pa.Table]]:
        """Rows by sub-window: the ends of the sub-windows, and their rows in order of event time."""
        order = np.argsort(np.asarray(rows[TIME]), kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        ends, starts = np.unique(self._ends(rows), return_index=True)
        stops = [*starts.tolist(), len(rows)][1:]
        for end, start, stop in zip(ends.tolist(), starts.tolist(), stops, strict=True):
            yield end, rows.slice(start, stop - start)

    def _revise(self, rows: pa.Table) -> None:
        """Insert late tuples into all their sub-windows in one step; no question is aborted."""
        assert self.now is not None
        stored = self._window.sub_windows()
        late: dict[int, SubWindow] = {}
        for end, part in self._cut(rows):
            if end > self.oldest:
                number = stored[len(stored) - 1 - (self.now - end) // self.length].number
                late[number] = row_sub_window(number, end, part)
        if late and self.indexes is None:
            self._window.insert(late)
        elif late:
            revised = [self._with_late(sub, late[sub.number]) if sub.number in late else sub for sub in stored]
            self._indexes.change(revised, partial(self._window.insert, late))

    def _with_late(self, sub: SubWindow, late: SubWindow) -> SubWindow:
        """A sub-window with late tuples inserted."""
        ((end, rows),) = self._cut(pa.concat_tables([sub.rows, late.rows]))
        return row_sub_window(sub.number, end, rows)

    # -- indexes -------------------------------------------------------------------------------------

    def create_index(self, index: StoredIndex) -> None:
        with self._writing:
            self._indexes.create(index, self.stream.schema.field(index.column).type)

    def drop_index(self, index: StoredIndex) -> None:
        with self._writing:
            self._indexes.drop(index)

    @property
    def indexes(self) -> StoredIndexes | None:
        return self._indexes if len(self._indexes) else None

    @property
    def has_begun(self) -> bool:
        """Whether tuples have come, and time has closed a sub-window."""
        return self.now is not None and self._since is not None

    # -- questions -----------------------------------------------------------------------------------

    def reading(self) -> AbstractContextManager[None]:
        """Rows that are read inside can be used inside: their files stay."""
        self.check()
        return nullcontext() if self.files is None else self.files.reading()

    def check(self) -> None:
        """Refuse a question if the window has given up."""
        why = self.why_not
        if why is not None:
            raise SashError(why)

    def check_begun(self) -> None:
        """Refuse a question if there are no rows to ask: not yet, or not any more."""
        self.check()
        if not self.has_begun:
            raise nothing_to_ask(self.stream)

    def read(self, reach: int | None, wanted: Callable[[pa.Table], pa.Table] | None = None) -> StoredRows | None:
        """The rows of the last `reach` microseconds (None: all stored rows); None if nothing is stored yet.

        `wanted` picks rows out of those of a sub-window.
        """
        self.check()
        if not self.has_begun:
            return None
        count = self._most if reach is None else self._sub_windows(reach)

        def scan(sub: SubWindow) -> SubWindow:
            check_question()
            return sub if wanted is None else replace(sub, rows=wanted(sub.rows))

        answer = self._window.read(count, scan, undo=_forget, priority=_asked())
        self.reads.count(answer)
        rows = pa.concat_tables([sub.rows for sub in answer.parts])
        if len(answer.parts) > count:
            # Tuples that came late during the read stand behind their sub-windows.
            rows = rows.take(pa.array(np.argsort(np.asarray(rows[TIME]), kind="stable")))
        return self.stored(rows, end_of(answer.parts[-1]), reach)

    def everything(self) -> EveryStoredRow | None:
        """All that is here between two micro-batches; None if nothing is, or the window has given up."""
        with self._writing:
            since = self._since
            if since is None or self.gave_up_at is not None:
                return None
            stored = [sub.rows for sub in self._window.sub_windows()]
            rows = pa.concat_tables([self.empty(), *stored, *self._buffer])
            has_all = self._lost == NEVER and since >= self.oldest
            # The times of files are those of their sub-windows.
            earliest = since + 1 if self.files is not None else int(np.asarray(rows[TIME]).min(initial=-NEVER))
            return EveryStoredRow(rows, earliest, None if has_all else max(since, self.oldest, self._lost))

    def fold(self, reach: int, folding: WindowFold) -> Micros:
        """Fold the last `reach` microseconds, sub-window by sub-window; the result is their time."""
        self.check_begun()

        def scan(sub: SubWindow) -> SubWindow:
            check_question()
            folding.add(sub.rows)
            return sub

        def undo(sub: SubWindow) -> None:
            folding.take_back(sub.rows)

        answer = self._window.read(
            self._sub_windows(reach),
            scan,
            undo=undo if folding.is_reversible else None,
            restart=folding.restart,
            priority=_asked(),
        )
        self.check()
        self.reads.count(answer)
        as_of = end_of(answer.parts[-1])
        inside = [sub for sub in answer.parts if end_of(sub) > as_of - reach]
        if sum(sub.size for sub in inside) < sum(sub.size for sub in answer.parts):
            # Time jumps by more than the window, and the ring still has some sub-windows from before the jump.
            folding.restart()
            for sub in inside:
                folding.add(sub.rows)
        return as_of

    def _sub_windows(self, reach: int) -> int:
        return min(self._most, -(-reach // self.length))

    def stored(self, rows: pa.Table, as_of: Micros, reach: int | None) -> StoredRows:
        """Rows that were found as of a time, without those before the window."""
        begun = self._since
        # Refuse a question if the window gave up in the middle of it.
        self.check()
        assert begun is not None
        oldest = as_of - (self.extent if reach is None else reach)
        low = pc.greater_equal if self.stream.closed_left else pc.greater
        since = max(begun, as_of - self.extent)
        return StoredRows(rows.filter(low(rows[TIME], oldest)), as_of, since, self.has_ended)

    def is_complete(self, reach: int, as_of: Micros) -> bool:
        """Whether a window as of a time begins after the stored rows do."""
        return as_of - reach >= self.stored(self.empty(), as_of, reach).since

    def empty(self) -> pa.Table:
        if self.files is not None:
            return _FILES.empty_table()
        return self.stream.schema.append(pa.field(TIME, pa.int64())).empty_table()

    def frame(self, spark: SparkSession, rows: pa.Table) -> DataFrame:
        """Rows of the window, or of files, in order, as Spark has them."""
        if self.files is None:
            return frame_of(spark, rows.drop_columns([TIME]), spark_schema(self.stream.schema))
        self.files.check(rows)
        paths = map(self.files.path, rows["file"].to_pylist())
        return without_order(ordered(stored_rows(spark, self.stream, paths)), self.stream)

    def last_end(self, rows: pa.Table) -> Micros:
        """The end of the last sub-window that contains rows."""
        return int(self._ends(rows).max(initial=NEVER))

    @property
    def extent(self) -> Micros:
        """The time that all sub-windows together cover."""
        return self._most * self.length

    def oldest_by(self, watermark: Micros | None) -> Micros:
        """Rows before this time will have left when a watermark has come, whatever the time is now."""
        return NEVER if watermark is None else watermark - self.extent - self.length

    @property
    def oldest(self) -> Micros:
        """Rows before this time are not stored any more."""
        return NEVER if self.now is None else self.now - self._most * self.length

    # -- files ---------------------------------------------------------------------------------------

    def let_go(self, taken_back: bool) -> None:
        """After the commit of an entry, remove the files of rows that have left the window.

        `taken_back`: if the entry's file is damaged, recovery goes back before it, and needs the window of that time.
        """
        if self.files is not None:
            self.files.let_go(self._oldest_before if taken_back else self.oldest)
            self._oldest_before = self.oldest

    def keep_only_files(self) -> None:
        """After a restart, remove all files but those of the window."""
        if self.files is not None:
            stored = (sub.rows for sub in self._window.sub_windows())
            everything = pa.concat_tables([self.empty(), *stored, *self._buffer])
            self.files.check_sizes(everything)
            self.files.keep_only(everything["file"].to_pylist())

    # -- recovery ------------------------------------------------------------------------------------

    def save(self) -> SavedWindow:
        return SavedWindow(self.now, self._since, self.gave_up_at, self._lost)

    def load(self, saved: SavedWindow, rows: list[pa.Table]) -> None:
        """Load a saved window, from the rows that it had accepted and not dropped."""
        self.now, self._since = saved.now, saved.since
        self.gave_up_at, self._lost = saved.gave_up_at, saved.lost
        every = pa.concat_tables([self.empty(), *(rows if self.gave_up_at is None else [])])
        every = every.filter(pa.array(self._ends(every) > self._lost))
        ends = self._ends(every)
        self._rows_about = len(every)
        edge = NEVER if self.now is None else self.now
        self._buffer = [every.filter(pa.array(ends > edge))]
        if self.now is None:
            return
        stored = dict(self._cut(every.filter(pa.array((ends <= edge) & (ends > self.oldest)))))
        self._slide(range(self.oldest + self.length, self.now + 1, self.length), stored)


def _forget(sub: SubWindow) -> None:
    """Collected rows go when their sub-window goes."""


# What is accepted, and how many tuples were too late; without a stored window, nothing.
RowsAndLate = tuple[pa.Table | None, int]


def rows_of_batch(
    kept: StoredWindow, spark: SparkPass, rows: DataFrame, epoch: int, reached: Micros | None
) -> RowsAndLate:
    """The part of a micro-batch, which brings a watermark, that is stored."""
    if kept.gave_up_at is not None:
        return None, 0
    oldest, files = kept.oldest_by(reached), kept.files
    if files is None:
        came = spark.rows_to_keep(rows, TIME, oldest)
        accepted = kept.accepted(came)
        return accepted, len(came) - len(accepted)
    place = files.place(epoch)
    write_rows(rows, kept.stream, oldest, epoch, kept.length, place)
    came = kept.of_files(files.found(place))
    accepted = kept.accepted(came)
    names, taken = came["file"].to_pylist(), accepted["file"].to_pylist()
    files.discard(set(names) - set(taken))
    files.hold(taken)
    return accepted, kept.count(came) - kept.count(accepted)
