"""A SELECT is bound once: when it is registered, asked or explained. A registered query is not bound again by what
speaks of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType
from typing import Any

import pytest

import sash
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.session import Session
from sash.sql import bind, bind_stored
from tests.support.streams import START

COLUMNS = "ts TIMESTAMP, k BIGINT, v BIGINT"
PERIODIC = "SELECT k, SUM(v) AS s FROM a [WINDOW 4 sec SLIDE 2 sec] GROUP BY k"
KINDS = {
    "panes": PERIODIC,
    "changes": "SELECT DISTINCT k FROM a [RANGE 4 sec]",
    "joined panes": "SELECT COUNT(*) AS n FROM a [RANGE 4 sec SLIDE 2 sec], b [RANGE 4 sec SLIDE 2 sec] "
    "WHERE a.k = b.k",
    "sets": "SELECT k FROM a [RANGE 4 sec SLIDE 2 sec] INTERSECT SELECT k FROM b [RANGE 4 sec SLIDE 2 sec]",
    "nested joins": "SELECT a.v, b.v AS w FROM a [RANGE 4 sec], b [RANGE 4 sec] WHERE a.k = b.k",
}
QUESTIONS = {
    "panes": "SELECT k, SUM(v) AS s FROM a [WINDOW 4 sec] GROUP BY k",
    "stored rows": "SELECT v FROM a [WINDOW 4 sec] WHERE k = 3",
    "unknown to the binder": "SELECT upper(CAST(k AS STRING)) || 'x' AS x FROM a [WINDOW 4 sec] WHERE k RLIKE '3'",
}
BINDERS = {bind.__code__: "bind", bind_stored.__code__: "bind_stored"}


class Calls:
    """Calls of functions by the text of the SELECT that they take, while `counted`."""

    def __init__(self) -> None:
        self.bound: Counter[tuple[str, str]] = Counter()

    def note(self, frame: FrameType, event: str, arg: Any) -> None:
        code: CodeType = frame.f_code
        if event == "call" and code in BINDERS:
            self.bound[BINDERS[code], frame.f_locals["select"].text] += 1


@contextmanager
def counted() -> Iterator[Calls]:
    calls, before = Calls(), sys.getprofile()
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def bound_by(action: Callable[..., object], *args: str) -> dict[tuple[str, str], int]:
    with counted() as calls:
        action(*args)
    return dict(calls.bound)


@pytest.fixture
def session(spark: Any, tmp_path: Any) -> Iterator[Session]:
    with sash.connect(spark) as session:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            frame = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / name))
            session.create_stream(name, frame, timestamp="ts", keep="10 sec")
        yield session


@pytest.mark.spark
def test_a_text_is_bound_once_when_it_is_registered_and_explained(session: Session) -> None:
    for number, (kind, text) in enumerate(KINDS.items()):
        once = {("bind", text): 1}
        # Without SLIDE it is a question to Spark, too.
        explained = bound_by(session.sql, f"EXPLAIN {text}")
        assert {**explained, ("bind_stored", text): 1} == {**once, ("bind_stored", text): 1}, kind
        assert bound_by(session.sql, f"REGISTER QUERY q{number} AS {text}") == once, kind
        assert bound_by(session.explain, f"REGISTER QUERY q{number} AS {text}") == once, kind
        assert bound_by(session.sql, f"DESCRIBE EXTENDED q{number}") == once, kind
        # A twin shares the state of the first query.
        assert bound_by(session.sql, f"REGISTER QUERY twin{number} AS {text}") == once, kind
    assert bound_by(session.run) == {}


@pytest.mark.spark
@pytest.mark.parametrize("text", QUESTIONS.values(), ids=QUESTIONS)
def test_a_question_is_bound_once(session: Session, text: str) -> None:
    """Where panes cannot answer, Spark's text is made from the tree: once, too."""
    session.sql(f"REGISTER QUERY q AS {PERIODIC}")
    session.advance("a", START)
    with counted() as asked, suppress(sash.SashError):
        # No panes are closed yet.
        session.query(text)
    with counted() as explained:
        session.explain(text)
    for calls in (asked, explained):
        assert set(calls.bound.values()) == {1}
        assert calls.bound.keys() <= {("bind", text), ("bind_stored", text)}


@pytest.mark.spark
def test_a_registered_text_is_not_bound_again(session: Session, tmp_path: Any, monkeypatch: Any) -> None:
    # Archives of a session without a checkpoint are where the program runs.
    monkeypatch.chdir(tmp_path)
    for number, text in enumerate(KINDS.values()):
        session.sql(f"REGISTER QUERY q{number} AS {text}")
        asked = f"SELECT * FROM q{number}"
        found = bound_by(session.explain, asked)
        assert {name for _, name in found} == {asked} and set(found.values()) == {1}
    index = "CREATE INDEX ON q1 (k)"
    archive = "CREATE ARCHIVE kept FROM q0 KEY k LIFETIME UP TO 1 min UPDATE EVERY 10 sec"
    assert bound_by(session.sql, index) == bound_by(session.sql, "DROP INDEX ON q1 (k)") == {}
    assert bound_by(session.sql, archive) == {}


@pytest.mark.spark
def test_after_a_restart_each_text_is_bound_once(spark: Any, tmp_path: Any) -> None:
    def opened() -> Session:
        session = sash.connect(spark, tmp_path / "checkpoint")
        for name in ("a", "b"):
            (tmp_path / name).mkdir(exist_ok=True)
            frame = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / name))
            session.create_stream(name, frame, timestamp="ts", keep="10 sec")
        return session

    with opened() as session:
        for number, text in enumerate(KINDS.values()):
            session.sql(f"REGISTER QUERY q{number} AS {text}")
        session.advance("a", START)
        session.advance("b", START)
    with counted() as calls, opened() as again:
        for number in range(len(KINDS)):
            again.explain(f"SELECT * FROM q{number}")
            again.queries[f"q{number}"].latest()
        again.advance("a", START + 1_000_000)
        again.advance("b", START + 1_000_000)
    assert {text: calls.bound["bind", text] for text in KINDS.values()} == dict.fromkeys(KINDS.values(), 1)


@pytest.mark.spark
def test_a_stream_that_is_exchanged_meanwhile(session: Session, spark: Any, tmp_path: Any, monkeypatch: Any) -> None:
    """While the plans of a query are compared, without the lock, its stream becomes another one: the text is bound to
    that one."""
    prepare, times = ContinuousQueries.prepare, list[int]()

    def exchanged(self: ContinuousQueries, *args: Any) -> None:
        prepare(self, *args)
        if not times:
            session.drop_stream("a")
            frame = spark.readStream.schema("ts TIMESTAMP, k STRING").parquet(str(tmp_path / "a"))
            session.create_stream("a", frame, timestamp="ts")
        times.append(len(times))

    monkeypatch.setattr(ContinuousQueries, "prepare", exchanged)
    text = "SELECT DISTINCT k FROM a [RANGE 4 sec]"
    assert bound_by(session.sql, f"REGISTER QUERY q AS {text}") == {("bind", text): 2}
    assert str(session.continuous.decision_of(session.catalog.query("q")).schema.field("k").type) == "string"
