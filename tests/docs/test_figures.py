"""The figures in docs/reliability.md are those of the pages that they are taken from, and can be repeated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sash.cli.bench import benchmarks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `([^|`]+)` \| \[[^]]+\]\((\w+\.md)#([\w-]+)\) \|$", re.MULTILINE)
ROWS = ROW.findall((DOCS / "reliability.md").read_text(encoding="utf-8"))


def section(page: str, anchor: str) -> str:
    """The text under a heading, which may be of any level."""
    parts = re.split(r"^#+ (.+)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in parts[1::2]]
    return parts[2 * anchors.index(anchor) + 2]


def test_what_is_promised_was_measured() -> None:
    wanted = {"overload", "policies", "neighbours", "panes", "a stored window"}
    assert all(any(row[0].startswith(each) for row in ROWS) for each in wanted)


@pytest.mark.parametrize("row", ROWS, ids=[row[0].split(":")[0] for row in ROWS])
def test_figures_are_those_of_their_page(row: tuple[str, ...]) -> None:
    _, figures, command, page, anchor = row
    told = set(re.findall(r"\d[\d.,]*\d|\d", section(page, anchor)))
    assert (found := set(re.findall(r"\d[\d.,]*\d|\d", figures))) and found <= told
    name = re.search(r'benchmarks\.run_(\w+)$|ARGS="(\w+)', command)
    assert name is not None and (name[1] or name[2]) in benchmarks(ROOT)
