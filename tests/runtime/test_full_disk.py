"""A small disk for the checkpoint, or for Spark's temporary files: a session, or a process, stops with a clear error,
and goes on when there is space again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.cli.examples import CREATE, TOTALS
from tests.cli.test_run import answers_until, live, totals, totals_in
from tests.runtime.test_hard_kill import write_data
from tests.runtime.test_lost_executor import by_time
from tests.server.test_serve import LIMIT, write
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
        # Also the second time: an attempt loses nothing.
        with pytest.raises(sash.SashError, match="No space left on device"):
            run(spark, tmp_path / "data", small_disk / "c", lines)
    assert 0 < len(by_time(lines)) < len(by_time(expected))
    assert _mount("-o", "remount,size=64m", str(small_disk)) == 0
    run(spark, tmp_path / "data", small_disk / "c", lines)
    assert by_time(lines) == by_time(expected)


def fill(place: Path) -> Path:
    """Up to the last page."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


@pytest.mark.timeout(900)
@pytest.mark.parametrize("full", ["checkpoint", "spark.local.dir"])
def test_a_process_says_what_is_full(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    assert _mount("-o", "remount,size=8m", str(small_disk)) == 0
    checkpoint, data, script = tmp_path / "c", tmp_path / "data", tmp_path / "script.sql"
    if full == "checkpoint":
        checkpoint = small_disk / "c"
    else:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(small_disk))
    data.mkdir()
    write(data, "0", range(1, 8))
    script.write_text(CREATE.format(path=data) + TOTALS)
    with live(script, "--checkpoint", checkpoint) as process:
        assert answers_until(process, 5) == totals(5)
        filler = fill(small_disk)
        write(data, "1", range(8, 13))
        while process.poll() is None:
            # What Spark has removed meanwhile would be room.
            fill(small_disk)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        _, told = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and "No space left on device" in told and "Traceback" not in told
    assert (str(checkpoint) if full == "checkpoint" else full) in told
    filler.unlink()
    with live(script, "--checkpoint", checkpoint, "--until-drained") as process:
        rest, told = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, told
    assert dict(map(totals_in, rest.splitlines()))[10] == totals(10)[10]
