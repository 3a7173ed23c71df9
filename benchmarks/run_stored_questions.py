"""How questions over a stored window are answered best: by an index or not, folded here or by Spark, while it slides.

    python -m benchmarks.run_stored_questions [--rows 200000] [--rounds 5] [--kinds probe first sort fold slides]

A window of so many rows with a tenth as many values of k. Each question is asked both ways by turns; the shortest times
of the rounds, in seconds by the clock and of the processors, go to benchmarks/out/stored_questions.json:

    probe    a join with the last n rows: the index is probed with their values; or Spark is given all rows
    first    ORDER BY k LIMIT n: the rows of the first values; or all rows
    sort     a window of so many rows, ORDER BY ..: places by the index for all stored rows; or Spark sorts the window
    fold     aggregates of the last rows: sub-window by sub-window in this process; or by a pass of Spark's
    slides   an aggregate while the window slides: what has left is taken back; or it is begun again (stored_slides.py),
             without Spark
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
from benchmarks import stored_slides
from benchmarks.engines import processor
from sash.runtime import route
from sash.runtime.stored import stored_indexes
from sash.spark.spark_session import acquire_own_session, release_own_session

OUT = Path(__file__).parent / "out"
PARTS = (1_000, 100, 20, 10, 5, 3, 2)
KINDS = ["probe", "first", "sort", "fold", "slides"]
NEVER = 1 << 40
AGGREGATES = {
    "no groups": "SELECT COUNT(*) AS n, SUM(k) AS total FROM s [WINDOW {} sec]",
    "by k": "SELECT k, COUNT(*) AS n, SUM(id) AS total FROM s [WINDOW {} sec] WHERE id > 0 GROUP BY k ORDER BY k",
}


def best(rounds: int, ways: dict[str, Callable[[], pa.Table]]) -> dict[str, dict[str, float]]:
    """The shortest times of each, by turns; a round before the first is not counted. All must answer alike."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    expected: pa.Table | None = None
    for _ in range(rounds + 1):
        for name, way in ways.items():
            taken, start = processor(), perf_counter()
            answer = way()
            times[name].append((perf_counter() - start, processor() - taken))
            expected = answer if expected is None else expected
            if not len(answer) or answer.to_pydict() != expected.to_pydict():
                raise AssertionError(f"{name}: {len(answer)} rows, which are not those of {next(iter(ways))}")
    return {
        name: {
            "seconds": round(min(clock for clock, _ in each[1:]), 4),
            "processor": round(min(own for _, own in each[1:]), 2),
        }
        for name, each in times.items()
    }


def asked(session: sash.Session, text: str, helps: bool) -> Callable[[], Any]:
    """A question by the index however many values or rows it asks for, or without."""
    knobs: dict[str, Any] = {
        "_LEAST_VALUES_PROBED": 0 if helps else NEVER,
        "_LEAST_ROWS_ORDERED": 1 if helps else NEVER,
        "_PLACED_AT_ONCE": NEVER if helps else -1,
        "_PLACED_PER_ROW": 0,
        "_MOST_PLACED": NEVER,
    }

    def ask() -> Any:
        with mock.patch.multiple(stored_indexes, **knobs):
            return session.query(text)

    return ask


def both(rounds: int, session: sash.Session, text: str) -> dict[str, dict[str, float]]:
    return best(rounds, {"index": asked(session, text, True), "all rows": asked(session, text, False)})


def questions(rows: int) -> dict[str, dict[str, str]]:
    """By kind and number of rows."""
    join = "SELECT COUNT(b.text) AS n FROM s [ROWS {}] a JOIN s [WINDOW 1 min] b ON a.k = b.k"
    first = "SELECT id, text FROM s [WINDOW 1 min] ORDER BY k, id LIMIT {}"
    sort = "SELECT id, text FROM s [WINDOW {} sec]{} ORDER BY {}"
    return {
        "probe": {str(rows // 10 // part): join.format(rows // 10 // part) for part in PARTS},
        "first": {str(rows // part): first.format(rows // part) for part in PARTS},
        "sort": {
            f"{rows * seconds // 10}{where} ORDER BY {order}": sort.format(seconds, where, order)
            for order in ("k, id", "k, text DESC")
            for where in ("", " WHERE id % 100 = 7")
            for seconds in (1, 3, 10)
        },
        "fold": {
            f"{name}, {seconds} sec": text.format(seconds)
            for name, text in AGGREGATES.items()
            for seconds in (1, 10, 60)
        },
    }


def folded(session: sash.Session, text: str, here: bool) -> Callable[[], Any]:
    """An aggregate in this process, or by Spark."""

    def ask() -> Any:
        if here:
            return session.query(text)
        with mock.patch.object(route, "_why_spark", return_value="as if it took Spark"):
            return session.query(text)

    return ask


def folded_or_not(rounds: int, session: sash.Session, text: str) -> dict[str, dict[str, float]]:
    return best(rounds, {"folded": folded(session, text, True), "pass": folded(session, text, False)})


def measure(spark: Any, rows: int, rounds: int, kinds: list[str]) -> dict[str, Any]:
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
        for kind in kinds:
            asking = both if kind != "fold" else folded_or_not
            found[kind] = {name: asking(rounds, session, text) for name, text in questions(rows)[kind].items()}
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    if "slides" in options.kinds:
        asked = 20 * options.rounds
        found["slides"] = stored_slides.measure(sub_windows=60, rows=500, burst=12, pause=0.01, questions=asked)
    if kinds := [kind for kind in options.kinds if kind != "slides"]:
        spark = acquire_own_session()
        try:
            found |= measure(spark, options.rows, options.rounds, kinds)
        finally:
            release_own_session()
    OUT.mkdir(exist_ok=True)
    (OUT / "stored_questions.json").write_text(json.dumps(found, indent=2))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
