"""The pictures of the runtime in docs/architecture/runtime.md have exactly the existing modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "src" / "sash" / "runtime"
PAGE = (ROOT / "docs" / "architecture" / "runtime.md").read_text(encoding="utf-8")
FOLDERS, PERIODIC = re.findall(r"^```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[:2]


def drawn(picture: str) -> set[str]:
    return set(re.findall(r"\b(\w+\.py)\b", picture))


def modules(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.py")} - {"__init__.py"}


@pytest.mark.parametrize("folder", [".", "streams"])
def test_no_module_is_missing(folder: str) -> None:
    assert modules(RUNTIME / folder) <= drawn(FOLDERS)


def test_every_folder_is_there() -> None:
    folders = {path.parent.name for path in RUNTIME.glob("*/__init__.py")}
    assert set(re.findall(r"\b(\w+)/ ", FOLDERS)) == folders


def test_nothing_is_drawn_that_is_gone() -> None:
    assert drawn(FOLDERS) <= {path.name for path in RUNTIME.rglob("*.py")}
    assert drawn(PERIODIC) <= modules(RUNTIME / "periodic")
