"""docs/reference/coverage.md says of Sash and of Spark what happens when its texts run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.make_coverage import PAGE, page, rows, sash_column, spark_column, write_data


@pytest.mark.spark
def test_the_page_is_what_both_engines_make_of_its_texts(spark: Any, tmp_path: Path) -> None:
    write_data(tmp_path)
    found = page(sash_column(spark, tmp_path), spark_column(spark, tmp_path), spark.version)
    assert PAGE.read_text(encoding="utf-8") == found, "run: python -m tools.make_coverage"


def test_every_text_is_there_once() -> None:
    assert len({row.what for _, row in rows()}) == len(list(rows()))


def test_nothing_fails_after_it_is_registered() -> None:
    assert "| fails" not in PAGE.read_text(encoding="utf-8")
