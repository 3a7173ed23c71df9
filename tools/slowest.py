"""Prints the slowest twenty tests of a run, from the file that `make test` leaves."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

MOST = 20


def slowest(report: Path) -> list[tuple[float, str]]:
    cases = ElementTree.parse(report).iter("testcase")
    times = [(float(case.get("time", "0")), f"{case.get('classname')}::{case.get('name')}") for case in cases]
    return sorted(times, reverse=True)[:MOST]


if __name__ == "__main__":
    path = Path(sys.argv[1])
    if not path.exists():
        sys.exit(f"there is no {path} yet: run make test first")
    for seconds, name in slowest(path):
        print(f"{seconds:7.1f} s  {name}")
