"""What would take all memory fails by name: continuous plans, synopses of joins, stored windows. Others go on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.catalog import Stream
from sash.core.changes import Changes
from sash.core.errors import SashError
from sash.core.time import SECOND
from sash.runtime.answers.change_view import ChangeView
from sash.runtime.continuous.join_group import JoinGroup
from sash.runtime.stored.stored_window import StoredWindow
from tests.runtime.test_join_group import begins, epochs, query_of
from tests.runtime.test_session import create, write
from tests.support.journal import reread_group
from tests.support.kept import SCHEMA, table

KEEP = 6 * SECOND


# -- stored windows -------------------------------------------------------------------------------------


@dataclass
class Definition:
    """All rows of the stored window in a list, with the ends of their sub-windows."""

    most: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    now: int = -(2**62)
    latest: int | None = None
    lost: int = -(2**62)
    has_given_up: bool = False

    def come(self, times: list[int], first: int) -> None:
        in_time = [(time, first + n) for n, time in enumerate(times) if self.end(time) > self.now]
        if times:
            self.latest = max([*times, *([] if self.latest is None else [self.latest])])
            self.now = max(self.now, self.end(self.latest) - SECOND)
        if self.has_given_up:
            return
        self.rows += [(time, number) for time, number in in_time if self.end(time) > self.lost]
        self.rows = [(time, number) for time, number in self.rows if self.end(time) > self.now - KEEP]
        if len(self.rows) > self.most:
            self.rows, self.has_given_up, self.had = [], True, len(self.rows)

    def allow(self, most: int) -> None:
        self.most = most
        if self.has_given_up and self.had <= most:
            self.has_given_up = False
            assert self.latest is not None
            self.lost = self.end(self.latest)

    @staticmethod
    def end(time: int) -> int:
        return -(-time // SECOND) * SECOND

    def stored(self) -> list[tuple[int, int]]:
        return sorted((row for row in self.rows if self.end(row[0]) <= self.now), key=lambda row: row[0])


def seen(window: StoredWindow) -> list[tuple[int, int]]:
    stored = window.read(None)
    rows = [] if stored is None else stored.rows.select(["_t", "v"]).to_pylist()
    return [(row["_t"], row["v"]) for row in rows]


@given(
    st.lists(st.lists(st.integers(0, 20_000_000), max_size=12), max_size=10),
    st.integers(1, 30),
    st.integers(1, 60),
    st.integers(0, 10),
)
def test_a_stored_window_with_too_many_rows_gives_up(
    batches: list[list[int]], most: int, more: int, restart: int
) -> None:
    """And goes on, in a session that allows more, with whole sub-windows only."""
    declared = Stream("s", SCHEMA, "ts", keep=KEEP)
    window, expected = StoredWindow(declared, most_rows=most), Definition(most)
    logged: list[pa.Table] = []
    for number, times in enumerate(sorted(batches, key=lambda each: max(each, default=0))):
        if window.gave_up_at is None:
            logged.append(window.accepted(table(times, 100 * number)))
        latest = expected.latest
        expected.come(times, 100 * number)
        watermark = expected.latest
        taken = logged[-1] if window.gave_up_at is None else window.empty()
        window.take(taken, watermark)
        assert (window.gave_up_at is not None) == expected.has_given_up, latest
        if number == restart:
            again = StoredWindow(declared, most_rows=most)
            again.load(window.save(), [rows for rows in logged if window.last_end(rows) > window.oldest])
            again.allow(more, expected.latest)
            expected.allow(more)
            window = again
        if expected.has_given_up:
            with pytest.raises(SashError, match=r"stream 's': its stored window had .* STORED IN CLUSTER"):
                window.read(None)
            with pytest.raises(SashError, match="max_rows"), window.reading():
                pass
        else:
            assert seen(window) == expected.stored()


def test_rows_that_have_left_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    window = StoredWindow(Stream("s", SCHEMA, "ts", keep=KEEP), most_rows=14)
    for second in range(50):
        window.take(table([second * SECOND + 1, second * SECOND + 2], 2 * second), second * SECOND + 2)
    assert window.gave_up_at is None and len(seen(window)) == 12
    window.take(table([50 * SECOND + n for n in range(10)], 100), 50 * SECOND)
    assert window.gave_up_at == 24
    (told,) = [record.__dict__["sash"] for record in caplog.records]
    assert (told["event"], told["stream"], told["rows"]) == ("window.overfull", "s", 24)


def test_a_question_that_is_overtaken_is_refused() -> None:
    """Whatever it has seen of the rows that were let go meanwhile."""
    window = StoredWindow(Stream("s", SCHEMA, "ts", keep=KEEP), most_rows=14)
    for second in range(4):
        window.take(table([second * SECOND + 1, second * SECOND + 2], 2 * second), second * SECOND + 2)

    def meanwhile(rows: pa.Table) -> pa.Table:
        if window.gave_up_at is None:
            window.take(table([5 * SECOND + n for n in range(20)], 100), 6 * SECOND)
        return rows

    with pytest.raises(SashError, match="its stored window had 28 rows"):
        window.read(None, meanwhile)


# -- answers of continuous plans ------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.booleans()), max_size=20), st.integers(0, 9))
def test_how_many_rows_an_answer_would_have(rows: list[tuple[int, int, bool]], now: int) -> None:
    """As many as it has then."""
    schema = pa.schema([("k", pa.int64())])
    view = ChangeView(schema)
    for at, (key, exp, again) in enumerate(rows):
        signs = np.array([1, -1] if again else [1], dtype=np.int8)
        n = len(signs)
        ids = np.zeros((n, 0), dtype=np.int64)
        more = Changes(pa.table([[key] * n], schema=schema), np.full(n, at), np.full(n, 20 + exp), signs, ids)
        expected = view.size_with(more, 20 + now)
        view.add(more, at)
        assert view.count(at) == len(view.rows(at)) >= expected
        copied = ChangeView(schema)
        copied.add(view.rows(at), at)
        assert len(copied.rows(20 + now)) == expected


# -- synopses of joins ----------------------------------------------------------------------------------

_JOIN = "FROM s [WINDOW 4 sec SLIDE 2 sec], t [WINDOW 4 sec SLIDE 2 sec] WHERE s.b = t.b"


@pytest.mark.parametrize("restart", [False, True])
def test_a_join_with_too_many_groups_fails_the_queries_by_them(restart: bool) -> None:
    texts = {
        "total": f"SELECT COUNT(*) AS n {_JOIN}",
        "by_key": f"SELECT s.a, COUNT(*) AS n {_JOIN} GROUP BY s.a",
        "by_key_too": f"SELECT s.a, MAX(t.e) AS m {_JOIN} GROUP BY s.a",
        "by_few": f"SELECT s.c, COUNT(*) AS n {_JOIN} GROUP BY s.c",
    }
    queries = {name: query_of(text) for name, text in texts.items()}
    row = {"b": 1, "c": "x", "d": 1.0, "e": 1}
    # Three different values within the windows, but for the middle of the time: five.
    keys = [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0]
    tuples = {
        "s": [(second * SECOND + 1, {**row, "a": key}) for second, key in enumerate(keys)],
        "t": [(second * SECOND + 2, {**row, "a": 0}) for second in range(len(keys))],
    }
    cuts = [second * SECOND for second in range(2, len(keys) + 6, 2)]

    def answers(most: int) -> tuple[JoinGroup, dict[str, list[tuple[int, list[dict[str, Any]]]]]]:
        group = JoinGroup(queries, most_groups=most)
        found: dict[str, list[tuple[int, list[dict[str, Any]]]]] = {name: [] for name in texts}
        for changes, _, high in epochs(group.plan, tuples, cuts):
            group.absorb(group.rows(changes))
            for each in group.advance(high - 1, begins(tuples, high)):
                found[each.query].append((each.as_of, each.table.to_pylist()))
            if restart:
                saved = group.save()
                group = JoinGroup(queries, most_groups=most)
                group.load(reread_group(saved))
        return group, found

    free, whole = answers(100)
    limited, found = answers(5)
    assert not free.failed and not free.is_crowded(queries["by_key"])
    assert sorted(limited.failed) == ["by_key", "by_key_too"]
    assert limited.is_crowded(queries["by_key"]) and not limited.is_crowded(queries["by_few"])
    for name in ("by_key", "by_key_too"):
        assert "groups by (" in str(limited.failed[name]) and "max_groups is 5" in str(limited.failed[name])
        assert found[name] == whole[name][: len(found[name])] and 0 < len(found[name]) < len(whole[name])
    for name in ("total", "by_few"):
        assert found[name] == whole[name]


# -- in a session ---------------------------------------------------------------------------------------


def fill(directory: Path) -> None:
    """Four seconds, eight tuples each, and ever other keys."""
    for part in range(4):
        write(directory, part, [(part + i / 10 + 0.05, part * 8 + i, i % 2) for i in range(8)])


FAILING = {
    "view": "SELECT k, v FROM s [UNBOUNDED]",
    "window": "SELECT a.k FROM s [RANGE 1 min] a, s [RANGE 1 min] b WHERE a.k = b.k",
    "different": "SELECT DISTINCT k FROM s [RANGE 1 min]",
    "groups": "SELECT k, COUNT(*) AS n FROM s [UNBOUNDED] GROUP BY k",
    "negation": "SELECT k FROM s [RANGE 1 min] WHERE NOT EXISTS "
    "(SELECT 1 FROM s [RANGE 1 min] o WHERE o.k = s.k AND o.v = 7)",
    "joined": "SELECT COUNT(*) AS n FROM s [WINDOW 60 sec SLIDE 2 sec] a, s [WINDOW 60 sec SLIDE 2 sec] b "
    "WHERE a.k = b.k",
    "both": "SELECT k FROM s [WINDOW 60 sec SLIDE 2 sec] INTERSECT SELECT k FROM s [WINDOW 60 sec SLIDE 2 sec]",
}
GOING = {
    "short": "SELECT k FROM s [RANGE 1 sec] WHERE v = 1",
    "few": "SELECT v, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY v",
    "passing": "Istream(SELECT k, v FROM s [UNBOUNDED])",
}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("near", "failing"), [(500_000, list(FAILING)), (0, ["window"])], ids=["in the process", "on executors"]
)
def test_plans_that_keep_too_much_fail_alone(spark: Any, tmp_path: Path, near: int, failing: list[str]) -> None:
    fill(tmp_path / "data")
    for restart in (False, True):
        with sash.connect(
            spark=spark, checkpoint=tmp_path / "checkpoint", max_rows=20, executor_rows=near, partitions=2
        ) as session:
            create(session, tmp_path / "data")
            if not restart:
                for name in failing:
                    session.register(FAILING[name], name=name)
                for name, text in GOING.items():
                    session.register(text, name=name)
            session.run()
            for name in failing:
                assert f"query '{name}' failed: it keeps " in str(session.queries[name].error), name
                assert "max_rows is 20" in str(session.queries[name].error)
            for name in GOING:
                assert session.queries[name].error is None, name
            assert [row["n"] for row in session.queries["few"].answers()[-1].table.sort_by("v").to_pylist()] == [16, 16]
            left = list((tmp_path / "checkpoint").rglob("state/*.arrow"))
            assert len({path.parent for path in left}) <= len(GOING)
    with pytest.raises(SashError, match="max_rows must be 1 or more"):
        sash.connect(spark=spark, max_rows=0)


@pytest.mark.spark
def test_groups_of_a_join_beyond_the_limit_fail_their_queries(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "data")
    join = "FROM s [WINDOW 60 sec SLIDE 2 sec] a, s [WINDOW 60 sec SLIDE 2 sec] b WHERE a.k = b.k"
    for restart in (False, True):
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", max_groups=20) as session:
            create(session, tmp_path / "data")
            if not restart:
                session.register(f"SELECT a.k, COUNT(*) AS n {join} GROUP BY a.k", name="many")
                session.register(f"SELECT COUNT(*) AS n {join}", name="total")
            session.run()
            assert "groups by (" in str(session.queries["many"].error)
            assert session.queries["total"].error is None
            assert session.queries["total"].answers()[-1].table.to_pylist() == [{"n": 32}]
            if restart:
                later = session.register(f"SELECT a.k, COUNT(*) AS n {join} GROUP BY a.k", name="later")
                assert later.error is None


@pytest.mark.spark
def test_a_stored_window_beyond_the_limit_is_refused_to_questions(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "data")
    question = "SELECT COUNT(*) AS n FROM s [WINDOW 1 min] WHERE v = 1"
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", max_rows=20) as session:
        create(session, tmp_path / "data", "KEEP 1 min")
        query = session.register("SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec]", name="q")
        session.run()
        with pytest.raises(SashError, match=r"stream 's': its stored window had 24 rows.*max_rows is 20"):
            session.query(question)
        assert query.error is None and query.answers()[-1].table.to_pylist() == [{"n": 32}]
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", max_rows=20) as session:
        create(session, tmp_path / "data", "KEEP 1 min")
        with pytest.raises(SashError, match="its stored window had 24 rows"):
            session.query(question)
    write(tmp_path / "data", 4, [(3.95, 1, 1), (4.5, 2, 1), (5.5, 3, 1)])
    for _ in range(2):
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", max_rows=100) as session:
            create(session, tmp_path / "data", "KEEP 1 min")
            session.run()
            answer = session.query(question)
            assert answer.to_pylist() == [{"n": 2}]
            assert json.loads(answer.schema.metadata[b"complete"]) is False


@pytest.mark.spark
def test_a_window_in_the_cluster_has_no_such_limit(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "data")
    with sash.connect(spark=spark, max_rows=20) as session:
        create(session, tmp_path / "data", "KEEP 1 min STORED IN CLUSTER")
        session.run()
        assert session.query("SELECT COUNT(*) AS n FROM s [WINDOW 1 min]").to_pylist() == [{"n": 32}]
