"""A session replaces the plan of a continuous query while it runs, goes on with it after a restart, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND
from tests.runtime.test_continuous import declare, write
from tests.support.log import events
from tests.support.streams import START

pytestmark = pytest.mark.spark
QUERY = (
    "SELECT a.k, a.v, b.v AS w FROM s [RANGE 4 sec] a, s [RANGE 4 sec] b WHERE a.g = 'a' AND b.g = 'b' AND a.k = b.k "
    "AND NOT EXISTS (SELECT 1 FROM s [RANGE 2 sec] c WHERE c.g = 'c' AND c.k = a.k)"
)


def second(number: int) -> pa.Table:
    """Many tuples are a's at first, b's later."""
    few, many = ("b", "a") if number < 6 else ("a", "b")
    kinds = [many] * 24 + [few] * 3 + ["c"]
    stamps = [START + number * SECOND + i * SECOND // len(kinds) for i in range(len(kinds))]
    values = [i * 7 % (20 if number < 6 else 3) for i in range(len(kinds))]
    return pa.table(
        {
            "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
            "k": pa.array(values, pa.int32()),
            "g": pa.array(kinds),
            "v": pa.array(range(len(kinds)), pa.int32()),
        }
    )


def changes(spark: Any, directory: Path, name: str, *, replace_plans: bool, explained: list[str]) -> list[str]:
    """All changes of twelve micro-batches, with a restart in the middle."""
    found = list[str]()
    for first in (0, 6):
        write([second(number) for number in range(first, first + 6)], directory / name, first)
        with sash.connect(spark=spark, checkpoint=directory / f"{name}-state", replace_plans=replace_plans) as session:
            declare(session, directory, name)
            query = session.register(QUERY.replace("FROM s ", f"FROM {name} ").replace(", s ", f", {name} "), name="q")
            query.subscribe(lambda answer: found.extend(map(repr, answer.table.to_pylist())))
            session.run()
            explained.append(session.explain(query.text))
            explained.append(str(session.stats()["queries"]["q"]["plan_replacements"]))
    return sorted(found)


def test_a_session_replaces_a_plan(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sash.runtime.continuous.plan_runtime.LOOK_EVERY", 2)
    # The prices of so few tuples differ by little.
    monkeypatch.setattr("sash.runtime.continuous.replanning.FACTOR", 1.01)
    with caplog.at_level("INFO", logger="sash"):
        never, replaced = list[str](), list[str]()
        expected = changes(spark, tmp_path, "s", replace_plans=False, explained=never)
        assert "plan.replaced" not in {each["event"] for each in events(caplog)}
        found = changes(spark, tmp_path, "t", replace_plans=True, explained=replaced)
    assert found == expected and len(found) > 100
    assert [each["event"] for each in events(caplog)].count("plan.replaced") == 2
    assert never[1::2] == ["0", "0"] and replaced[1::2] == ["1", "2"]
    assert "Plan replaced" not in never[2] and "Plan replaced as of 2023-11-14T22:13:2" in replaced[0]
    (first, *_), (last, *_) = ([line for line in text.splitlines() if "on a.k = " in line] for text in replaced[::2])
    assert first.strip().startswith("Negation") and last.strip().startswith("Join")
