"""Measures and draws the result figures of the papers: `make figures`, or `make figures ARGS="joins isolation"`.

Quick by default: small sizes, into papers/out/quick. `--full` measures as published, into papers/out: an hour or two,
four hours for isolation in the cluster, and many for the archive of 5 GB. What was measured before is only drawn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from papers import OUT, out_directory

HERE = OUT.parent
TOPICS = [path.parent.name for path in sorted(HERE.glob("*/run.py"))]


def _numbered(chapter: str, first: int, last: int, topic: str) -> dict[str, str]:
    return {f"{chapter}{number}": topic for number in range(first, last + 1)}


# Who measures and draws each figure: of the thesis (8.7 to 8.10 are figures 5 to 8 of the report on schedule
# synchronisation), of the report on indexing windows (I), of Arasu and Widom (A).
FIGURES = {
    **_numbered("3.", 8, 15, "update_patterns"),
    **_numbered("4.", 4, 11, "archive"),
    **_numbered("5.", 2, 4, "joins"),
    **_numbered("6.", 3, 3, "frequent"),
    **_numbered("7.", 8, 14, "isolation"),
    **_numbered("8.", 7, 10, "scheduling"),
    **_numbered("I ", 7, 11, "window_index"),
    **_numbered("A ", 9, 11, "synopses"),
    **_numbered("A ", 12, 12, "substreams"),
}


def runs(topic: str, *, full: bool) -> dict[str, list[str]]:
    """The measurements of a topic: the file that each writes, and its arguments."""
    name, given = f"{topic}.csv" if topic == "frequent" else f"{topic}.json", [] if full else ["--quick"]
    found = {name: given}
    if topic == "archive":
        found["archive_large.json"] = ["--large", *given]
    if topic == "isolation" and full:
        # Even quickly this takes several minutes: in `--full` alone.
        found["isolation_flights.json"] = ["--ways", "flights"]
    return found


def commands(topic: str, *, full: bool, again: bool) -> list[list[str]]:
    """The programs to start: measurements unless they are there, then every drawing."""
    there = out_directory(quick=not full)
    found = [["run", *given] for name, given in runs(topic, full=full).items() if again or not (there / name).exists()]
    found.append(["draw"] if full else ["draw", "--quick"])
    found += [[path.stem] for path in sorted((HERE / topic).glob("draw_*.py"))]
    return [[sys.executable, "-m", f"papers.{topic}.{module}", *given] for module, *given in found]


def main() -> None:
    parser = argparse.ArgumentParser(prog='make figures ARGS="..."', description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"by default all of them: {', '.join(TOPICS)}")
    parser.add_argument("--full", action="store_true", help="as published, not small")
    parser.add_argument("--again", action="store_true", help="measure again what was measured")
    given = parser.parse_args()
    if unknown := [topic for topic in given.topics if topic not in TOPICS]:
        parser.error(f"there is no topic {unknown[0]!r}; topics are {', '.join(TOPICS)}")
    for topic in given.topics or TOPICS:
        print(f"== {topic}: figures {', '.join(name for name, by in FIGURES.items() if by == topic)}", flush=True)
        for command in commands(topic, full=given.full, again=given.again):
            subprocess.run(command, cwd=HERE.parent, check=True)
    print("docs/reproduction.md has what the papers say of each figure, what came out here, and verdicts")


if __name__ == "__main__":
    main()
