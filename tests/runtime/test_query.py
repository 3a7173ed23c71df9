"""What queries remember of their answers is bounded, all together and each."""

from __future__ import annotations

import pyarrow as pa

from sash.core.time import to_datetime
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import ANSWER_OVERHEAD, AnswerMemory, Outward


def answer(second: int, table: pa.Table) -> Answer:
    return Answer("q", to_datetime(second * 1_000_000), True, True, table)


def numbers(rows: int) -> pa.Table:
    return pa.table({"n": pa.array(range(rows), pa.int64())})


def test_a_query_keeps_its_last_answers_and_nothing_is_counted_for_the_others() -> None:
    memory = AnswerMemory(10**9)
    kept = Outward("q", 10, memory)
    for i in range(1_000):
        memory.add([(kept, answer(i, numbers(1)))])
    assert [a.as_of.timestamp() for a in kept.answers] == list(range(990, 1_000))
    assert memory.used == 10 * (8 + ANSWER_OVERHEAD)
    memory.forget(kept.answers)
    assert memory.used == 0


def test_all_together_stay_within_the_limit_and_each_keeps_its_latest() -> None:
    limit = 50_000
    memory = AnswerMemory(limit)
    queries = [Outward(name, 1_000, memory) for name in "abc"]
    for i in range(200):
        for kept in queries:
            memory.add([(kept, answer(i, numbers(100)))])
    assert memory.used <= limit
    assert memory.forgotten > 0
    assert all(kept.answers[-1].as_of.timestamp() == 199 for kept in queries)


def test_a_shared_table_is_counted_once() -> None:
    memory = AnswerMemory(10**9)
    one, two = Outward("one", 5, memory), Outward("two", 5, memory)
    table = numbers(1_000)
    memory.add([(one, answer(1, table))])
    memory.add([(two, answer(1, table))])
    assert memory.used == 8_000 + 2 * ANSWER_OVERHEAD
    memory.forget(one.answers)
    assert memory.used == 8_000 + ANSWER_OVERHEAD
