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
from sash.runtime.answers.answer import Answer
from sash.sql.types import spark_name
from tests.runtime.test_aggregate_oracle import ANY_FORM, by_partition, by_rows, by_time, expect, numbered
from tests.runtime.test_streaming_oracle import declare, write
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
    expected = {"all": _scalars(spark, ""), "by": _scalars(spark, "k")}
    top = _top(spark)
    for i in range(len(TYPES)):
        for name, theirs in expected.items():
            ours = session.queries[f"{name}{i}"].latest()
            assert ours is not None
            assert same_rows(ours.table.to_pylist(), theirs[i]), TYPES[i]
        ours = session.queries[f"top{i}"].latest()
        assert ours is not None
        assert same_rows(ours.table.to_pylist(), top[i]), TYPES[i]
    session.close()


# Of every type; of conditions, whole numbers and numbers. `{c}` is the column.
_EVERY = [
    ("ANY_VALUE({c})", "min({c})"),
    ("FIRST({c})", "min_by({c}, ts)"),
    ("LAST({c}) IGNORE NULLS", "max_by({c}, ts) FILTER (WHERE {c} IS NOT NULL)"),
    ("MIN_BY(v, {c})", "(min(struct({c}, v)) FILTER (WHERE {c} IS NOT NULL)).v"),
    ("MAX_BY({c}, v)", "max(struct(v, {c})).{c}"),
    ("COUNT({c}) FILTER (WHERE v > 2)", ""),
    ("COUNT(DISTINCT {c}, v)", ""),
    (
        "COLLECT_LIST({c}, 7)",
        "slice(transform(array_sort(collect_list(struct(ts, {c})) FILTER (WHERE {c} IS NOT NULL)), p -> p.{c}), 1, 7)",
    ),
    ("COLLECT_SET({c})", "array_sort(array_distinct(collect_list({c})))"),
    (
        "LISTAGG(CAST(v AS STRING), ', ', 9) WITHIN GROUP (ORDER BY {c})",
        "array_join(slice(transform(array_sort(collect_list(struct({c}, string(v) AS s))), p -> p.s), 1, 9), ', ')",
    ),
    ("PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY {c} DESC)", ""),
]
_CONDITIONS = ["EVERY({c})", "BOOL_OR({c})", "COUNT_IF({c})"]
_BITS = ["BIT_AND({c})", "BIT_OR({c})", "BIT_XOR({c})"]
_NUMBERS = [
    *("CORR({c}, v)", "COVAR_SAMP({c}, v)", "REGR_SLOPE({c}, v)", "REGR_INTERCEPT(v, {c})", "REGR_R2({c}, v)"),
    *("REGR_COUNT({c}, v)", "REGR_AVGX({c}, v)", "REGR_SXY({c}, v)", "REGR_SYY({c}, v)", "SKEWNESS({c})"),
    *("KURTOSIS({c})", "PERCENTILE({c}, 0.3)"),
]


def test_aggregates_of_every_type(spark: Any) -> None:
    """Answers and their types are those of Spark's own batch SQL; tuples of one group come in several micro-batches."""
    columns = [f"{text} AS c{i}" for i, text in enumerate(TYPES)]
    # No two tuples of one time: FIRST and LAST have no ties.
    frame = spark.range(300).selectExpr(
        "timestamp_micros(1700000000000000 + id * 10000) AS ts",
        "id % 3 AS k",
        "CAST(id * id % 7 AS INT) AS v",
        *columns,
    )
    frame.createOrReplaceTempView("aggregated_types")
    session = sash.connect(spark=spark, policy="conservative")
    session.create_stream("s", frame, timestamp="ts")
    asked: dict[str, str] = {}
    for i in range(len(TYPES)):
        some = (
            _CONDITIONS if i == 5 else [*(_BITS if i in (0, 1) else []), *(_NUMBERS if i in (0, 1, 2, 3, 10) else [])]
        )
        # PERCENTILE_DISC of Spark takes numbers alone.
        every = _EVERY if i in (0, 1, 2, 3, 10) else _EVERY[:-1]
        pairs = [(text.format(c=f"c{i}"), (theirs or text).format(c=f"c{i}")) for text, theirs in every]
        pairs += [(text.format(c=f"c{i}"), text.format(c=f"c{i}")) for text in some]
        ours, theirs = (", ".join(f"{pair[side]} AS a{j}" for j, pair in enumerate(pairs)) for side in (0, 1))
        session.register(f"SELECT k, {ours} FROM s [WINDOW 10 sec SLIDE 1 sec] GROUP BY k", f"q{i}")
        asked[f"q{i}"] = f"SELECT k, {theirs} FROM aggregated_types GROUP BY k"
    session.run()
    for name, text in asked.items():
        answer, theirs = session.queries[name].latest(), spark.sql(text).toArrow()
        assert answer is not None
        assert list(map(spark_name, answer.table.schema.types)) == list(map(spark_name, theirs.schema.types)), text
        assert same_rows(answer.table.to_pylist(), theirs.to_pylist()), (text, answer.table.to_pylist(), theirs)
    session.close()


def _counts(keys: str) -> str:
    """How often there is a value, for all columns at once: `absent3` is 0 where a row is about column 3."""
    columns = ", ".join(f"c{i}, grouping(c{i}) AS absent{i}" for i in range(len(TYPES)))
    sets = ", ".join(f"({keys}c{i})" for i in range(len(TYPES)))
    return f"(SELECT {keys}{columns}, count(*) AS n FROM holistic_types GROUP BY GROUPING SETS ({sets}))"


def _scalars(spark: Any, key: str) -> list[list[dict[str, Any]]]:
    """COUNT DISTINCT, the 0.3 quantile and the mode of each column by sorted lists, as the definitions say."""
    select, group = (f"{key}, ", f"GROUP BY {key}") if key else ("", "")
    modes, rest = [], []
    for i in range(len(TYPES)):
        modes.append(f"min(IF(absent{i} = 1 OR c{i} IS NULL, NULL, struct(-n AS a, c{i} AS b))).b AS m{i}")
        nth = f"element_at(array_sort(collect_list(c{i})), CAST(greatest(1, count(c{i}) * 3 DIV 10) AS INT))"
        rest.append(f"count(DISTINCT c{i}) AS d{i}, {nth} AS q{i}")
    found = spark.sql(f"SELECT {select}{', '.join(modes)} FROM {_counts(select)} {group}").toArrow().to_pylist()
    by_key = {row.get("k"): row for row in found}
    rows = spark.sql(f"SELECT {select}{', '.join(rest)} FROM holistic_types {group}").toArrow().to_pylist()
    for row in rows:
        row |= by_key[row.get("k")]
    names = ["k"] if key else []
    return [
        [{name: row[name] for name in (*names, f"d{i}", f"q{i}", f"m{i}")} for row in rows] for i in range(len(TYPES))
    ]


def _top(spark: Any) -> list[list[dict[str, Any]]]:
    """The three most frequent values of each column by group."""
    places = ", ".join(
        f"row_number() OVER (PARTITION BY k, absent{i}, c{i} IS NULL ORDER BY n DESC, c{i}) AS place{i}"
        for i in range(len(TYPES))
    )
    rows = spark.sql(f"SELECT *, {places} FROM {_counts('k, ')}").toArrow().to_pylist()
    return [
        [
            {"k": row["k"], "c": row[f"c{i}"], "n": row["n"]}
            for row in rows
            if row[f"absent{i}"] == 0 and row[f"c{i}"] is not None and row[f"place{i}"] <= 3
        ]
        for i in range(len(TYPES))
    ]
