"""Runs the long tests, part by part, and lists at the end which parts ran: `make deep`, or `make deep ARGS="kills"`.

A part that fails does not keep the others from running. Times are those of two cores with nothing beside.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass

SPREAD = ("--numprocesses=auto", "--dist=loadfile")


@dataclass(frozen=True)
class Part:
    """Some tests of one kind: `arguments` are pytest's, `minutes` about how long they take."""

    about: str
    minutes: int
    arguments: tuple[str, ...]


_TEXTS, _KILLS = "tests/sql/test_hostile_text.py", "tests/runtime/test_hard_kill.py"
_PAPERS = "tests/papers"
PARTS = {
    "properties": Part("all examples of property tests without a JVM", 15, ("-m=not spark and not deep", *SPREAD)),
    "spark": Part("all examples of property tests with Spark", 10, ("-m=spark and not deep", *SPREAD)),
    "moments": Part(
        "a fault at every moment", 5, ("-m=deep and not spark", f"--ignore={_TEXTS}", f"--ignore={_PAPERS}", *SPREAD)
    ),
    "papers": Part("the papers' experiments, small", 2, ("-m=deep", _PAPERS, *SPREAD)),
    "texts": Part("a million hostile texts", 15, ("-m=deep", _TEXTS, *SPREAD)),
    "processes": Part("clusters, brokers, slow cases with Spark", 25, ("-m=deep and spark", f"--ignore={_KILLS}")),
    "kills": Part("two hundred hard kills", 110, ("-m=deep", _KILLS)),
}


def run(part: Part) -> tuple[int, float]:
    """The exit code and the minutes of a part."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "--timeout=0", *part.arguments]
    code = subprocess.run(command, env={**os.environ, "HYPOTHESIS_PROFILE": "deep"}, check=False).returncode
    return code, (time.monotonic() - began) / 60


def outcome(code: int, minutes: float) -> str:
    return f"{'failed' if code else 'passed'}, {minutes:.0f} min"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog='make deep ARGS="..."',
        description=f"The long tests, about {sum(part.minutes for part in PARTS.values()) / 60:.0f} hours in all.",
        epilog="\n".join(f"  {name:11} {part.minutes:4} min  {part.about}" for name, part in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="parts to run, by default all of them")
    chosen = parser.parse_args().parts or list(PARTS)
    if unknown := [name for name in chosen if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; parts are {', '.join(PARTS)}")
    ran: dict[str, tuple[int, float]] = {}
    try:
        for name in chosen:
            print(f"== {name}: {PARTS[name].about}, about {PARTS[name].minutes} minutes", flush=True)
            ran[name] = run(PARTS[name])
    finally:
        for name in PARTS:
            print(f"{name:11} {outcome(*ran[name]) if name in ran else 'not run'}")
    return int(any(code for code, _ in ran.values()))  # the code of a part that a signal ends is negative


if __name__ == "__main__":
    sys.exit(main())
