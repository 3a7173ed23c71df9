"""Every aggregate and kind of window through real streaming: files in, Spark's passes, every answer against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sash
from sash.core.time import SECOND, to_micros
from sash.engine.answer import Answer
from tests.engine.test_aggregate_oracle import ANY_FORM, by_partition, by_rows, by_time, expect, numbered
from tests.engine.test_streaming_oracle import declare, write
from tests.support.forms import SEVERAL, Form
from tests.support.oracle import same_rows
from tests.support.streams import batches

pytestmark = pytest.mark.spark

DELAY = 2 * SECOND
WINDOWS = ["[WINDOW {n} sec SLIDE {s} sec]", "[ROWS {n} SLIDE {s}]", "[PARTITION BY k ROWS {n} SLIDE {s}]"]
ASKED = st.lists(
    st.tuples(ANY_FORM, st.sampled_from(WINDOWS), st.integers(1, 9), st.integers(1, 5)), min_size=8, max_size=14
)


def check(text: str, form: Form, window: str, n: int, s: int, answers: list[Answer], parts: list[pa.Table]) -> None:
    tuples = numbered(parts)
    for i, answer in enumerate(answers):
        position = (i + 1) * s
        select = {
            "[WINDOW {n} sec SLIDE {s} sec]": by_time(to_micros(answer.as_of), 0),
            "[ROWS {n} SLIDE {s}]": by_rows(position, 0),
            "[PARTITION BY k ROWS {n} SLIDE {s}]": by_partition(position, 0, "k"),
        }[window]
        theirs = expect(form, tuples, select, n)
        assert same_rows(answer.table.to_pylist(), theirs), (text, answer.as_of, answer.table.to_pylist(), theirs)
    if "ROWS" in window:
        assert len(answers) == len(tuples) // s


def test_matrix(spark: Any, tmp_path: Path) -> None:
    runs = iter(range(1_000))

    @settings(max_examples=6, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
    @given(ASKED, st.sampled_from(SEVERAL), batches(disorder=DELAY, most=80))
    def run(asked: list[tuple[Form, str, int, int]], several: Form, parts: list[pa.Table]) -> None:
        directory = tmp_path / f"run-{next(runs)}"
        filled = [part for part in parts if len(part)]
        write(filled, directory)
        session = sash.connect(spark=spark)
        declare(session, directory, DELAY)
        texts = [form.ours.format(w=window.format(n=n, s=s)) for form, window, n, s in asked]
        handles = [session.register(text, name=f"q{i}") for i, text in enumerate(texts)]
        joined = several.ours.format(u="WINDOW", l=[f"{n} sec" for n in range(10)], s="2 sec")
        both = session.register(joined, name="several")
        session.run()
        assert all(handle.error is None for handle in [*handles, both])
        for text, (form, window, n, s), handle in zip(texts, asked, handles, strict=True):
            check(text, form, window, n, s, handle.answers(), filled)
        for answer in both.answers():
            theirs = expect(several, pa.concat_tables(filled), by_time(to_micros(answer.as_of), 0), 0)
            assert same_rows(answer.table.to_pylist(), theirs), (joined, answer.as_of)
        session.close()

    run()
