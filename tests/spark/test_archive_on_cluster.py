"""Spark as the writer of an archive, with executors that are processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.deep
def test_executors_write_and_read_an_archive(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.archive_on_cluster", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows, written = map(int, done.stdout.split()[-2:])
    assert rows == 120 and written > 3
