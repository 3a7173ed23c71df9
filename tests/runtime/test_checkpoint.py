"""The checkpoint directory: what it accepts, and its errors."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sash.core.changes import INSTANT
from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.runtime.commands.declare import check_same
from sash.runtime.records.checkpoint import FORMAT, Checkpoint
from sash.runtime.session import connect
from tests.support.faults import DAMAGES, Death, FullDisk, Killed, dying
from tests.support.streams import stream

OLD = Path(__file__).parent / "checkpoints"


@pytest.mark.parametrize("format", [3, 4])
def test_a_checkpoint_of_an_older_version_is_refused(format: int, tmp_path: Path) -> None:
    """Two that these versions have written: a stream, a query, a snapshot and an entry after it."""
    old, place = OLD / f"format-{format}", tmp_path / "c"
    shutil.copytree(old, place)
    with pytest.raises(CheckpointError) as raised:
        Checkpoint(place)
    assert str(raised.value) == (
        f"the checkpoint {place} has format {format}, this version of Sash reads format {FORMAT}; "
        "use the version that wrote it, or another directory"
    )
    for path in (path for path in old.rglob("*") if path.is_file() and path.name != "owner.lock"):
        assert (place / path.relative_to(old)).read_bytes() == path.read_bytes(), "nothing is changed"


def test_one_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sash.json").write_text(json.dumps({"format": FORMAT + 1, "anything": "else"}))
    with pytest.raises(CheckpointError, match=f"has format {FORMAT + 1}"):
        Checkpoint(tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped"])
def test_a_damaged_format_is_refused(tmp_path: Path, damage: str) -> None:
    Checkpoint(tmp_path).close()
    DAMAGES[damage](tmp_path / "sash.json")
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"sash\.json is damaged"):
            Checkpoint(tmp_path)


def test_a_death_at_every_moment_of_the_first_opening(tmp_path: Path) -> None:
    with listening(counting := Death(at=-1)):
        whole = Checkpoint(tmp_path / "whole")
    whole.close()
    for at in range(1, counting.moments + 1):
        with pytest.raises(Killed), dying(at):
            Checkpoint(tmp_path / str(at))
        again = Checkpoint(tmp_path / str(at))
        assert again.history.version == 0
        again.close()


def test_a_full_disk(tmp_path: Path) -> None:
    with listening(FullDisk(1)), pytest.raises(CheckpointError, match="No space left on device"):
        Checkpoint(tmp_path / "c")
    Checkpoint(tmp_path / "c").close()


@pytest.mark.parametrize("address", ["file://{}/a%20state", "file:{}/a state", "FILE:///{}/a state", "{}/a state"])
def test_a_path_and_a_file_address_are_one_directory(tmp_path: Path, address: str) -> None:
    Checkpoint(address.format(tmp_path)).close()
    assert [path.name for path in tmp_path.iterdir()] == ["a state"]


@pytest.mark.parametrize("address", ["s3a://bucket/state", "hdfs:///state", "gs://b", Path("s3a://bucket/state")])
def test_any_other_address_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"is on (s3a|hdfs|gs): give a path, or file:///path, that this machine"):
        connect(checkpoint=address)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["file://state/dir", "file:///x#1", "file:///x?y"])
def test_a_file_address_with_more_than_a_path_is_refused(address: str) -> None:
    with pytest.raises(CheckpointError, match=r"names no directory of this machine: write file:///path"):
        connect(checkpoint=address)


def test_a_name_with_a_colon_is_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Checkpoint("state:1").close()
    assert (tmp_path / "state:1").is_dir()


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"ts": INSTANT, "v": pa.int64()}, "'v' is int64 here and int32 there"),
        ({"ts": INSTANT}, "'v' is only in the checkpoint"),
        ({"ts": INSTANT, "v": pa.int32(), "w": pa.string()}, "'w' is only here"),
        ({"v": pa.int32(), "ts": INSTANT}, "their order is v, ts here and ts, v there"),
    ],
)
def test_what_differs_in_a_stream_is_named(now: dict[str, pa.DataType], told: str) -> None:
    known = replace(stream(), schema=pa.schema({"ts": INSTANT, "v": pa.int32()}))
    with pytest.raises(CheckpointError, match=f"other columns here than in the checkpoint: {told}; declare it as"):
        check_same(replace(known, schema=pa.schema(now)), known)
