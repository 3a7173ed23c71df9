"""The row groups that a probe of an archive reads: those of its keys, however many others there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.archive import Archive, with_times
from sash.archive.wanted_keys import KeyRange

PER_KEY = 40


def filled(directory: Path, keys: int) -> Archive:
    """An archive of 2 x 2 sub-indices; in each of them a key has a row group to itself."""
    rows = keys * PER_KEY
    records = pa.table({"key": [n // PER_KEY for n in range(rows)], "text": ["x" * 100] * rows})
    archive = Archive.create(
        directory, records.schema, "key", lifetime=8, every=2, g=2, e=2, strategy="rebuild", bucket_bytes=1000
    )
    for now in (2, 4):
        inserted, expires = [now] * rows, [now + 5 + 2 * (n % 2) for n in range(rows)]
        archive.update(with_times(records, inserted, expires), now)
    return archive


@pytest.mark.parametrize(
    ("low", "high", "wanted"), [(7, 7, 1), (3, 9, 7), (None, 4, 5), (35, None, 5), (9, 3, 0), (99, None, 0)]
)
@pytest.mark.parametrize("keys", [40, 160])
def test_a_range_reads_the_row_groups_of_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int, low: int | None, high: int | None, wanted: int
) -> None:
    if low in (35, 99) and high is None:
        low += keys - 40
    archive, read = filled(tmp_path, keys), list[int]()
    real = pq.ParquetFile.read_row_groups

    def counted(self: pq.ParquetFile, groups: list[int], **options: Any) -> pa.Table:
        read.extend(groups)
        return real(self, groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    assert archive.probe_between(low, high).num_rows == wanted * 2 * PER_KEY
    # Twice 20 rows of a key lie in each of the four sub-indices: row groups of two buckets at most.
    size = archive.probe_size(KeyRange.of(low, high, archive.spec))
    assert len(read) == size.row_groups and size.of_row_groups >= 4 * keys
    assert wanted * 4 <= len(read) <= wanted * 4 * -(-size.of_row_groups // (4 * keys))
    assert size.files == (4 if wanted else 0) and size.of_files == 4
    archive.close()
