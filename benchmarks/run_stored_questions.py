"""When an index of a stored window helps a question that Spark answers: probes of joins, the first rows, a whole sort.

    python -m benchmarks.run_stored_questions [--rows 200000] [--rounds 5]

A window of so many rows with a tenth as many values of k. Each question is asked with and without the index by turns;
the shortest times of the rounds, in seconds, go to benchmarks/out/stored_questions.json:

    probe    a join with the last n rows: the index is probed with their values; or Spark is given all rows
    first    ORDER BY k LIMIT n: the rows of the first values; or all rows
    sort     ORDER BY k: all rows in the order of the index; or in that of time
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import pyarrow as pa

import sash
from sash.catalog import StoredIndex
from sash.engine import kept_indexes
from sash.spark.session import acquire_local_session, release_local_session
from sash.storage.window import RowIndex

OUT = Path(__file__).parent / "out"
PARTS = (1_000, 100, 20, 10, 5, 3, 2)
NEVER = 1 << 40
INDEX = StoredIndex("s", "k", "db")


def best(rounds: int, ways: dict[str, Callable[[], pa.Table]]) -> dict[str, float]:
    """The shortest time of each, by turns; a round before the first is not counted. All must answer alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    expected: pa.Table | None = None
    for _ in range(rounds + 1):
        for name, way in ways.items():
            start = perf_counter()
            answer = way()
            times[name].append(perf_counter() - start)
            expected = answer if expected is None else expected
            if not len(answer) or answer.to_pydict() != expected.to_pydict():
                raise AssertionError(f"{name}: {len(answer)} rows, which are not those of {next(iter(ways))}")
    return {name: round(min(each[1:]), 4) for name, each in times.items()}


def asked(session: sash.Session, text: str, helps: bool) -> Callable[[], Any]:
    """A question by the index however many values or rows it asks for, or without."""

    def ask() -> Any:
        least = 1 if helps else NEVER
        probed = 0 if helps else NEVER
        with mock.patch.multiple(kept_indexes, _LEAST_VALUES_PROBED=probed, _LEAST_ROWS_ORDERED=least):
            return session.query(text)

    return ask


def sorted_by_spark(session: sash.Session, spark: Any, by_index: bool) -> Callable[[], Any]:
    """With the time that it takes to fetch the rows in that order."""
    kept = session._streams["s"].kept
    assert kept is not None and kept.indexes is not None
    indexes = kept.indexes

    def rows(state: kept_indexes.IndexedWindow) -> pa.Table:
        index = state.indexes[INDEX]
        assert isinstance(index, RowIndex)
        return state.window.take(index.sorted_rows()) if by_index else state.rows()

    def ask() -> Any:
        # In one piece, as Spark wants them.
        found = indexes.read([INDEX], rows).combine_chunks()
        spark.createDataFrame(found).createOrReplaceTempView("stored_rows")
        return spark.sql("SELECT id, text FROM stored_rows ORDER BY k, id").toArrow()

    return ask


def measure(spark: Any, rows: int, rounds: int) -> dict[str, Any]:
    frame = spark.range(rows, numPartitions=2).selectExpr(
        f"timestamp_micros(1704067200000000 + id * {10_000_000 // rows}) AS ts",
        "id",
        f"CAST(pmod(hash(id), {rows // 10}) AS BIGINT) AS k",
        "CAST(id AS STRING) AS text",
    )
    found: dict[str, Any] = {"rows": rows, "rounds": rounds}
    with sash.connect(spark=spark) as session:
        session.create_stream("s", frame, timestamp="ts", keep="1 min")
        session.sql("CREATE INDEX ON s (k) USING db")
        session.run()
        shapes = {
            "probe": "SELECT COUNT(b.text) AS n FROM s [ROWS {}] a JOIN s [WINDOW 1 min] b ON a.k = b.k",
            "first": "SELECT id, text FROM s [WINDOW 1 min] ORDER BY k, id LIMIT {}",
        }
        for name, shape in shapes.items():
            whole = rows // 10 if name == "probe" else rows
            found[name] = {
                number: best(
                    rounds,
                    {
                        "index": asked(session, shape.format(number), True),
                        "all rows": asked(session, shape.format(number), False),
                    },
                )
                for number in (whole // part for part in PARTS)
            }
        ways = {"in order of k": True, "in order of time": False}
        found["sort"] = best(3 * rounds, {name: sorted_by_spark(session, spark, way) for name, way in ways.items()})
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    spark = acquire_local_session()
    try:
        found = measure(spark, options.rows, options.rounds)
    finally:
        release_local_session()
    OUT.mkdir(exist_ok=True)
    (OUT / "stored_questions.json").write_text(json.dumps(found, indent=2))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
