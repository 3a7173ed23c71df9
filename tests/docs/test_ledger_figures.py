"""The figures of README and the pages that the ledger follows are those of its last row."""

from __future__ import annotations

import re

import pytest

from benchmarks.draw_ledger import PAGES, PICTURE, ROOT, filled
from benchmarks.ledger import COLUMNS, LEDGER, LINES, read

ROW = {
    **{column: f"{place}.25" for place, column in enumerate(COLUMNS, 2)},
    "commit": "abc",
    "date": "2026-01-02T03:04Z",
    "cores": "2",
    "load": "0.10",
    "spark": "4.3.0",
    "python": "3.11.2",
    "seconds": "600",
    "tuples": "w1_5s 12000000; w1_20s 24000000; native_1 4000000; native_40 1000000; rescan 6000000",
}


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_the_last_row(page: str) -> None:
    assert filled(page, text_of(page), read(LEDGER)) == text_of(page), "run: python -m benchmarks.draw_ledger"


def test_the_picture_is_there_when_there_is_a_row() -> None:
    assert PICTURE.exists() == bool(read(LEDGER))


def test_rows_of_the_ledger_are_whole() -> None:
    """A row of changed files cannot be measured again, and a figure without its conditions says nothing."""
    for row in read(LEDGER):
        assert re.fullmatch(r"[0-9a-f]{7,40}", row["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", row["date"])
        assert all(row[column] for column in ("cores", "load", "spark", "python", "tuples", "micro_batch_s", "seconds"))


@pytest.mark.parametrize("page", PAGES)
def test_only_the_block_is_written(page: str) -> None:
    before = text_of(page)
    after = filled(page, before, [{**ROW, "commit": "old"}, ROW])
    block = re.compile("<!-- figures -->.*<!-- /figures -->", re.DOTALL)
    assert block.split(after) == block.split(before)
    conditions = "Commit abc, 2026-01-02, 2 cores, Spark 4.3.0, Python 3.11.2, load average 0.10 at the start."
    assert (conditions in after) == (page == "docs/benchmarks.md")
    assert "old" not in block.findall(after)[0]
    assert filled(page, after, [ROW]) == after


def test_every_ratio_and_time_is_told() -> None:
    for page in ("README.md", "docs/benchmarks.md"):
        shown = filled(page, text_of(page), [ROW])
        # README speaks of queries, not of W3 or of the growth of registration.
        left_out = {"w3_240_20s", "registration_growth"} if page == "README.md" else set()
        assert all(line.shown(ROW) in shown for line in LINES if line.column not in left_out)


def test_a_missing_figure_is_a_dash() -> None:
    assert "| native Spark, N streaming queries with `window()` | - | - | - | - |" in filled(
        "README.md", text_of("README.md"), [{**ROW, "native_w1_1_5s": "", "native_w1_40_5s": ""}]
    )


def test_a_page_without_its_block_is_refused() -> None:
    with pytest.raises(ValueError, match=r"README\.md has not exactly one block"):
        filled("README.md", "# Sash\n", [ROW])
