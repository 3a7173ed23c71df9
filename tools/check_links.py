"""Checks that the relative links of every Markdown file lead to a file, and to a heading where they name one.

    python tools/check_links.py [FOLDER]

Links into the web are not followed. Exits with 1 and one line per broken link.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(
    r"""\]\( \s* <?([^)\s>]+)>? (?: \s+ "[^"]*" )? \s* \)   # [text](target "title")
    | ^\[[^\]^]+\]: \s* (\S+)                               # [label]: target
    | (?:href|src)="([^"]+)"                               # HTML""",
    re.MULTILINE | re.VERBOSE,
)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)


def blank(match: re.Match[str]) -> str:
    """Empty lines instead of the text, so that what follows keeps its line number."""
    return "\n" * match.group().count("\n")


@cache
def anchors(path: Path) -> frozenset[str]:
    """The names that GitHub gives to the headings of a file."""
    text = FENCE.sub(blank, path.read_text(encoding="utf-8"))
    seen: dict[str, int] = {}
    names = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = seen[name] = seen.get(name, -1) + 1
        names.add(f"{name}-{count}" if count else name)
    return frozenset(names)


def broken_links(path: Path) -> Iterator[str]:
    text = CODE.sub("", FENCE.sub(blank, path.read_text(encoding="utf-8")))
    for match in LINK.finditer(text):
        link = next(group for group in match.groups() if group)
        if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", link):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = path.parent / place if place else path
        line = text.count("\n", 0, match.start()) + 1
        if not target.exists():
            yield f"{path}:{line}: {link}: no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{path}:{line}: {link}: no such heading"


def markdown_files(folder: Path) -> list[Path]:
    files = (path.relative_to(folder) for path in folder.rglob("*.md"))
    ours = (path for path in files if not any(part.startswith(".") or part == "build" for part in path.parts))
    return sorted(folder / path for path in ours)


def main() -> int:
    files = markdown_files(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    broken = [problem for path in files for problem in broken_links(path)]
    print(*broken, f"{len(files)} Markdown files, {len(broken)} broken links", sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
