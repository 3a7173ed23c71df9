"""The site builds strictly: no broken link, no heading that is not there, no page without a place in the navigation.

And it needs no network, neither to be built nor to be read.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.make_site import ROOT, build, write_pages

LOADS = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="([^"]+)" | <link\b[^>]*\bhref="([^"]+)"
    | url\(["']?([^)"']+) | @import\s+["']([^"']+)""",
    re.VERBOSE,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    write_pages(folder / "pages")
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Path:
    assert build(folder) == 0
    return folder / "site"


def loads(site: Path) -> Iterator[tuple[str, str]]:
    """What the pages and their styles make a browser load, without being asked to."""
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        for match in LOADS.findall(path.read_text(encoding="utf-8")):
            yield path.name, next(filter(None, match))


def test_every_page_is_there(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    names = {path.with_name("index.html") if path.name == "README.html" else path for path in pages}
    assert all((site / name).exists() for name in names)
    assert "for about the price of one" in (site / "index.html").read_text(encoding="utf-8")


def test_every_example_is_a_page_in_the_navigation(site: Path) -> None:
    page = (site / "language.html").read_text(encoding="utf-8")
    names = [path.parent.name for path in (ROOT / "examples").glob("*/README.md")]
    assert len(names) >= 4 and all(f'href="examples/{name}.html"' in page for name in names)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = list(loads(site))
    assert len(found) > 100
    assert [load for load in found if re.match(r"(https?:)?//", load[1])] == []


def test_the_search_knows_the_text_without_a_server(site: Path) -> None:
    script = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    entries = json.loads(script.removeprefix("var __index = "))["docs"]
    assert any("LATE REVISE" in entry["text"] for entry in entries)
    assert "assets/iframe-worker.js" in (site / "index.html").read_text(encoding="utf-8")


def test_links_out_of_the_folder_lead_to_what_they_name(site: Path) -> None:
    page = (site / "architecture" / "core.html").read_text(encoding="utf-8")
    link = re.search(r'href="(\.\./source/[^"]*/window\.py\.txt)"', page)
    assert link and (site / "architecture" / link[1]).read_text() == (ROOT / "src/sash/core/window.py").read_text()


@pytest.mark.parametrize("broken", ["[x](language.md#no-such-heading)", "[x](nowhere.md)", "[x](../src/nowhere.py)"])
def test_a_broken_link_fails_the_build(broken: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "pages", tmp_path / "pages")
    with (tmp_path / "pages" / "glossary.md").open("a") as page:
        page.write(f"\n{broken}\n")
    assert build(tmp_path) != 0
