"""The key directory against looking at every key, for every type that a key may have."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.archive import EXPIRES, INSERTED, Archive, ArrowWriter, DataFile, Rewrite, Spec, with_times
from sash.archive import writer as arrow_writer
from sash.archive.key_directory import cuts, describe, read_directory
from sash.archive.writer import describe_file, times_of

NAN = float("nan")
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1]),
    (pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    (pa.int8(), [-128, 0, 127]),
    (pa.float64(), [-1.5, 0.0, 2.5, float("inf"), NAN]),
    (pa.float32(), [-1.5, 0.0, 2.5, NAN]),
    (pa.bool_(), [False, True]),
    (pa.string(), ["", "a", "ab", "ü", "\U0001f600"]),
    (pa.large_string(), ["", "a", "z" * 5000, "z" * 5000 + "a"]),
    (pa.binary(), [b"", b"\x00", b"\xff"]),
    (pa.binary(2), [b"ab", b"zz"]),
    (pa.date32(), [dt.date(1900, 1, 1), dt.date(2024, 2, 29)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(1969, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]),
    (pa.timestamp("ms"), [dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1)]),
    (pa.time64("us"), [dt.time(0), dt.time(23, 59)]),
    (pa.duration("us"), [dt.timedelta(0), dt.timedelta(days=3)]),
    (pa.decimal128(20, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("12345678901234567.89")]),
]


@given(
    keys=st.lists(st.one_of(st.integers(0, 6), st.none())),
    target=st.integers(1, 5),
    wanted=st.lists(st.integers(-1, 8)),
)
def test_the_row_groups_of_keys(keys: list[int | None], target: int, wanted: list[int]) -> None:
    ordered = [*sorted(key for key in keys if key is not None), *(None for key in keys if key is None)]
    column = pa.array(ordered, pa.int64())
    places = cuts(column, target)
    assert places == sorted(set(places)) and (not keys or (places[0], places[-1]) == (0, len(keys)))
    groups = [ordered[start:end] for start, end in pairwise(places)]
    assert all(len(group) <= 2 * target for group in groups)
    directory = read_directory(footer_with(describe(column, places)), "key", pa.int64())
    assert directory is not None
    found = directory.groups_of(pa.array(wanted, pa.int64()))
    assert set(found) >= {n for n, group in enumerate(groups) if set(group) & set(wanted)}
    # A sorted file has few groups more: those that the keys lie between the ends of.
    ends = [[key for key in group if key is not None] for group in groups]
    low, high = wanted[:1], wanted[1:2]
    reaching = [n for n, group in enumerate(ends) if group and all(group[-1] >= key for key in low)]
    assert directory.groups_between(pa.array(low, pa.int64()), pa.array(high, pa.int64())) == [
        n for n in reaching if all(ends[n][0] <= key for key in high)
    ]
    assert found == [n for n, group in enumerate(ends) if group and any(group[0] <= key <= group[-1] for key in wanted)]


def test_a_key_that_fills_a_group_has_it_to_itself() -> None:
    assert cuts(pa.array([1] * 5 + [2] * 5 + [3] * 2 + [4] * 2), 4) == [0, 5, 10, 14]
    assert cuts(pa.array([1] * 20), 4) == [0, 8, 16, 20]
    assert cuts(pa.array([1, 2, 3, 4, 5]), 2) == [0, 2, 4, 5]


def footer_with(metadata: dict[str, str]) -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, pa.schema({"key": pa.int64()})) as writer:
        writer.add_key_value_metadata(metadata)
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


@pytest.mark.parametrize("strategy", ["rebuild", "no_rebuild"])
@pytest.mark.parametrize("foreign", [False, True], ids=["ours", "without a directory"])
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_keys_of_every_type(tmp_path: Path, kind: pa.DataType, values: list[Any], foreign: bool, strategy: str) -> None:
    keys = [*values * 3, None]
    archive = Archive.create(
        tmp_path,
        pa.schema({"key": kind, "n": pa.int64()}),
        "key",
        lifetime=8,
        every=2,
        g=2,
        e=2,
        strategy=strategy,
        bucket_bytes=32,
    )
    writer = Foreign() if foreign else ArrowWriter()
    for now in (2, 4):
        rows = pa.table({"key": pa.array(keys, kind), "n": pa.array(range(len(keys)), pa.int64())})
        expires = [now + 1 + n % 6 for n in range(len(keys))]
        archive.update(with_times(rows, [now] * len(keys), expires), now, writer=writer)
    alive = [n for now in (2, 4) for n in range(len(keys)) if now + 1 + n % 6 > 4]
    for value in values:
        same = [n for n in alive if keys[n] == value or (keys[n] != keys[n] and value != value)]
        assert sorted(archive.probe([value])["n"].to_pylist()) == sorted(same)
    assert sorted(archive.scan(["n"])["n"].to_pylist()) == sorted(alive)
    assert archive.probe([None]).num_rows == 0 and archive.probe([]).num_rows == 0
    # The values above are in ascending order, NaN last.
    place = {None if key is None else str(key): number for number, key in enumerate([*values, None])}
    for low, high in product([None, *values], repeat=2):
        least, most = (0 if low is None else place[str(low)]), place[None if high is None else str(high)]
        between = [n for n in alive if keys[n] is not None and least <= place[str(keys[n])] <= most]
        assert sorted(archive.probe_between(low, high)["n"].to_pylist()) == sorted(between)
    archive.close()


class Foreign(ArrowWriter):
    """Files as somebody else writes them: no directory, some other row groups."""

    def write(self, rewrite: Rewrite, spec: Spec) -> list[DataFile]:
        files = []
        for file in super().write(rewrite, spec):
            path = rewrite.folder / file.name
            rows = pq.read_table(path)
            pq.write_table(rows, path, row_group_size=3)
            size = path.stat().st_size
            files.append(describe_file(file.name, file.sub_index, size, times_of(rows, EXPIRES)))
        return files


def test_every_nan_is_one_key(tmp_path: Path) -> None:
    """Whatever its bits."""
    other = float(np.array([0xFFF8000000000001], dtype=np.uint64).view(np.float64)[0])
    archive = Archive.create(tmp_path, pa.schema({"x": pa.float64()}), "x", lifetime=8, every=2, g=2, e=2)
    archive.update(with_times(pa.table({"x": [NAN, other, 1.0]}), [1] * 3, [9] * 3), 2)
    for nan in (NAN, other):
        assert archive.probe([nan]).num_rows == 2 and archive.probe([nan, 1.0]).num_rows == 3
    archive.close()


def test_minus_zero_and_zero_are_one_key(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, pa.schema({"x": pa.float64()}), "x", lifetime=8, every=2, g=2, e=2)
    archive.update(with_times(pa.table({"x": [0.0, -0.0, 1.0]}), [1] * 3, [9] * 3), 2)
    for zero in (0.0, -0.0):
        assert archive.probe([zero]).num_rows == 2
        assert archive.probe_between(zero, zero).num_rows == 2
    archive.close()


def test_a_probe_reads_a_small_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"key": pa.array([n % 100 for n in range(10_000)]), "text": ["x" * 100] * 10_000})
    archive = Archive.create(tmp_path, rows.schema, "key", lifetime=8, every=2, g=2, e=2, bucket_bytes=1 << 12)
    archive.update(with_times(rows, [1 + n % 2 for n in range(10_000)], [3 + n % 6 for n in range(10_000)]), 2)
    read: list[int] = []
    real = pq.ParquetFile.read_row_groups

    def counted(self: pq.ParquetFile, groups: list[int], **options: Any) -> pa.Table:
        table = real(self, groups, **options)
        read.append(table.num_rows)
        return table

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    assert archive.probe([42]).num_rows == 100
    assert sum(read) <= 300
    read.clear()
    assert archive.probe([1000]).num_rows == 0 and not read
    archive.close()


def test_files_are_plain_parquet_sorted_by_key(tmp_path: Path) -> None:
    rows = pa.table({"key": [3, 1, 2, 1], "list": [[1], [], None, [2, 3]], "t": pa.array([1, 2, 3, 4], pa.date32())})
    archive = Archive.create(
        tmp_path, rows.schema, "key", lifetime=8, every=2, g=2, e=2, strategy="rebuild", bucket_bytes=1
    )
    archive.update(with_times(rows, [1, 1, 2, 2], [9, 8, 9, 9]), 2)
    stored = pa.concat_tables([pq.read_table(path) for path in archive.files()])
    assert stored.column_names == ["key", "list", "t", INSERTED, EXPIRES]
    assert stored.num_rows == 4
    for path in archive.files():
        keys = pq.read_table(path)["key"]
        assert pc.all(pc.equal(keys, keys.take(pc.sort_indices(keys)))).as_py()
    assert (
        archive.scan()
        .sort_by([("key", "ascending"), ("t", "ascending")])
        .equals(rows.sort_by([("key", "ascending"), ("t", "ascending")]))
    )
    archive.close()


def test_large_sub_indices_are_gathered_with_wide_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_writer, "WIDE_FROM_BYTES", 0)
    rows = pa.table({"key": ["b", "a", None], "raw": [b"1", None, b"3"], "list": [["x"], [], None]})
    archive = Archive.create(tmp_path, rows.schema, "key", lifetime=8, every=2, g=2, e=2, strategy="rebuild")
    archive.update(with_times(rows, [1] * 3, [9] * 3), 2)
    assert archive.scan().schema == rows.schema
    assert archive.probe(["b"]).to_pylist() == [{"key": "b", "raw": b"1", "list": ["x"]}]
    archive.close()
