"""A checkpoint on a small disk: the session stops with a clear error, and goes on when there is space again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.engine.test_hard_kill import write_data
from tests.engine.test_lost_executor import by_time
from tests.support.cluster import QUERIES, declare, line_of

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(300)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of a few pages; only where the tests may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    if _mount("-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)):
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _mount(*arguments: str) -> int:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode
    except FileNotFoundError:
        return 1


def run(spark: Any, data: Path, checkpoint: Path, lines: list[str]) -> None:
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        declare(session, str(data))
        for name, text in QUERIES.items():
            session.register(text, name=name).subscribe(lambda answer: lines.append(line_of(answer)))
        session.run()


def test_a_disk_that_is_full_and_then_is_not(spark: Any, tmp_path: Path, small_disk: Path) -> None:
    write_data(tmp_path / "data", files=24)
    expected: list[str] = []
    run(spark, tmp_path / "data", tmp_path / "whole", expected)
    lines: list[str] = []
    for _ in range(2):
        # Also the second time: nothing of what is there is lost by trying.
        with pytest.raises(sash.SashError, match="No space left on device"):
            run(spark, tmp_path / "data", small_disk / "c", lines)
    assert 0 < len(by_time(lines)) < len(by_time(expected))
    assert _mount("-o", "remount,size=64m", str(small_disk)) == 0
    run(spark, tmp_path / "data", small_disk / "c", lines)
    assert by_time(lines) == by_time(expected)
