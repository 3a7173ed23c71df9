"""`make figures` measures, draws and describes every folder of papers/."""

from __future__ import annotations

import sys

import pytest

from papers import figures
from papers.figures import HERE, TOPICS, commands


@pytest.mark.parametrize("topic", TOPICS)
def test_a_folder_is_measured_once_and_drawn(topic: str) -> None:
    drawings = commands(topic, measured=True)
    assert drawings and all(module.startswith(f"papers.{topic}.draw") for _, _, module in drawings)
    assert commands(topic, measured=False) == [[sys.executable, "-m", f"papers.{topic}.run"], *drawings]
    assert f"| `{topic}` |" in (HERE / "README.md").read_text(encoding="utf-8")


def test_every_folder_is_a_topic() -> None:
    assert sorted(path.parent.name for path in HERE.glob("*/__init__.py")) == TOPICS


def test_an_unknown_topic_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["figures", "join"])
    with pytest.raises(SystemExit):
        figures.main()
    assert "there is no topic 'join'; topics are archive, frequent" in capsys.readouterr().err
