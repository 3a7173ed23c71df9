"""Cancelled questions, and answers that are cut; Spark's part is in test_stopped_questions."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sash.core.errors import QuestionCancelledError, QuestionTimedOutError, SashError
from sash.core.stopping import QUESTION, Cancellation
from sash.core.time import SECOND
from sash.panes.row_folds import RowFold
from sash.runtime.asking.one_time import asked
from sash.runtime.stored.stored_window import PRIORITY
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream
from tests.support.threads import PATIENCE

SUM = "SELECT SUM(v) AS total FROM s [WINDOW 30 sec]"
VALUES = "SELECT v, COUNT(*) AS n FROM s [WINDOW 30 sec] GROUP BY v ORDER BY v"


@pytest.fixture
def session() -> Iterator[SparklessSession]:
    with SparklessSession() as made:
        made.declare(stream(keep=60 * SECOND))
        made.push("s", tuples(*((second, 1, second) for second in range(1, 42))))
        yield made


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the first sub-window of a question has been folded; the fold waits until it is to stop."""
    begun, add = threading.Event(), RowFold.add

    def slowly(self: RowFold, rows: pa.Table) -> None:
        add(self, rows)
        question, told = QUESTION.get(), threading.Event()
        assert question is not None
        with question.calling(told.set):
            begun.set()
            assert told.wait(PATIENCE)

    monkeypatch.setattr(RowFold, "add", slowly)
    return begun


@pytest.mark.usefixtures("folding")
def test_the_time_of_a_question_is_over(session: SparklessSession) -> None:
    with pytest.raises(QuestionTimedOutError, match=r"not answered within 0.01 s"):
        session.query(SUM, timeout=0.01)


def test_another_thread_cancels_between_two_sub_windows(session: SparklessSession, folding: threading.Event) -> None:
    cancellation = Cancellation()

    def cancel() -> None:
        assert folding.wait(PATIENCE)
        cancellation.cancel()

    other = threading.Thread(target=cancel)
    other.start()
    with pytest.raises(QuestionCancelledError):
        session.query(SUM, cancellation=cancellation)
    other.join()


def test_the_window_goes_on_after_a_question_that_was_stopped(
    session: SparklessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = Cancellation()
    cancelled.cancel()
    with pytest.raises(QuestionCancelledError):
        session.query(SUM, cancellation=cancelled)
    session.push("s", tuples((42, 1, 42), (50, 1, 50)))
    assert session.query(SUM, timeout=PATIENCE).num_rows == 1


def test_only_so_many_rows(session: SparklessSession) -> None:
    every = session.query(VALUES)
    some = session.query(VALUES, max_rows=3)
    assert some.to_pylist() == every.to_pylist()[:3] and len(every) > 3
    assert some.schema.metadata == {**every.schema.metadata, b"truncated": b"true"}
    for enough in (len(every), len(every) + 1):
        assert session.query(VALUES, max_rows=enough).equals(every, check_metadata=True)
    assert session.query(VALUES, max_rows=0).num_rows == 0


def test_how_a_question_is_asked_is_known_inside_only() -> None:
    seen: list[object] = []

    def ask() -> pa.Table:
        seen.extend([PRIORITY.get(), QUESTION.get()])
        return pa.table({"n": [1]})

    cancellation = Cancellation()
    asked(ask, 7, None, cancellation, None)
    assert seen == [7, cancellation]
    assert PRIORITY.get() == 0 and QUESTION.get() is None


def test_an_error_of_being_stopped_is_told_as_that_and_others_as_they_are() -> None:
    cancellation = Cancellation()

    def broken() -> pa.Table:
        raise SashError("Spark refuses the question: job cancelled")

    def stopped() -> pa.Table:
        cancellation.cancel()
        return broken()

    with pytest.raises(SashError, match="job cancelled"):
        asked(broken, 0, 10, None, None)
    with pytest.raises(QuestionCancelledError):
        asked(stopped, 0, 10, cancellation, None)


@pytest.mark.parametrize(
    ("timeout", "rows", "says"), [(0, None, "above 0"), (float("nan"), None, "above 0"), (1, -1, "max_rows")]
)
def test_words_that_are_wrong(timeout: float, rows: int | None, says: str) -> None:
    with pytest.raises(SashError, match=says):
        asked(lambda: pa.table({}), 0, timeout, None, rows)
