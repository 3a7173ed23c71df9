"""The pages of docs/reference/ say what the language says now."""

from __future__ import annotations

import pytest

from tools.make_coverage import PAGE as COVERAGE
from tools.make_reference import CHAPTERS, PAGES, pages


@pytest.mark.parametrize("name", ["README.md", *(f"{name}.md" for name in CHAPTERS)])
def test_a_page_is_what_the_tests_of_the_language_make_of_it(name: str) -> None:
    written = (PAGES / name).read_text(encoding="utf-8")
    assert written == pages()[name], "run: python -m tools.make_reference"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in PAGES.iterdir()} == {*pages(), COVERAGE.name}
