"""SIGKILL while a window, or panes, are stored in files: none is lost, none counts twice, none is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sash.core.time import SECOND
from tests.runtime.test_session import write
from tests.support.streams import START
from tests.support.window_victim import STEPS, store_window

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]


def run_victim(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.window_victim", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.usefixtures("spark")
def test_killed_and_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str], step: str) -> None:
    """Before the commit of an epoch its files exist already; after it, the files that left the window still exist.

    This process goes on where the killed one was.
    """
    for part in range(5):
        write(tmp_path / "data", part, [(i / 5 + 0.05, i % 4, i) for i in range(part * 20, part * 20 + 20)])
    arguments = (str(tmp_path / "data"), str(tmp_path / "c"))
    killed = run_victim("window", *arguments, step, "4")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    capsys.readouterr()
    store_window(*arguments)
    rows = list(range(70, 100))
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"rows": rows, "n": len(rows), "t": sum(rows)}
    panes = sorted(path.name for path in (tmp_path / "c").rglob("_pane=*") if path.is_dir())
    assert panes == [f"_pane={START + second * SECOND}" for second in range(15, 21)]


def answers(path: Path) -> dict[str, object]:
    """By time. One that came twice must have been the same both times."""
    found: dict[str, object] = {}
    for line in path.read_text().splitlines():
        answer = json.loads(line)
        assert found.setdefault(answer["as_of"], answer) == answer
    return found


def written(directory: Path) -> dict[str, list[str]]:
    """What a sink has, by the directory of each answer."""
    found: dict[str, list[str]] = {}
    for path in directory.rglob("*.json"):
        found.setdefault(path.parent.name, []).extend(sorted(path.read_text().splitlines()))
    return found


def test_panes_in_the_cluster(tmp_path: Path) -> None:
    """Killed after files were written, after an epoch was committed, after files were let go; continued each time."""
    for part in range(6):
        write(tmp_path / "data", part, [(i / 5 + 0.05, i % 4, i) for i in range(part * 20, part * 20 + 20)])
    data = str(tmp_path / "data")
    whole = run_victim("panes", data, str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr[-2000:]
    for step in STEPS:
        killed = run_victim("panes", data, str(tmp_path / "c"), step, "2")
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    again = run_victim("panes", data, str(tmp_path / "c"))
    assert again.returncode == 0, again.stderr[-2000:]
    assert answers(tmp_path / "c.jsonl") == answers(tmp_path / "whole.jsonl")
    expected_in_sink = written(tmp_path / "whole.sink")
    assert written(tmp_path / "c.sink") == expected_in_sink and len(expected_in_sink) > 5
    left, expected = (sorted(path.name for path in (tmp_path / name).rglob("_pane=*")) for name in ("c", "whole"))
    assert left == expected and len(set(left)) == 2
