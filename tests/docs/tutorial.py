"""The tutorial as a list of steps: files to write, commands to run, and the output that the page shows of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """Commands, one in a line; `files` are written before them, `shown` is what they print, in parts."""

    commands: list[str]
    files: dict[str, str]
    shown: list[str] = field(default_factory=list)


def steps(page: str) -> list[Step]:
    """`shell` blocks need the network, and are left to the reader."""
    found: list[Step] = []
    files: dict[str, str] = {}
    for language, title, text in BLOCK.findall(page):
        if title:
            files[title] = text
        elif language == "bash":
            found.append(Step(text.splitlines(), files))
            files = {}
        elif language == "text":
            found[-1].shown.append(text)
    return found
