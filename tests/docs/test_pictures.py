"""What the pages about sharing and scheduling show is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from papers.scheduling.draw_schedules import measured, table
from sash.schedule.policies import POLICY_NAMES
from tools.draw_sharing import bytes_per_pane, explained, pane_tables

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_schedules() -> None:
    page = (DOCS / "scheduling.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"<!-- schedules -->\n\n(.*?)\n\n<!-- /schedules -->", page, re.DOTALL)
    assert shown == table(), "run: python -m papers.scheduling.draw_schedules"


@pytest.mark.parametrize("page", ["python.md", "scheduling.md", "architecture/cli.md"])
def test_where_a_policy_can_be_named_all_are_listed(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    lists = re.findall(r"(?:`\"?[a-z-]+\"?`, ){7}`\"?[a-z-]+\"?`", text)
    assert [tuple(re.findall("[a-z-]+", names)) for names in lists] == [POLICY_NAMES]


def test_hybrid_has_the_thesis_cost() -> None:
    """11.4 comparisons a minute, of five plans the least (8.4.4)."""
    assert round(measured("hybrid", 0).comparisons, 1) == 11.4


def test_who_reads_what_in_the_example() -> None:
    tables = pane_tables(explained())
    by_source = tables["by (src), panes of 10 sec"]
    readers = {"talkers_1_min", "talkers_5_min", "talkers_10_min", "usual_length"}
    assert dict(by_source) == {"rows": readers, "sum(length)": readers, "count(length)": readers}
    assert "sum(length) where port IN (80, 443), not stored" in tables["by (dst), panes of 30 sec"]


def test_the_panes_of_the_picture_add_up_to_the_bytes_of_their_packets() -> None:
    """1,018,500 is the first row of the example's talkers_10_min, which test_examples compares with DuckDB."""
    assert sum(bytes_per_pane("10.0.0.1", 10_000_000)[-60:]) == 1_018_500
