"""An answer's table is made when somebody looks at it; until then, and after, the answer is the same to everybody."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from sash.panes.answers import PendingTable
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.registered_query import ANSWER_OVERHEAD
from tests.work.packets import PacketSession

SUMS = "SELECT src, SUM(length) AS bytes FROM packets [WINDOW 5 sec SLIDE 1 sec] GROUP BY src"

# One value, and three rows.
LISTS = (
    "SELECT MEDIAN(length) AS middle FROM packets [WINDOW 5 sec SLIDE 1 sec]",
    "SELECT TOP(3, src, SUM(length)) FROM packets [WINDOW 5 sec SLIDE 1 sec]",
)


def answers(text: str = SUMS, queries: int = 1) -> list[Answer]:
    with PacketSession() as session:
        found = [session.register(text, f"q{number}") for number in range(queries)]
        session.go_on(10)
        return [query.answers()[-1] for query in found]


def test_the_table_is_made_once_for_all_who_asked_the_same() -> None:
    first, second = answers(queries=2)
    assert isinstance(first.content, PendingTable) and first.content is second.content
    rows = first.num_rows
    assert "table" not in vars(first)
    assert first.table is second.table and rows == first.num_rows == first.table.num_rows > 0


@pytest.mark.parametrize("text", LISTS)
def test_lists_and_quantiles_are_cut_out_when_somebody_looks(text: str) -> None:
    with PacketSession() as session:
        windows = [session.register(text.replace("5 sec", f"{length} sec"), f"q{length}") for length in (2, 5)]
        session.go_on(10)
        short, long = (query.answers()[-1] for query in windows)
    assert all(isinstance(answer.content, PendingTable) for answer in (short, long))
    # Each second has the same packets, so a window of n seconds has n times the weights, and the same median.
    (*_, few), (*_, many) = short.table.to_pydict().values(), long.table.to_pydict().values()
    assert many == (few if "MEDIAN" in text else [weight * 5 // 2 for weight in few])


def test_stats_count_what_answers_would_take_if_somebody_looked() -> None:
    with PacketSession(keep_answers=3) as session:
        first, second = (session.register(SUMS, name) for name in ("first", "second"))
        session.go_on(10)
        # Both queries remember the same three tables.
        values = sum(answer.num_rows * 2 for answer in first.answers())
        assert len(first.answers()) == 3 and values > 0
        expected = 8 * values + 6 * ANSWER_OVERHEAD
        assert session.stats()["answer_bytes"] == expected
        assert all(answer.table.num_columns == 2 for answer in second.answers())
        assert session.stats()["answer_bytes"] == expected
        second.drop()
        assert session.stats()["answer_bytes"] == expected - 3 * ANSWER_OVERHEAD
        first.drop()
        assert session.stats()["answer_bytes"] == 0


def test_copies_have_the_table() -> None:
    (answer,) = answers()
    for other in (copy.copy(answer), pickle.loads(pickle.dumps(answer)), replace(answer)):
        assert other == answer and "table" in vars(other) and not isinstance(other.content, PendingTable)


def test_an_attribute_that_is_not_there_is_named() -> None:
    (answer,) = answers()
    with pytest.raises(AttributeError, match="'Answer' object has no attribute 'tabel'"):
        getattr(answer, "tab" + "el")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(length) AS bytes FROM packets [WINDOW 5 sec SLIDE 1 sec] LIMIT 0",
        f"{SUMS} LIMIT 2",
        f"{SUMS} HAVING SUM(length) > 1000",
        "SELECT src, MAX(length) AS most FROM packets [WINDOW 5 sec SLIDE 1 sec] GROUP BY src",
        *LISTS,
    ],
)
def test_the_number_of_rows_is_that_of_the_table(text: str) -> None:
    (answer,) = answers(text)
    assert answer.num_rows == answer.table.num_rows
