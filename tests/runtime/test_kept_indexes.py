"""Indexes over stored windows find what a scan finds, whatever their kind, while the window slides."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.catalog import StoredIndex, Stream
from sash.core.errors import SashError
from sash.core.time import SECOND
from sash.runtime.stored.stored_indexes import TIME, IndexGoneError, StoredIndexes
from sash.runtime.stored.stored_window import StoredWindow
from sash.sql import ROW_KINDS, SET_KINDS, SoughtValues

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("g", pa.string())])
WHOLE = SCHEMA.append(pa.field(TIME, pa.int64()))
Row = tuple[int, int | None, str | None]
rows_of_a_batch = st.lists(
    st.tuples(
        st.integers(0, 20_000_000), st.none() | st.integers(0, 5), st.none() | st.sampled_from(["a", "b", "", "ä"])
    ),
    max_size=12,
)


def stream(**options: bool) -> Stream:
    return Stream("s", SCHEMA, "ts", keep=6 * SECOND, **options)  # type: ignore[arg-type]


def table(rows: list[Row]) -> pa.Table:
    columns = [[time for time, _, _ in rows], [v for _, v, _ in rows], [g for _, _, g in rows], [t for t, _, _ in rows]]
    return pa.table([pa.array(column, type) for column, type in zip(columns, WHOLE.types, strict=True)], schema=WHOLE)


def find(indexes: StoredIndexes, index: StoredIndex, values: pa.Array) -> tuple[pa.Table, int]:
    """The rows that have one of the values, and as of when."""
    return indexes.read([index], lambda: (indexes.find(index, values), indexes.now))


def counts(indexes: StoredIndexes, index: StoredIndex) -> tuple[dict[Any, int], int]:
    """How often each value occurs, and as of when."""
    (values, numbers), as_of = indexes.read([index], lambda: (indexes.counts(index), indexes.now))
    return dict(zip(values.to_pylist(), numbers.tolist(), strict=True)), as_of


def fed(kept: StoredWindow, rows: list[Row], latest: int) -> int:
    kept.take(kept.accepted(table(rows)), max([latest, *(time for time, _, _ in rows)]))
    return max([latest, *(time for time, _, _ in rows)])


@pytest.mark.parametrize("column", ["v", "g"])
@pytest.mark.parametrize("kind", [*ROW_KINDS, *SET_KINDS])
@given(batches=st.lists(rows_of_a_batch, min_size=1, max_size=6), created=st.integers(0, 3), revise=st.booleans())
def test_finds_what_a_scan_finds(kind: str, column: str, batches: list[list[Row]], created: int, revise: bool) -> None:
    kept, latest = StoredWindow(stream(late_revise=revise)), 0
    index = StoredIndex("s", column, kind)
    for place, rows in enumerate(batches):
        if place == min(created, len(batches) - 1):
            kept.create_index(index)
        latest = fed(kept, rows, latest)
        stored = kept.read(None)
        if kept.indexes is None or stored is None:
            continue
        values = stored.rows[column].to_pylist()
        if kind in SET_KINDS:
            found, as_of = counts(kept.indexes, index)
            assert found == Counter(values)
        else:
            wanted = pa.array([1, 4, 1] if column == "v" else ["b", "", "z"], SCHEMA.field(column).type)
            given_rows, as_of = find(kept.indexes, index, wanted)
            mask = pa.array([value in wanted.to_pylist() for value in values], pa.bool_())
            assert given_rows.equals(stored.rows.filter(mask))
        assert as_of == stored.as_of


def test_an_index_helps_where_there_are_many_values() -> None:
    kept = StoredWindow(stream())
    fed(kept, [(i * 1_000, i % 3, str(i % 50)) for i in range(1_000)], 2 * SECOND)
    for column in ("v", "g"):
        kept.create_index(StoredIndex("s", column, "db"))
    assert kept.indexes is not None
    few, many = SoughtValues("v", pa.array([1])), SoughtValues("g", pa.array(["7"]))
    assert kept.indexes.row_index([few]) is None
    assert kept.indexes.row_index([few, many]) == (StoredIndex("s", "g", "db"), many)
    assert kept.indexes.row_index([SoughtValues("g", pa.array([str(i) for i in range(7)]))]) is None
    kept.drop_index(StoredIndex("s", "g", "db"))
    assert kept.indexes.row_index([many]) is None
    kept.drop_index(StoredIndex("s", "v", "db"))
    assert kept.indexes is None


def test_what_cannot_be_indexed_is_refused() -> None:
    schema = SCHEMA.append(pa.field("l", pa.list_(pa.int64())))
    kept = StoredWindow(Stream("s", schema, "ts", keep=6 * SECOND))
    with pytest.raises(SashError, match="no db index on l"):
        kept.create_index(StoredIndex("s", "l", "db"))


@pytest.mark.parametrize("kind", ["db", "tree"])
def test_threads_read_while_the_window_slides(kind: str) -> None:
    """A tuple per tenth of a second with its second's last digit: each value is in the window ten times, or not."""
    kept, index = StoredWindow(stream()), StoredIndex("s", "v", kind)
    kept.create_index(index)
    fed(kept, [(i * 100_000 + 1, i // 10 % 10, None) for i in range(80)], 0)
    problems: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            assert kept.indexes is not None
            if kind == "tree":
                found, as_of = counts(kept.indexes, index)
            else:
                rows, as_of = find(kept.indexes, index, pa.array(range(10)))
                found = dict(Counter(rows["v"].to_pylist()))
            last = as_of // SECOND
            if found != {second % 10: 10 for second in range(last - 6, last)}:
                problems.append(f"as of {last}: {found}")

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for second in range(8, 200):
        fed(kept, [(second * SECOND + i * 100_000 + 1, second % 10, None) for i in range(10)], (second + 1) * SECOND)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_slide_that_waits_for_a_scan_holds_up_no_reader_of_an_index() -> None:
    """Under serial a slide waits until the scan before it has ended."""
    kept, index = StoredWindow(stream(), "serial"), StoredIndex("s", "v", "db")
    kept.create_index(index)
    latest = fed(kept, [(second * SECOND, second, "a") for second in range(1, 8)], 0)
    scanned, go_on = threading.Event(), threading.Event()

    def scan(rows: pa.Table) -> pa.Table:
        scanned.set()
        assert go_on.wait(60)
        return rows

    scanning = threading.Thread(target=kept.read, args=(None, scan))
    sliding = threading.Thread(target=fed, args=(kept, [(8 * SECOND, 8, "a"), (9 * SECOND, 9, "a")], latest))
    found: list[tuple[pa.Table, int]] = []
    assert kept.indexes is not None
    reading = threading.Thread(target=lambda: found.append(find(kept.indexes, index, pa.array([5]))))  # type: ignore[arg-type]
    scanning.start()
    assert scanned.wait(60)
    sliding.start()
    # The slide waits in the queue: nobody can see that it has come there.
    sliding.join(0.2)
    reading.start()
    reading.join(60)
    go_on.set()
    for thread in (scanning, sliding, reading):
        thread.join(60)
    ((rows, as_of),) = found
    assert rows["v"].to_pylist() == [5] and as_of == 6 * SECOND


def test_an_index_may_be_dropped_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, index = StoredWindow(stream()), StoredIndex("s", "v", "db")
    kept.create_index(index)
    indexes = kept.indexes
    assert indexes is not None
    with pytest.raises(IndexGoneError):
        find(indexes, index, pa.array([5]))  # there is nothing yet
    fed(kept, [(SECOND // 2, 5, None)], 3 * SECOND)
    read = StoredIndexes.read

    def dropped_before(indexes: Any, needed: Any, reading: Any) -> Any:
        if kept.indexes is not None:
            kept.drop_index(index)
        return read(indexes, needed, reading)

    monkeypatch.setattr(StoredIndexes, "read", dropped_before)
    with pytest.raises(IndexGoneError):
        find(indexes, index, pa.array([5]))
    assert indexes.values(index) == 0


def test_a_refused_index_leaves_nothing() -> None:
    schema = SCHEMA.append(pa.field("l", pa.list_(pa.int64())))
    kept = StoredWindow(Stream("s", schema, "ts", keep=6 * SECOND))
    with pytest.raises(SashError):
        kept.create_index(StoredIndex("s", "l", "db"))
    assert kept.indexes is None
