"""Groups served by several threads: the same answers in the same order as with one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

import sash
from sash.core.errors import SashError
from sash.core.time import SECOND
from sash.runtime.periodic.stream_runtime import Progress, StreamRuntime
from sash.runtime.settings import Settings
from tests.runtime.test_session import create, files
from tests.support.duck_pass import aggregate
from tests.support.examples import examples
from tests.support.feed import compiled
from tests.support.streams import START, Registered, batches, query_sets, stream, to_table

# A query that fails when a value is large, one that ends, one that reads two groups, one with its own index.
OTHERS = {
    "fails": "SELECT k % 7 AS r, MAX(w) * 8388608 * 8388608 AS t FROM s [WINDOW 3 sec SLIDE 1 sec] GROUP BY k % 7",
    "two": "SELECT g, SUM(v) AS t, COUNT(DISTINCT v) AS d FROM s [WINDOW 4 sec SLIDE 2 sec] GROUP BY g",
    "about": "SELECT v, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY v HAVING APPROX COUNT(*) > 2",
}


def told(progress: Progress) -> list[Any]:
    answers = [
        (a.query, a.as_of, a.complete, a.scheduled, repr(a.table.to_pylist()), a.table.schema) for a in progress.answers
    ]
    return [answers, progress.outcome, progress.services]


def run(texts: dict[str, str], parts: list[pa.Table], workers: int) -> list[Any]:
    declared = stream()
    runtime = StreamRuntime(declared, Settings(workers=workers))
    runtime.synchronise(compiled(texts, declared))
    found = [told(runtime.apply(aggregate(declared, runtime.tables(), part))) for part in parts]
    return [*found, told(runtime.finish()), [group.schedule.local.snapshot() for group in runtime.ordered()]]


@settings(max_examples=examples(30))
@given(query_sets(6), batches())
def test_answers_failures_and_ends_are_the_same_in_the_same_order(
    queries: list[Registered], parts: list[pa.Table]
) -> None:
    texts = {**{query.name: query.text for query in queries}, **OTHERS}
    alone = run(texts, parts, workers=1)
    assert run(texts, parts, workers=2) == alone
    assert run(texts, parts, workers=4) == alone


GROUPED = {
    f"q{m}": f"SELECT v % {m} AS r, SUM(w) AS t FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY v % {m}" for m in range(2, 8)
}


def seconds_of_data(count: int) -> list[pa.Table]:
    return [to_table([(START + i * SECOND, 1, None, v, i, None) for v in range(9)]) for i in range(count)]


def test_groups_are_executed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two executions wait for each other: with one thread neither would end."""
    meeting, original, threads = threading.Barrier(2, timeout=60), StreamRuntime.execute, set[str]()

    def execute(runtime: StreamRuntime, *arguments: Any) -> float:
        threads.add(threading.current_thread().name)
        meeting.wait()
        return original(runtime, *arguments)

    monkeypatch.setattr(StreamRuntime, "execute", execute)
    run(GROUPED, seconds_of_data(6), workers=2)
    assert len(threads) == 2 and all(name.startswith("sash-worker") for name in threads)
    assert not any(thread.name.startswith("sash-worker") for thread in threading.enumerate())


def test_others_are_let_in_only_when_no_worker_is_at_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, original, seen = list[str](), StreamRuntime.execute, list[int]()

    def execute(runtime: StreamRuntime, *arguments: Any) -> float:
        busy.append("")
        took = original(runtime, *arguments)
        busy.pop()
        return took

    monkeypatch.setattr(StreamRuntime, "execute", execute)
    declared = stream()
    runtime = StreamRuntime(declared, Settings(workers=3), lambda: seen.append(len(busy)))
    runtime.synchronise(compiled(GROUPED, declared))
    for part in seconds_of_data(20):
        runtime.apply(aggregate(declared, runtime.tables(), part))
    assert len(seen) > 50 and not any(seen)


def test_a_defect_in_a_worker_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(*arguments: Any) -> float:
        raise LookupError("a defect")

    monkeypatch.setattr(StreamRuntime, "execute", execute)
    with pytest.raises(LookupError, match="a defect"):
        run(GROUPED, seconds_of_data(6), workers=2)


def test_no_workers_are_too_few() -> None:
    with pytest.raises(SashError, match="workers must be 1 or more, not 0"):
        Settings(workers=0)


@pytest.mark.spark
def test_recovery_with_another_number_of_workers(spark: Any, tmp_path: Path) -> None:
    files(tmp_path / "data", 3)

    def answers(session: sash.Session) -> dict[str, list[tuple[Any, ...]]]:
        return {
            name: [(a.as_of, a.complete, a.table.to_pylist()) for a in query.answers()]
            for name, query in session.queries.items()
        }

    def opened(workers: int, checkpoint: str | None) -> sash.Session:
        place = None if checkpoint is None else tmp_path / checkpoint
        return sash.connect(spark=spark, checkpoint=place, workers=workers)

    def register(session: sash.Session) -> None:
        create(session, tmp_path / "data")
        for number in range(2, 6):
            session.register(
                f"SELECT v % {number} AS r, SUM(k) AS t FROM s [WINDOW 6 sec SLIDE {number} sec] GROUP BY v % {number}",
                name=f"q{number}",
            )

    with opened(1, None) as session:
        register(session)
        session.run()
        expected = answers(session)
    with opened(4, "c") as session:
        register(session)
        session.run()
        assert answers(session) == expected
    with opened(1, "c") as session:
        assert answers(session) == expected
    with opened(4, "c") as session:
        assert answers(session) == expected
