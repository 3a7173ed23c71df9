"""Files are wholly there or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

from sash.storage.files import read_table, write_bytes, write_json, write_table

TABLE = pa.table({"n": [1, 2, 3], "word": ["a", None, "ü"]})


def test_round_trip(tmp_path: Path) -> None:
    checksum = write_table(tmp_path / "t.arrow", TABLE)
    assert read_table(tmp_path / "t.arrow", checksum).equals(TABLE)
    write_json(tmp_path / "j.json", {"n": 2**60, "none": None})
    assert json.loads((tmp_path / "j.json").read_text()) == {"n": 2**60, "none": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.json", "t.arrow"]


def test_an_empty_table_keeps_its_schema(tmp_path: Path) -> None:
    checksum = write_table(tmp_path / "t.arrow", TABLE.slice(0, 0))
    assert read_table(tmp_path / "t.arrow", checksum).schema == TABLE.schema


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bytes(tmp_path / "f", b"old")

    def fail(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_bytes(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    checksum = write_table(path, TABLE)
    data = path.read_bytes()
    for place in range(0, len(data), 37):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(ValueError, match="checksum"):
            read_table(path, checksum)
