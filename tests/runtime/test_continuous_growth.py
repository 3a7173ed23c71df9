"""Results that never expire: their view is the whole history, and a message says how large it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sash
from tests.runtime.test_continuous import declare, write
from tests.runtime.test_continuous_life import table

pytestmark = pytest.mark.spark
ALL = "SELECT v FROM s [UNBOUNDED] WHERE k > 0"
PARTS = [table(*((10 * i + j, j % 3, i) for j in range(6))) for i in range(3)]


def test_the_view_of_an_unbounded_selection_is_its_history(spark: Any, tmp_path: Path) -> None:
    """Also over a restart; the plan itself stores no results."""
    for first, part in enumerate(PARTS):
        write([part], tmp_path / "s", first)
        with sash.connect(spark=spark, checkpoint=tmp_path / "state") as session:
            declare(session, tmp_path, "s")
            query = session.register(ALL, name="q")
            bounded = session.register("SELECT v FROM s [RANGE 2 sec]", name="bounded")
            results = session.register(f"Istream({ALL})", name="results")
            session.run()
            stats = session.stats()["queries"]
            assert stats["q"]["rows"] == query.view().num_rows == 4 * (first + 1)
            assert stats["bounded"]["rows"] == bounded.view().num_rows <= 2
            assert stats["results"]["rows"] == 0
            assert results.changes()["v"].to_pylist() == query.changes()["v"].to_pylist()


def test_explain_says_so(spark: Any, tmp_path: Path) -> None:
    write(PARTS[:1], tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        assert "View: grows for ever" in session.explain(f"REGISTER QUERY q AS {ALL}")
        finite = ("SELECT COUNT(*) AS n FROM s [UNBOUNDED]", "SELECT DISTINCT k FROM s [UNBOUNDED] WHERE k IN (1, 2)")
        for text in (f"Istream({ALL})", "SELECT v FROM s [RANGE 2 sec]", *finite):
            assert "View:" not in session.explain(f"REGISTER QUERY q AS {text}"), text
