"""The tutorial is run as it stands, over the real log if it is there, and shows what it prints."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sash.cli import app
from tests.docs.tutorial import PAGE, Step, steps

LOG = Path(os.environ.get("SASH_ACCESS_LOG", Path(__file__).parents[3] / "shared" / "data" / "apache_logs"))


def run(command: str, folder: Path) -> str:
    """What a command prints. Those of Sash and Python run in this process, where Spark is up already."""
    program, *arguments = shlex.split(command)
    if program == "sash":
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout
    if program == "python":
        runpy.run_path(arguments[0], run_name="__main__")
        return ""
    subprocess.run(command, shell=True, cwd=folder, check=True, timeout=30)
    return ""


def write(step: Step, folder: Path) -> None:
    for name, text in step.files.items():
        # The JVM of the shared Spark session was started in another directory.
        (folder / name).write_text(text.replace("path 'logs'", f"path '{folder}/logs'"))


def test_nothing_is_installed_from_a_registry() -> None:
    """Sash is in no registry: the texts tell users to install extras in the checkout."""
    root = Path(__file__).parents[2]
    told = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py")]
    assert [path for path in told if re.search(r"pip install [^\n`]*\bsash\b", path.read_text(encoding="utf-8"))] == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.skipif(not LOG.exists(), reason=f"no {LOG.name} beside the project")
def test_the_tutorial_shows_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(LOG, "apache_logs")
    compared = 0
    for step in steps(PAGE.read_text(encoding="utf-8")):
        write(step, tmp_path)
        capsys.readouterr()
        printed = "".join(run(command, tmp_path) for command in step.commands) + capsys.readouterr().out
        for shown in step.shown:
            assert shown in printed
            compared += 1
    assert compared >= 8


def test_every_command_has_its_files() -> None:
    """Without the log, at least: each file that a command names is written before it, or made by a command."""
    made = {"apache_logs"}
    for step in steps(PAGE.read_text(encoding="utf-8")):
        made |= set(step.files)
        for command in step.commands:
            words = re.sub(r"\s+> \S+$", "", command).split()
            assert {word for word in words if word.endswith((".sql", ".py"))} <= made, command
            made |= set(re.findall(r"> (\S+)$", command))
