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
from sash.engine.answers.answer import Answer
from tests.engine.test_aggregate_oracle import ANY_FORM, by_partition, by_rows, by_time, expect, numbered
from tests.engine.test_streaming_oracle import declare, write
from tests.support.examples import examples
from tests.support.forms import SEVERAL, Form
from tests.support.oracle import same_rows
from tests.support.streams import batches

pytestmark = pytest.mark.spark

DELAY = 2 * SECOND
WINDOWS = ["[WINDOW {n} sec SLIDE {s} sec]", "[ROWS {n} SLIDE {s}]", "[PARTITION BY k ROWS {n} SLIDE {s}]"]
ASKED = st.lists(
    st.tuples(ANY_FORM, st.sampled_from(WINDOWS), st.integers(1, 9), st.integers(1, 5)),
    min_size=8,
    max_size=14,
    # Identical ones would follow the fastest (CS8).
    unique_by=lambda asked: (asked[0].ours, asked[1], asked[2]),
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

    @settings(max_examples=examples(6), suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
    @given(ASKED, st.sampled_from(SEVERAL), batches(disorder=DELAY, most=80))
    def run(asked: list[tuple[Form, str, int, int]], several: Form, parts: list[pa.Table]) -> None:
        directory = tmp_path / f"run-{next(runs)}"
        filled = [part for part in parts if len(part)]
        write(filled, directory)
        session = sash.connect(spark=spark, policy="conservative")
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


TYPES = [
    *(
        f"CASE WHEN id % 5 = 4 THEN NULL ELSE CAST(id * 7 % 13 AS {name}) END"
        for name in ("TINYINT", "BIGINT", "FLOAT")
    ),
    "CASE WHEN id % 5 = 4 THEN NULL ELSE CAST(id * 7 % 13 AS DECIMAL(10, 2)) / 4 END",
    "CASE WHEN id % 5 = 4 THEN NULL ELSE CAST(id * 7 % 13 AS STRING) END",
    "CASE WHEN id % 5 = 4 THEN NULL ELSE id % 3 = 0 END",
    "CAST(CAST(id * 7 % 13 AS STRING) AS BINARY)",
    "date_add(DATE'2026-01-01', CAST(id * 7 % 13 AS INT))",
    "timestamp_seconds(id * 7 % 13)",
    "CAST(timestamp_seconds(id * 7 % 13) AS TIMESTAMP_NTZ)",
    "CASE WHEN id % 7 = 0 THEN double('NaN') WHEN id % 7 = 1 THEN -0.0D WHEN id % 7 = 2 THEN 0.0D ELSE id % 5 END",
]


def test_holistic_aggregates_of_every_type(spark: Any) -> None:
    """With and without GROUP BY, against Spark's own batch SQL."""
    columns = [f"{text} AS c{i}" for i, text in enumerate(TYPES)]
    frame = spark.range(300).selectExpr(
        "timestamp_micros(1700000000000000 + id * 10000) AS ts", "id % 4 AS k", *columns
    )
    frame.createOrReplaceTempView("holistic_types")
    session = sash.connect(spark=spark, policy="conservative")
    session.create_stream("s", frame, timestamp="ts")
    for i in range(len(TYPES)):
        scalars = f"COUNT(DISTINCT c{i}) AS d, QUANTILE(c{i}, 0.3) AS q, MODE(c{i}) AS m"
        session.register(f"SELECT {scalars} FROM s [WINDOW 10 sec SLIDE 5 sec]", f"all{i}")
        session.register(f"SELECT k, {scalars} FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k", f"by{i}")
        session.register(f"SELECT k, TOP(3, c{i}) FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k", f"top{i}")
    session.run()
    for i in range(len(TYPES)):
        for name, keys in (("all", ""), ("by", "k")):
            ours = session.queries[f"{name}{i}"].latest()
            assert ours is not None
            assert same_rows(ours.table.to_pylist(), _scalars(spark, f"c{i}", keys)), TYPES[i]
        ours = session.queries[f"top{i}"].latest()
        assert ours is not None
        theirs = spark.sql(
            f"SELECT k, c, n FROM (SELECT k, c{i} AS c, count(*) AS n, row_number() OVER (PARTITION BY k ORDER BY "
            f"count(*) DESC, c{i}) AS place FROM holistic_types WHERE c{i} IS NOT NULL GROUP BY k, c{i}) "
            f"WHERE place <= 3"
        ).toArrow()
        assert same_rows(ours.table.to_pylist(), theirs.to_pylist()), TYPES[i]
    session.close()


def _scalars(spark: Any, column: str, keys: str) -> list[dict[str, Any]]:
    """COUNT DISTINCT, the 0.3 quantile and the mode by sorted lists, as the definitions say."""
    select, group = (f"{keys}, ", f"GROUP BY {keys}") if keys else ("", "")
    counts = f"(SELECT {select}{column} AS c, count(*) AS n FROM holistic_types GROUP BY {select}{column})"
    mode = "element_at(array_sort(collect_list(IF(c IS NULL, NULL, struct(-n AS a, c AS b)))), 1).b"
    nth = f"element_at(array_sort(collect_list({column})), CAST(greatest(1, count({column}) * 3 DIV 10) AS INT))"
    modes = spark.sql(f"SELECT {select}{mode} AS m FROM {counts} {group}").toArrow().to_pylist()
    rest = spark.sql(f"SELECT {select}count(DISTINCT {column}) AS d, {nth} AS q FROM holistic_types {group}").toArrow()
    by_key = {row.get("k"): row["m"] for row in modes}
    return [{**row, "m": by_key[row.get("k")]} for row in rest.to_pylist()]
