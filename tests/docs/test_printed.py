"""README.md, docs/examples.md, docs/python.md and docs/language.md are run as they stand, and show what is printed."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sash.cli import app

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# KLL tosses coins: this answer is another one in each run.
RANDOM = "estimates as of"


def section(text: str, title: str) -> str:
    """From a heading to the next one of its level or above; a comment in a block of code is no heading."""
    plain = BLOCK.sub(lambda block: "." * len(block[0]), text)
    heading = re.search(rf"^(#+) {title}$", plain, re.MULTILINE)
    assert heading, title
    following = re.search(rf"^#{{1,{len(heading[1])}}} ", plain[heading.end() :], re.MULTILINE)
    return text[heading.end() : heading.end() + following.start() if following else None]


def blocks(text: str, language: str) -> list[str]:
    return [block for found, block in BLOCK.findall(text) if found == language]


def at_home(text: str, folder: Path) -> str:
    """The JVM of the shared Spark session was started in another directory."""
    text = re.sub(r"path '(\w+)'", rf"path '{folder}/\1'", text)
    return text.replace('.csv("packets")', f'.csv("{folder}/packets")')


def shows(shown: str, printed: str) -> bool:
    """An answer is shown whole, of EXPLAIN the lines that the page is about."""
    if " as of " in shown.partition("\n")[0]:
        return shown in printed
    return set(shown.splitlines()) <= set(printed.splitlines())


def printed_by_sash(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def printed_by_python(text: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "block", "exec"), {"__name__": "__main__"})
    return out.getvalue()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def make_packets(folder: Path) -> None:
    """The few packets that README.md writes, and that other pages use."""
    packets, _ = blocks(section(page("README.md"), "Quick start"), "bash")
    subprocess.run(["bash", "-c", packets], cwd=folder, check=True, timeout=30)


def test_the_quick_start(here: Path) -> None:
    make_packets(here)
    start = section(page("README.md"), "Quick start")
    _, command = blocks(start, "bash")
    (script,), (shown,), (program,) = (blocks(start, language) for language in ("sql", "json", "python"))
    (here / "packets.sql").write_text(at_home(script, here))
    assert printed_by_sash(*command.split()[1:]) == shown
    *answers, question = printed_by_python(at_home(program, here)).splitlines()
    assert len(answers) == 4 and "10.0.0.1" in question


def test_the_page_of_python(here: Path) -> None:
    """One block after the other; the last one continues from its checkpoint."""
    make_packets(here)
    programs = blocks(page("docs/python.md"), "python")
    printed = printed_by_python(at_home("\n".join(programs), here))
    assert len(programs) >= 11
    first, second = printed.splitlines()[-2:]
    assert first == second and "2026-01-01 00:00:20" in first


def test_the_page_of_the_language(here: Path) -> None:
    """Every statement, one after the other, as one script."""
    make_packets(here)
    script = here / "language.sql"
    script.write_text(at_home("\n".join(blocks(page("docs/language.md"), "sql")), here))
    printed = printed_by_sash("run", str(script), "--until-drained")
    assert "surges as of 2026-01-01 00:00:20 UTC" in printed
    assert "talkers as of" not in printed, "DROP QUERY talkers"


def test_the_page_of_examples(here: Path) -> None:
    examples = page("docs/examples.md")
    printed_by_python(blocks(section(examples, "The data"), "python")[0])
    compared = 0
    for title, name in (("Traffic", "traffic"), ("Trades", "trades"), ("Who shares with whom", "sharing")):
        part = section(examples, title)
        (here / f"{name}.sql").write_text(at_home("\n".join(blocks(part, "sql")), here))
        printed = printed_by_sash("explain", f"{name}.sql")
        if name != "sharing":
            printed += printed_by_sash("run", f"{name}.sql", "--until-drained")
        for shown in blocks(part, ""):
            assert shown.startswith(RANDOM) or shows(shown, printed), shown
            compared += 1
    assert compared >= 17
    (program,), (shown,) = (blocks(section(examples, "In Python"), language) for language in ("python", ""))
    assert printed_by_python(program) == shown


def test_the_schedules_of_the_page_of_examples() -> None:
    schedules = section(page("docs/examples.md"), "Schedules")
    (program,), (shown,) = (blocks(schedules, language) for language in ("python", ""))
    assert printed_by_python(program) == shown
