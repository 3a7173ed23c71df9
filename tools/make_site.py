"""Puts the pages of the site together, and builds it: `make site`.

    python tools/make_site.py [FOLDER]          pages in FOLDER/pages, the site in FOLDER/site; by default in build/

The Markdown files are written for readers of the repository, and link to its files wherever they lie. In the site

    docs/language.md              is  language.md
    README.md                     is  README.md, the home page; so are CONTRIBUTING.md and CHANGELOG.md
    examples/packets/README.md    is  examples/packets.md
    src/sash/core/window.py       is  source/src/sash/core/window.py.txt, if a page links to it: text, to be read

and links are written anew between these places. A link to a file that is not there stays as it is, and fails the build.

This is a step of its own, and not a plugin of mkdocs, so that another program can build the same pages: the theme's
authors end its support in May 2027, and their new program, Zensical, reads mkdocs.yml, but runs no plugins of ours.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "mkdocs.yml"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)[^)#\s]+")
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*", re.MULTILINE | re.DOTALL)


def pages() -> list[str]:
    """The Markdown files of the repository that are pages of the site."""
    outside = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("examples/*/README.md")]
    found = [*outside, *(ROOT / "docs").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def place(path: str) -> str:
    """Where a file of the repository lies in the site; of a package it is the file that introduces it."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path not in pages():
        return f"source/{path}.txt"
    # A README inside of a section would become the section's own page.
    return re.sub(r"(examples/\w+)/README\.md", r"\1.md", path)


def target(page: str, link: str) -> str | None:
    """The file of the repository that a link means, or None if it is not there."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if (ROOT / path).is_dir():
        path += "/__init__.py"
    return path if (ROOT / path).exists() else None


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """The text with everything changed but its blocks of code."""
    parts, last = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, change(text[last:])])


def with_links(page: str, text: str) -> str:
    folder = posixpath.dirname(place(page)) or "."

    def rewritten(link: re.Match[str]) -> str:
        path = target(page, link[0])
        return posixpath.relpath(place(path), folder) if path else link[0]

    return outside_fences(text, lambda part: LINK.sub(rewritten, part))


def linked_sources(page: str, text: str) -> Iterator[str]:
    """The files that a page links to and that are neither pages nor in docs/."""
    for link in LINK.findall(FENCE.sub("", text)):
        path = target(page, link)
        if path and place(path).startswith("source/"):
            yield path


def write_pages(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.md"))
    sources: set[str] = set()
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        path = folder / place(page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(with_links(page, text), encoding="utf-8")
        sources.update(linked_sources(page, text))
    for source in sources:
        path = folder / place(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / source, path)


def build(folder: Path) -> int:
    """The site of the pages in a folder; warnings are errors. (mkdocs counts none of them under --quiet.)"""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(CONFIG)]
    settings = {"SASH_SITE_PAGES": str(folder / "pages"), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([*command, "--site-dir", str(folder / "site")], env=os.environ | settings).returncode


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    write_pages(folder / "pages")
    return build(folder)


if __name__ == "__main__":
    sys.exit(main())
