from datetime import datetime

import pyarrow as pa
import pytest
from rich.console import Console

from sash.cli.printing import answer_table, arrow_table, one_time_table, summary
from tests.cli.examples import answer, moment


def text(renderable, width=100):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def test_the_title_is_not_squeezed_into_a_narrow_table():
    assert text(answer_table(answer(5, k=[1]), 20)).startswith("totals as of 2026-01-01 00:00:05 UTC\n")


def test_a_question_about_something_that_has_no_time_yet():
    shown = text(one_time_table("SELECT * FROM calls", pa.table({"k": pa.array([], pa.int32())}), 10))
    assert shown.startswith("SELECT * FROM calls, as of no time yet\n") and "no rows" in shown


def test_rows_beyond_the_limit_are_counted():
    shown = text(arrow_table(pa.table({"k": list(range(100, 130))}), 10))
    assert "109" in shown and "110" not in shown and "20 more rows" in shown


def test_an_empty_answer_says_so():
    assert "no rows" in text(arrow_table(pa.table({"k": pa.array([], pa.int32())}), 10))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        (1 / 3, "0.3333333333"),
        (moment(1.5), "2026-01-01 00:00:01.500000"),
        (datetime(2026, 1, 1), "2026-01-01 00:00:00"),
        ("[red]", "[red]"),
    ],
)
def test_values(value, shown):
    assert shown in text(arrow_table(pa.table({"x": [value]}), 10))


def stats(**bad):
    stream = {
        "seconds_in_spark": 1.5,
        "seconds_in_sash": 0.5,
        "null_timestamps": 0,
        "unparsable": 0,
        "jumped_tuples": 0,
        **bad,
    }
    return {
        "tuples": 1000,
        "tuples_per_s": 500.0,
        "late_tuples": 0,
        "executions": 4,
        "joint_executions": 3,
        "work_saved": 0.25,
        "streams": {"s": stream},
        "queries": {"a": {"answers": 7}, "b": {"answers": 1}},
    }


def test_summary():
    assert summary(stats()) == (
        "1,000 tuples in 2.0 s (500 tuples/s), 8 answers, 3 of 4 executions joint, 25% work saved"
    )


def test_bad_tuples_are_mentioned():
    assert summary({**stats(unparsable=2), "late_tuples": 5}).endswith("of these tuples 5 late, 2 not parsed")
