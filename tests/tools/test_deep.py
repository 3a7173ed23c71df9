"""`make deep`: which parts ran, and that a failure is one however the part ended."""

from __future__ import annotations

import sys

import pytest

from tools import deep


@pytest.mark.parametrize(("code", "failed"), [(0, 0), (1, 1), (-9, 1)])
def test_parts_are_listed_and_a_failure_is_told(
    code: int, failed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deep, "run", lambda part: (code if part is deep.PARTS["texts"] else 0, 2.0))
    monkeypatch.setattr(sys, "argv", ["deep.py", "texts", "kills"])
    assert deep.main() == failed
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[-len(deep.PARTS) :]] == list(deep.PARTS)
    assert f"texts       {'failed' if failed else 'passed'}, 2 min" in printed
    assert "kills       passed, 2 min" in printed and "spark       not run" in printed


def test_an_unknown_part_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["deep.py", "kill"])
    with pytest.raises(SystemExit):
        deep.main()
    assert "there is no part 'kill'; parts are properties, spark" in capsys.readouterr().err
