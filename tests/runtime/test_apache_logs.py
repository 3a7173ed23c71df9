"""A real access log, parsed by Spark, answers like DuckDB, which parses and aggregates it on its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sash
from sash.core.time import UNITS, to_micros
from tests.support.oracle import recompute, same_rows

LOG = Path(__file__).parents[3] / "shared" / "data" / "apache_logs"
pytestmark = [pytest.mark.spark, pytest.mark.skipif(not LOG.exists(), reason=f"no {LOG.name} beside the project")]

PATTERN = r'^(\S+) \S+ \S+ \[([^\]]+)\] "(\S+) ([^" ]*)[^"]*" (\d{3}) (\d+|-)'
MINUTE, HOUR = UNITS["min"], UNITS["hour"]
QUERIES = {
    "traffic": ("SELECT COUNT(*) AS hits, SUM(size) AS bytes, AVG(size) AS mean FROM logs {}", HOUR, 10 * MINUTE),
    "status": (
        "SELECT status, COUNT(*) AS hits, MAX(size) AS largest FROM logs {} GROUP BY status",
        2 * HOUR,
        30 * MINUTE,
    ),
    "talkers": (
        "SELECT client, COUNT(*) AS hits FROM logs {} GROUP BY client HAVING COUNT(*) > 5 ORDER BY 2 DESC, 1 LIMIT 10",
        3 * HOUR,
        HOUR,
    ),
    "errors": ("SELECT method, COUNT(*) AS n FROM logs {} WHERE status >= 400 GROUP BY method", 6 * HOUR, HOUR),
    "spread": ("SELECT STDDEV(size) AS s, MIN(path) AS p FROM logs {} WHERE method = 'GET'", HOUR, HOUR),
}
SCRIPT = ";\n".join(
    f"REGISTER QUERY {name} AS " + text.format(f"[WINDOW {length // MINUTE} min SLIDE EXACTLY {slide // MINUTE} min]")
    for name, (text, length, slide) in QUERIES.items()
)


def split(directory: Path, parts: int = 5) -> None:
    """The log in several files, so that it comes in several micro-batches."""
    lines = LOG.read_text(errors="replace").splitlines(keepends=True)
    directory.mkdir()
    each = -(-len(lines) // parts)
    for part in range(parts):
        path = directory / f"part-{part}.log"
        path.write_text("".join(lines[part * each : (part + 1) * each]))
        os.utime(path, (1_600_000_000 + part,) * 2)


def parsed_by_spark(spark: Any, directory: Path) -> Any:
    from pyspark.sql.functions import expr

    def field(number: int) -> str:
        return f"regexp_extract(value, r'{PATTERN}', {number})"

    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(directory))
    return lines.select(
        expr(f"try_to_timestamp({field(2)}, 'dd/MMM/yyyy:HH:mm:ss Z')").alias("ts"),
        expr(field(1)).alias("client"),
        expr(field(3)).alias("method"),
        expr(field(4)).alias("path"),
        expr(f"try_cast({field(5)} AS INT)").alias("status"),
        expr(f"try_cast({field(6)} AS BIGINT)").alias("size"),
    )


def parsed_by_duckdb() -> pa.Table:
    def field(number: int) -> str:
        return f"regexp_extract(line, '{PATTERN}', {number})"

    connection = duckdb.connect()
    connection.sql("SET TimeZone = 'UTC'")
    connection.register("raw", pa.table({"line": LOG.read_text(errors="replace").splitlines()}))
    return connection.sql(
        f"SELECT epoch_us(strptime({field(2)}, '%d/%b/%Y:%H:%M:%S %z')) AS _us, {field(1)} AS client, "
        f"{field(3)} AS method, {field(4)} AS path, try_cast({field(5)} AS INT) AS status, "
        f"try_cast({field(6)} AS BIGINT) AS size FROM raw WHERE regexp_matches(line, '{PATTERN}')"
    ).to_arrow_table()


def test_answers_like_duckdb(spark: Any, tmp_path: Path) -> None:
    split(tmp_path / "logs")
    tuples = parsed_by_duckdb()
    with sash.connect(spark=spark) as session:
        session.create_stream(
            "logs", parsed_by_spark(spark, tmp_path / "logs"), timestamp="ts", delay="2 hour", granule="1 min"
        )
        session.script(SCRIPT)
        session.run()
        stats = session.stats()["streams"]["logs"]
        assert stats["tuples"] - stats["null_timestamps"] == len(tuples)
        assert stats["late_tuples"] == 0
        for name, (text, length, _) in QUERIES.items():
            answers = session.queries[name].answers()
            assert len(answers) > 50
            for answer in answers:
                expected = recompute(text.format(""), tuples, to_micros(answer.as_of), length)
                assert same_rows(answer.table.to_pylist(), expected, "ORDER BY" in text), (name, answer.as_of)
