"""Draws the figures of the papers: `make figures`, or `make figures ARGS="joins isolation"`.

Missing measurements are made first, about an hour for all of them. The pictures go to papers/out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from papers import OUT

HERE = OUT.parent
TOPICS = [path.parent.name for path in sorted(HERE.glob("*/run.py"))]


def commands(topic: str, *, measured: bool) -> list[list[str]]:
    """The programs to start: the measurement unless there is one, then every drawing."""
    modules = [] if measured else ["run"]
    modules += [path.stem for path in sorted((HERE / topic).glob("draw*.py"))]
    return [[sys.executable, "-m", f"papers.{topic}.{module}"] for module in modules]


def is_measured(topic: str) -> bool:
    return any((OUT / f"{topic}{ending}").exists() for ending in (".json", ".csv"))


def main() -> None:
    parser = argparse.ArgumentParser(prog='make figures ARGS="..."', description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"by default all of them: {', '.join(TOPICS)}")
    parser.add_argument("--again", action="store_true", help="measure again what was measured")
    given = parser.parse_args()
    if unknown := [topic for topic in given.topics if topic not in TOPICS]:
        parser.error(f"there is no topic {unknown[0]!r}; topics are {', '.join(TOPICS)}")
    for topic in given.topics or TOPICS:
        print(f"== {topic}", flush=True)
        for command in commands(topic, measured=is_measured(topic) and not given.again):
            subprocess.run(command, cwd=HERE.parent, check=True)


if __name__ == "__main__":
    main()
