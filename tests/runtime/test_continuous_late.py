"""Tuples that come too late for continuous plans: left out, counted where users look, warned about once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import sash
from tests.runtime.test_continuous import declare, write
from tests.runtime.test_continuous_life import table

pytestmark = pytest.mark.spark
# The second part has two tuples before what the first one brought as the watermark, the third one more.
PARTS = [
    table((0, 1, 1), (9, 1, 2)),
    table((2, 1, 3), (3, 2, 4), (10, 1, 5), (20, 1, 6)),
    table((4, 1, 7), (21, 1, 8)),
]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and "late" in r.getMessage()]


def test_they_are_counted_per_query_and_per_stream(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(PARTS, tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        session.register("SELECT v FROM s [RANGE 3 sec]", name="q")
        session.register("SELECT v FROM s [RANGE 3 sec] WHERE k = 2", name="some")
        # The same tuple is too late for both windows: one tuple.
        session.register("SELECT a.v FROM s [NOW] a, s [RANGE 3 sec] b WHERE a.k = b.k", name="pairs")
        session.run()
        stats = session.stats()
        assert {name: each["late_tuples"] for name, each in stats["queries"].items()} == {"q": 3, "some": 1, "pairs": 3}
        assert stats["late_tuples"] == stats["streams"]["s"]["late_tuples"] == 3
    (said,) = warnings(caplog)
    assert said.startswith("stream s: late tuples dropped (2)") and "do not go back in time" in said


def test_what_is_late_for_panes_and_for_plans_is_one_tuple(spark: Any, tmp_path: Path) -> None:
    write(PARTS, tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        session.register("SELECT v FROM s [RANGE 3 sec]", name="q")
        session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec]", name="n")
        session.run()
        assert session.stats()["late_tuples"] == 3


def test_a_restart_remembers_the_count(spark: Any, tmp_path: Path) -> None:
    for first in range(3):
        write(PARTS[first : first + 1], tmp_path / "s", first)
        with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
            declare(session, tmp_path, "s")
            session.register("SELECT v FROM s [RANGE 3 sec]", name="q")
            session.run()
            stats = session.stats()
            assert stats["late_tuples"] == stats["queries"]["q"]["late_tuples"] == (0, 2, 3)[first]
