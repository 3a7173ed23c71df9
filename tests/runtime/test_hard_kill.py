"""SIGKILL at random moments: a session connected again continues where it was, no tuple lost or counted twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.core.time import SECOND
from sash.spark.placement import NEAR
from tests.support.streams import START
from tests.support.victim import ARCHIVED, CONTINUOUS, QUERIES, QUESTIONS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
# So many times in a row a run may be killed before it is left to end.
LONGEST_CHAIN = 6


def write_data(directory: Path, files: int, rows: int = 100) -> None:
    """Files of 2.5 s, with more rows longer, slightly out of order within the delay."""
    chance = random.Random(3)
    directory.mkdir()
    for part in range(files):
        begin = START + part * rows * SECOND // 40
        stamps = [begin + i * 25_000 - chance.randrange(800_000) for i in range(rows)]
        table = pa.table(
            {
                "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
                "k": pa.array([chance.randrange(5) for _ in stamps], pa.int32()),
                "g": pa.array([chance.choice(["x", "y", None]) for _ in stamps]),
                "v": pa.array([chance.randrange(100) for _ in stamps], pa.int32()),
            }
        )
        path = directory / f"part-{part:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_600_000_000 + part, 1_600_000_000 + part))


def run_victim(
    data: Path,
    checkpoint: Path,
    out: Path,
    kill_at: int | None = None,
    executor_rows: int = NEAR,
    seconds: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Kills itself at a step, if one is given; is killed after some seconds anyway."""
    arguments = [str(data), str(checkpoint), str(out), str(executor_rows), *([str(kill_at)] if kill_at else [])]
    command = [sys.executable, "-m", "tests.support.victim", *arguments]
    # Into files: a pipe would be waited for until the JVM is gone, and the next one is to meet it dying.
    said, complained = out.with_suffix(".out"), out.with_suffix(".err")
    with open(said, "w") as stdout, open(complained, "w") as stderr:
        try:
            code = subprocess.run(
                command, cwd=ROOT, stdout=stdout, stderr=stderr, timeout=seconds, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
    return subprocess.CompletedProcess(command, code, said.read_text(), complained.read_text())


def answers(out: Path) -> dict[tuple[str, str], Any]:
    """Every answer by query and time. One that came twice must have been the same both times."""
    found: dict[tuple[str, str], Any] = {}
    for line in out.read_text().splitlines():
        answer = json.loads(line)
        key = (answer["query"], answer["as_of"])
        value = (answer["complete"], _normal(answer["rows"]))
        assert found.setdefault(key, value) == value, key
    return found


def _normal(rows: list[dict[str, Any]]) -> list[Any]:
    rounded = [{k: round(v, 9) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    return sorted(rounded, key=lambda row: json.dumps(row, sort_keys=True))


def check_kills(tmp_path: Path, kills: int, seed: int) -> None:
    data = tmp_path / "data"
    # A minute, in few micro-batches, but more than the victim has between two snapshots.
    write_data(data, files=10, rows=240)
    began = time.monotonic()
    whole = run_victim(data, tmp_path / "whole", tmp_path / "whole.jsonl")
    took = time.monotonic() - began
    assert whole.returncode == 0, whole.stderr[-2000:]
    expected, steps = answers(tmp_path / "whole.jsonl"), int(whole.stdout.splitlines()[-1])
    asked = {*QUERIES, *CONTINUOUS, *QUESTIONS, *ARCHIVED, "later"}
    assert len(expected) > 60 and {name for name, _ in expected} == asked
    chance, died, tried, chain = random.Random(seed), 0, 0, 0
    while died < kills:
        checkpoint, out = tmp_path / f"killed-{chain}", tmp_path / f"killed-{chain}.jsonl"
        where = [f"seed {seed}, chain {chain}, {steps} steps"]
        # Each process goes on where the one before was killed: while it recovers, soon after, or later.
        while died < kills and len(where) <= LONGEST_CHAIN:
            began = time.monotonic()
            killed = _killed_run(data, checkpoint, out, chance, tried, steps, took, where)
            tried += 1
            if killed.returncode == 0:
                # It was faster, and has done everything; if it had all to do, the next one will not have so much time.
                took = min(took, time.monotonic() - began) if len(where) == 2 else took
                break
            assert killed.returncode == -signal.SIGKILL, (where, killed.stderr[-2000:])
            died += 1
        again = run_victim(data, checkpoint, out)
        assert again.returncode == 0, (where, again.stderr[-2000:])
        assert answers(out) == expected, where
        chain += 1


def _killed_run(
    data: Path,
    checkpoint: Path,
    out: Path,
    chance: random.Random,
    tried: int,
    steps: int,
    took: float,
    where: list[str],
) -> subprocess.CompletedProcess[str]:
    if tried % 4 == 3:
        # In the middle of anything, Spark's work included.
        where.append("by the clock")
        return run_victim(data, checkpoint, out, seconds=took * chance.uniform(0.2, 0.95))
    # The first dies early, with its continuous plans on Spark's executors, where a micro-batch takes long for so
    # few tuples; the next one goes on without them.
    far = tried == 0
    at = chance.randrange(steps // 20, steps // 6) if far else chance.randrange(1, steps // 2)
    where.append(f"at step {at}")
    return run_victim(data, checkpoint, out, at, executor_rows=0 if far else NEAR)


@pytest.mark.deep
def test_three_kills(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=3, seed=11)


@pytest.mark.deep
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(10))
def test_two_hundred_kills(tmp_path: Path, part: int) -> None:
    check_kills(tmp_path, kills=20, seed=random.randrange(10**6))
