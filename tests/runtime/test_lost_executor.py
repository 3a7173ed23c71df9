"""Executors of a cluster: some die while they work, and some have a file system of their own.

When executors die, Spark asks others, which read the state from its files. Answers are the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.runtime.test_hard_kill import ROOT, write_data
from tests.support.cluster import QUERIES, declare, line_of

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(0)]


def by_time(lines: list[str]) -> dict[tuple[str, str], Any]:
    """Every answer once, and the same if it came again."""
    found: dict[tuple[str, str], Any] = {}
    for query, as_of, *rest in map(json.loads, lines):
        assert found.setdefault((query, as_of), rest) == rest
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="executors are found in /proc")
def test_executors_that_are_killed(spark: Any, tmp_path: Path) -> None:
    write_data(tmp_path / "data", files=4)
    lines: list[str] = []
    with sash.connect(spark=spark) as session:
        declare(session, str(tmp_path / "data"))
        for name, text in QUERIES.items():
            session.register(text, name=name).subscribe(lambda answer: lines.append(line_of(answer)))
        session.run()
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "tests.support.cluster", str(tmp_path / "data"), str(tmp_path / "c"), str(out)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert int(run.stdout.splitlines()[-1]) == 2
    expected = by_time(lines)
    assert {query for query, _ in expected} == set(QUERIES) and len(expected) > 8
    assert by_time(out.read_text().splitlines()) == expected


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="the checkpoint is where each process works")
def test_executors_that_do_not_share_the_checkpoint(tmp_path: Path) -> None:
    """`/proc/self/cwd` is a directory of its own for each of them. Nothing is committed, and the message says why."""
    write_data(tmp_path / "data", files=4)
    where, out = Path("/proc/self/cwd/state"), tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "tests.support.cluster", str(tmp_path / "data"), str(where), str(out)]
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    for _ in range(2):
        run = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        assert run.returncode == 1
        assert "executors do not see it; connect with a checkpoint on a file system that they share" in run.stderr
    assert {json.loads(line)[0] for line in out.read_text().splitlines()} <= {"totals"}
