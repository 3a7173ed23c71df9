"""The processes below a process, where the system has /proc."""

from __future__ import annotations

from pathlib import Path


def descendants(process: int, word: str) -> list[int]:
    """Those whose command line has a word."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found, line = [], [process]
    while line:
        mine = children.get(line.pop(), [])
        line += mine
        found += [each for each in mine if word in _command(each)]
    return sorted(found)


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
