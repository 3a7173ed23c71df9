"""`make figures` measures, draws and describes every folder of papers/, and the table of verdicts has every figure."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import papers
from papers import figures
from papers.figures import FIGURES, HERE, TOPICS, commands

VERDICTS = {"holds", "in part", "differs", "not measured"}


@pytest.mark.parametrize("topic", TOPICS)
def test_a_folder_is_measured_once_and_drawn(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "OUT", tmp_path)
    quick, full = (commands(topic, full=each, again=False) for each in (False, True))
    assert quick[0] == [sys.executable, "-m", f"papers.{topic}.run", "--quick"]
    drawings = [command for command in quick if ".draw" in command[2]]
    assert drawings[0] == [sys.executable, "-m", f"papers.{topic}.draw", "--quick"]
    assert full[0] == quick[0][:3] and all("--quick" not in command for command in full)
    for each in (tmp_path, tmp_path / "quick"):
        for name in (f"{topic}.json", f"{topic}.csv", "archive_large.json", "isolation_flights.json"):
            (each / name).touch()
    assert commands(topic, full=False, again=False) == drawings
    assert all("run" not in command[2] for command in commands(topic, full=True, again=False))
    assert commands(topic, full=False, again=True) == quick
    assert f"| `{topic}` |" in (HERE / "README.md").read_text(encoding="utf-8")


def test_every_folder_is_a_topic_with_figures() -> None:
    assert sorted(path.parent.name for path in HERE.glob("*/__init__.py")) == TOPICS == sorted(set(FIGURES.values()))
    assert len(FIGURES) == 40


def test_every_figure_has_a_verdict() -> None:
    page = (HERE.parent / "docs" / "reproduction.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| **")]
    listed = [name for row in rows for name in re.findall(r"(?:I |A )?\d+(?:\.\d+)?", row[0].split(":")[0])]
    assert listed == list(FIGURES)
    assert all(len(row) == 4 and all(row) and row[3] in VERDICTS for row in rows)


def test_an_unknown_topic_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["figures", "join"])
    with pytest.raises(SystemExit):
        figures.main()
    assert "there is no topic 'join'; topics are archive, frequent" in capsys.readouterr().err
