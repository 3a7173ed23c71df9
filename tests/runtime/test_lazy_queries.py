"""Joins under SLIDE that are evaluated at the multiples alone: the answers of eager evaluation, before and after a
restart; what was evaluated eagerly goes on so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import sash
import sash.storage.epochs
from sash.storage.files import sealed, unsealed
from tests.runtime.test_continuous import declare, tuples, write

pytestmark = pytest.mark.spark

TWO = "SELECT s.k, s.v, t.g FROM s [RANGE 5 sec SLIDE 4 sec], t [RANGE 3 sec SLIDE 4 sec] WHERE s.k = t.k"
THREE = (
    "SELECT s.v, t.g, a.v AS w FROM s [RANGE 5 sec SLIDE 3 sec], t [RANGE 4 sec SLIDE 3 sec], "
    "s [RANGE 2 sec SLIDE 3 sec] a WHERE s.k = t.k AND a.k = t.k AND s.v < a.v + 5"
)
CHAIN = THREE.replace("a.k = t.k", "a.g = t.g")
QUERIES = {
    "two": TWO,
    "restored": f"Rstream-restore({TWO})",
    "new": f"Istream({THREE})",
    "new_restored": f"Istream-restore({THREE})",
    "gone": f"Dstream({TWO})",
    "chain": CHAIN,
    "groups": THREE.replace("s.v, t.g, a.v AS w", "t.g, AVG(s.v) AS mean, COUNT(*) AS n") + " GROUP BY t.g",
    "different": TWO.replace("s.k, s.v, t.g", "DISTINCT s.k, t.g"),
    "without": f"{TWO} AND NOT EXISTS (SELECT 1 FROM t [RANGE 1 sec SLIDE 4 sec] c WHERE c.v = s.v)",
    "rows": "SELECT s.v, t.v AS w FROM s [ROWS 5 SLIDE 3 sec], t [RANGE 4 sec SLIDE 3 sec] WHERE s.k = t.k",
}


Listed = dict[str, list[tuple[Any, bool, Counter[str]]]]


def answers(queries: Iterable[sash.Query]) -> Listed:
    return {
        query.name: [(each.as_of, each.complete, Counter(map(str, each.table.to_pylist()))) for each in query.answers()]
        for query in queries
    }


def eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before there was lazy evaluation."""
    monkeypatch.setattr("sash.plan.choice.lazily", lambda plan: None)


def run(spark: Any, directory: Path, **settings: Any) -> Listed:
    with sash.connect(spark=spark, **settings) as session:
        declare(session, directory)
        queries = [session.register(text, name=name) for name, text in QUERIES.items()]
        session.run()
        assert [query.error for query in queries] == [None] * len(queries)
        return answers(queries)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, seed in (("s", 11), ("t", 12)):
        write(tuples(seed, parts=6), tmp_path / name)
    return tmp_path


def test_lazy_queries_have_the_answers_of_eager_ones(spark: Any, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = run(spark, data), run(spark, data, executor_rows=1)
    eagerly(monkeypatch)
    expected = run(spark, data)
    assert here == expected and there == expected
    assert all(sum(rows.total() for *_, rows in each) > 10 for each in expected.values())


def test_explain_says_which_evaluation_was_chosen_and_why(spark: Any, data: Path) -> None:
    with sash.connect(spark=spark) as session:
        declare(session, data)
        before = session.explain(f"REGISTER QUERY q AS {THREE}")
        assert "Every 3 sec, computed only then  -> WK" in before
        assert "Evaluated at the multiples alone (algorithm 4 of the thesis): " in before
        assert "Join of 3 on s.k = t.k = a.k, probed in the order" in before and "tuples probed per second" in before
        assert "every multiple of SLIDE chooses the order again" in before
        restored = session.explain(f"REGISTER QUERY q AS Istream-restore({THREE})")
        assert "Evaluated at the multiples alone (algorithm 5 of the thesis): " in restored
        session.register(TWO, name="two")
        assert "(algorithm 4 of the thesis), as query 'two': " in session.explain(f"REGISTER QUERY q AS {TWO}")
        session.run()
        # A micro-batch brings two seconds.
        after = session.explain(f"REGISTER QUERY q AS {THREE.replace('SLIDE 3 sec', 'SLIDE 1 sec')}")
        assert "Evaluated by every micro-batch: " in after and "Every 1 sec  -> WK" in after
        assert "Evaluated" not in session.explain("REGISTER QUERY q AS SELECT k FROM s [RANGE 5 sec SLIDE 4 sec]")


class Lives:
    """The lives of one session over a checkpoint; the data come as the lives go on."""

    def __init__(self, spark: Any, directory: Path) -> None:
        self._spark, self._directory = spark, directory
        self._parts = {"s": tuples(11, parts=6), "t": tuples(12, parts=6)}
        self._done = 0
        self._seen: list[sash.Answer] = []

    def live(self, micro_batches: int) -> str:
        """One life; returns how query 'two' is explained in it."""
        for name, each in self._parts.items():
            write(each[self._done : self._done + micro_batches], self._directory / name, self._done)
        self._done += micro_batches
        with sash.connect(spark=self._spark, checkpoint=self._directory / "checkpoint") as session:
            declare(session, self._directory)
            for name, text in QUERIES.items():
                session.register(text, name=name).subscribe(self._seen.append)
            session.start(trigger="0 seconds")
            while any(stream.runtime.statistics.tuples < 14 * self._done for stream in session.streams.values()):
                assert not session.wait(0.05)
            session.stop()
            return session.explain(f"REGISTER QUERY like_two AS {TWO}")

    @property
    def answers(self) -> Listed:
        found: Listed = {name: [] for name in QUERIES}
        for each in self._seen:
            found[each.query].append((each.as_of, each.complete, Counter(map(str, each.table.to_pylist()))))
        return found

    @property
    def catalog(self) -> Path:
        return self._directory / "checkpoint" / "catalog.jsonl"

    @property
    def lazy(self) -> dict[str, bool]:
        changes = [unsealed(line) for line in self.catalog.read_text().splitlines()]
        return {each["name"]: each["lazy"] for each in changes if each["change"] == "register query"}


@pytest.fixture
def whole(spark: Any, tmp_path: Path) -> Lives:
    """One life."""
    lives = Lives(spark, tmp_path / "whole")
    (tmp_path / "whole").mkdir()
    lives.live(6)
    return lives


def test_restarts_between_the_multiples(
    spark: Any, tmp_path: Path, whole: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 2)
    pieces = Lives(spark, tmp_path)
    for micro_batches in (1, 2, 3):
        pieces.live(micro_batches)
    assert pieces.answers == whole.answers
    assert pieces.lazy == dict.fromkeys(QUERIES, True)


def test_a_checkpoint_of_eager_plans_goes_on_with_them(
    spark: Any, tmp_path: Path, whole: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = Lives(spark, tmp_path)
    with monkeypatch.context() as before:
        eagerly(before)
        pieces.live(3)
    changes = [unsealed(line) for line in pieces.catalog.read_text().splitlines()]
    earlier = [{name: value for name, value in each.items() if name != "lazy"} for each in changes]
    pieces.catalog.write_text("".join(f"{sealed(each)}\n" for each in earlier))
    assert "Evaluated by every micro-batch, as query 'two': " in pieces.live(3)
    assert pieces.answers == whole.answers
