"""After a restart a continuous query finds its stored state, or an error says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sash
from sash.plan.continuous import Node
from tests.runtime.test_continuous import declare, write
from tests.runtime.test_continuous_life import table

pytestmark = pytest.mark.spark
# The optimiser moves the negation below the join.
JOIN = (
    "SELECT a.k FROM s [RANGE 60 sec] a, s [RANGE 60 sec] b WHERE a.k = b.k AND a.v = b.v "
    "AND NOT EXISTS (SELECT 1 FROM s [RANGE 1 sec] WHERE s.k = a.v)"
)
PARTS = [table((0, 1, 11), (5, 2, 12)), table((6, 3, 13), (12, 4, 14))]


def open_session(spark: Any, directory: Path) -> sash.Session:
    session = sash.connect(spark=spark, checkpoint=directory / "state")
    declare(session, directory, "s")
    return session


def plans(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "state" / "plans").iterdir())


def as_written(plan: Node, *known: Any) -> Node:
    """An optimiser that leaves every plan as it is."""
    return plan


def optimise_not(patched: pytest.MonkeyPatch) -> None:
    patched.setattr("sash.runtime.continuous.plan_runtime.optimise", as_written)
    patched.setattr("sash.plan.choice.rewritten", lambda plan: [plan])


def test_a_plan_of_another_optimiser_is_not_begun_with_empty_windows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(PARTS[:1], tmp_path / "s")
    with open_session(spark, tmp_path) as session:
        session.register(JOIN, name="q")
        session.run()
    (before,) = plans(tmp_path)
    write(PARTS[1:], tmp_path / "s", 1)
    with monkeypatch.context() as patched:
        optimise_not(patched)
        with open_session(spark, tmp_path) as session:
            said = r"of another plan .* DROP QUERY q and register it again"
            for attempt in (lambda: session.register(JOIN, name="q"), session.run, session.queries["q"].view):
                with pytest.raises(sash.CheckpointError, match=said):
                    attempt()
            assert plans(tmp_path) == [before]
    # The version that wrote it goes on.
    with open_session(spark, tmp_path) as session:
        query = session.register(JOIN, name="q")
        session.run()
        assert sorted(query.view()["k"].to_pylist()) == [1, 2, 3, 4] and plans(tmp_path) == [before]


def test_the_way_out_is_to_drop_and_register_again(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(PARTS[:1], tmp_path / "s")
    with open_session(spark, tmp_path) as session:
        session.register(JOIN, name="q")
        session.run()
    write(PARTS[1:], tmp_path / "s", 1)
    optimise_not(monkeypatch)
    with open_session(spark, tmp_path) as session:
        session.sql("DROP QUERY q")
        assert plans(tmp_path) == []
        query = session.register(JOIN, name="q")
        session.run()
        assert sorted(query.view()["k"].to_pylist()) == [3, 4] and len(plans(tmp_path)) == 1


def test_a_plan_goes_when_its_last_query_goes_whoever_has_run(spark: Any, tmp_path: Path) -> None:
    write(PARTS[:1], tmp_path / "s")
    with open_session(spark, tmp_path) as session:
        for name in ("one", "two"):
            session.register("SELECT DISTINCT k FROM s [RANGE 60 sec]", name=name)
        session.run()
    with open_session(spark, tmp_path) as session:
        assert session.queries["one"].view().num_rows == 2
        session.queries["one"].drop()
        assert session.queries["two"].view().num_rows == 2 and len(plans(tmp_path)) == 1
    with open_session(spark, tmp_path) as session:
        session.queries["two"].drop()
        assert plans(tmp_path) == []


def test_what_differs_from_the_checkpoint_is_named(spark: Any, tmp_path: Path) -> None:
    text = "SELECT DISTINCT k FROM s [RANGE 60 sec]"
    write(PARTS[:1], tmp_path / "s")
    with open_session(spark, tmp_path) as session:
        session.register(text, name="q", priority=1)
        session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec]", name="n", lifetime="1 hour")
    with open_session(spark, tmp_path) as session:
        session.sql("SET EXECUTION nt")
        with pytest.raises(sash.CatalogError, match=r"'q' is registered already.* its execution is upa there and nt h"):
            session.register(text, name="q", priority=1)
        session.sql("SET EXECUTION upa")
        with pytest.raises(sash.CatalogError, match="its priority is 1 there and 0 here"):
            session.register(text, name="q")
        with pytest.raises(sash.CatalogError, match=r"its text is SELECT DISTINCT k .* and SELECT DISTINCT v "):
            session.register(text.replace("k", "v"), name="q", priority=1)
        with pytest.raises(sash.CatalogError, match="its lifetime is 1 hour there and none here"):
            session.register("SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec]", name="n")
        assert session.register(text, name="q", priority=1) is session.queries["q"]
