"""What an answer costs where N queries each have a window of their own: the workloads W1, sums by source, and W4."""

from __future__ import annotations

import pytest

from benchmarks.engines import texts_of
from benchmarks.run_multi_query import workload
from sash.runtime.periodic import group_filters
from tests.work.counting import calls
from tests.work.packets import PacketSession

# Queries, micro-batches of five seconds, and the calls per answer that were counted. Of many queries more are due at
# once: they share a scan, and what a micro-batch costs by itself.
# W4 has HAVING, and ORDER BY with LIMIT: their answers are finished together.
COUNTED = [("W1", 10, 12, 207.7), ("W1", 1_000, 4, 4.4), ("W4", 500, 4, 19.9)]
# The calls of one more query in its first micro-batch, when it is bound, placed and scheduled.
FIRST = 109.1
# What may be added before somebody has to look: five in a hundred.
MARGIN = 1.05


@pytest.mark.parametrize(("form", "queries", "micro_batches", "per_answer"), COUNTED)
def test_calls_per_answer(form: str, queries: int, micro_batches: int, per_answer: float) -> None:
    with PacketSession() as session:
        for number, text in enumerate(texts_of(form, workload(None)[:queries])):
            session.register(text, f"q{number}")
        # The longest windows have a hundred seconds.
        for _ in range(20):
            session.go_on(5)
        before = session.answers
        with calls() as called:
            for _ in range(micro_batches):
                session.go_on(5)
        answers = session.answers - before
        assert answers > 2 * queries
        assert called.total <= MARGIN * per_answer * answers, f"{answers} answers: {called.dearest()}"


def test_calls_per_query_of_the_first_micro_batch() -> None:
    counted = []
    for queries in (100, 500):
        with PacketSession() as session:
            for number, text in enumerate(texts_of("W1", workload(None)[:queries])):
                session.register(text, f"q{number}")
            with calls() as called:
                session.go_on()
        counted.append(called)
    few, many = counted
    assert many.total - few.total <= MARGIN * FIRST * 400, many.dearest(few)


def test_identical_alerts_ask_their_index_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_filters, "LEAST_GROUPS", 1)
    monkeypatch.setattr(group_filters, "LEAST_QUERIES", 1)
    sums = "SELECT src, SUM(length) AS b FROM packets [WINDOW 5 sec SLIDE 1 sec] GROUP BY src"
    with PacketSession() as session:
        for number in range(20):
            session.register(f"{sums} HAVING SUM(length) > 900000000", f"q{number}")
        session.go_on(10)
        before = session.answers
        with calls() as called:
            session.go_on(5)
        asked = sum(count for name, count in called.by_function.items() if name.endswith("Filters.answer"))
        assert asked == 5 and session.answers - before == 5 * 20
