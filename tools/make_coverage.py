"""Writes docs/reference/coverage.md: what Sash, Spark, Flink and RisingWave answer, query by query.

    python -m tools.make_coverage

Sash's column comes from running every text in one session over generated data, Spark's from starting every text as a
streaming query in append mode. tests/docs/test_coverage.py compares the page with both. The columns of Flink and
RisingWave are from their documentation and their own tests of Nexmark; neither was run.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sash
from benchmarks import nexmark
from benchmarks.nexmark_queries import QUERIES
from benchmarks.run_nexmark import declare as declare_events
from sash.core.errors import SashError

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "coverage.md"
EVENTS, PACKETS = 5_000, 2_000
YES, NO = "yes", "no"

PACKETS_DDL = """CREATE STREAM {name}
(ts TIMESTAMP, src INT, dst INT, protocol STRING, port INT, length INT, price DOUBLE)
FROM parquet OPTIONS (path '{path}', maxFilesPerTrigger '1') TIMESTAMP ts"""


class Row(NamedTuple):
    """One line of the page. `spark` is None where Spark has no such statement; the last two say yes, no, or what."""

    what: str
    cql: str
    spark: str | None
    flink: str
    risingwave: str


_WINDOW = "packets [WINDOW 60 sec SLIDE 10 sec]"
_SPARK_WINDOW = "window(ts, '60 seconds', '10 seconds')"
_NEAR = "a.ts > b.ts - INTERVAL 10 SECONDS AND a.ts < b.ts + INTERVAL 10 SECONDS"


def _aggregate(what: str, call: str, flink: str, risingwave: str, spark: str | None = None) -> Row:
    """An aggregate by source over a sliding window."""
    return Row(
        what,
        f"SELECT src, {call} AS x FROM {_WINDOW} GROUP BY src",
        f"SELECT src, {spark or call} AS x FROM packets GROUP BY {_SPARK_WINDOW}, src",
        flink,
        risingwave,
    )


def _over(what: str, cql: str, spark: str | None, flink: str, risingwave: str) -> Row:
    """A text in which {w} is the window and {s} Spark's."""
    return Row(what, cql.replace("{w}", _WINDOW), spark and spark.replace("{s}", _SPARK_WINDOW), flink, risingwave)


def _counts(key: str, window: str = "{w}") -> str:
    return f"SELECT {key} AS k, COUNT(*) AS n FROM {window} GROUP BY {key}"


def _spark_counts(key: str, window: str = "{s}") -> str:
    return f"SELECT {key} AS k, COUNT(*) AS n FROM packets GROUP BY {window}, {key}"


_BYTES = "SELECT src, SUM(length) AS bytes FROM {w} GROUP BY src"
_SPARK_BYTES = "SELECT src, SUM(length) AS bytes FROM packets GROUP BY {s}, src"
_TEN = "window(ts, '10 seconds')"

SECTIONS: dict[str, tuple[Row, ...]] = {
    "Windows": (
        _over("sliding", _BYTES, _SPARK_BYTES, "yes (`HOP`; the size is a multiple of the slide)", "yes (`hop`)"),
        Row(
            "as Spark writes them",
            f"SELECT window.end, src, SUM(length) AS bytes FROM packets GROUP BY {_SPARK_WINDOW}, src",
            f"SELECT window.end, src, SUM(length) AS bytes FROM packets GROUP BY {_SPARK_WINDOW}, src",
            NO,
            NO,
        ),
        Row(
            "as Flink writes them",
            "SELECT src, SUM(length) AS bytes FROM TABLE(HOP(TABLE packets, DESCRIPTOR(ts), INTERVAL '10' SECOND, "
            "INTERVAL '60' SECOND)) GROUP BY src, window_start, window_end",
            None,
            YES,
            NO,
        ),
        Row(
            "as RisingWave writes them",
            "SELECT window_start, src, SUM(length) AS bytes FROM HOP(packets, ts, INTERVAL '10' SECOND, "
            "INTERVAL '60' SECOND) GROUP BY window_start, src",
            None,
            NO,
            YES,
        ),
        _over(
            "start and end of a window",
            "SELECT window_start(p) AS first, window_end(p) AS last, COUNT(*) AS n FROM {w} p",
            "SELECT window.start, window.end, COUNT(*) AS n FROM packets GROUP BY {s}",
            YES,
            YES,
        ),
        Row(
            "session windows",
            "SELECT src, COUNT(*) AS n FROM packets [SESSION GAP 2 sec SLIDE 10 sec] GROUP BY src",
            "SELECT src, COUNT(*) AS n FROM packets GROUP BY session_window(ts, '2 seconds'), src",
            "yes (`SESSION`)",
            "yes (a frame of `OVER`)",
        ),
        Row(
            "the last 100 rows",
            "SELECT AVG(length) AS x FROM packets [ROWS 100 SLIDE 10]",
            "SELECT AVG(length) OVER (ORDER BY ts ROWS 99 PRECEDING) AS x FROM packets",
            "yes (`OVER`)",
            "yes (`OVER`)",
        ),
        Row(
            "everything so far",
            "SELECT src, COUNT(*) AS n FROM packets [UNBOUNDED SLIDE 10 sec] GROUP BY src",
            "SELECT src, COUNT(*) AS n FROM packets GROUP BY src",
            YES,
            YES,
        ),
        Row(
            "since midnight",
            "SELECT src, COUNT(*) AS n FROM packets [SINCE midnight SLIDE 10 sec] GROUP BY src",
            None,
            "yes (`CUMULATE`)",
            "by an expression",
        ),
        Row(
            "all lengths at once",
            "SELECT src, COUNT(*) AS n FROM packets [WINDOW 10 TO 60 sec STEP 10 sec SLIDE 10 sec] GROUP BY src",
            None,
            NO,
            NO,
        ),
        _over(
            "two lengths in one query",
            f"SELECT a.k, a.n, b.n AS longer FROM ({_counts('src', 'packets [WINDOW 10 sec SLIDE 10 sec]')}) a "
            f"JOIN ({_counts('src')}) b ON a.k = b.k",
            f"SELECT a.k, a.n, b.n AS longer FROM (SELECT {_TEN} AS w, src AS k, COUNT(*) AS n FROM packets "
            f"GROUP BY {_TEN}, src) a JOIN (SELECT {{s}} AS w, src AS k, COUNT(*) AS n FROM packets "
            "GROUP BY {s}, src) b ON a.k = b.k AND a.w.end = b.w.end",
            "by joining aggregates",
            "by joining aggregates",
        ),
    ),
    "Aggregates over a sliding window": (
        _aggregate("first and last by time", "FIRST(length) AS f, LAST(length)", "yes (`FIRST_VALUE`)", YES),
        _aggregate("value of the least row", "MIN_BY(port, length)", NO, NO),
        _aggregate("any value", "ANY_VALUE(port)", NO, NO),
        _aggregate("exact distinct counts", "COUNT(DISTINCT dst)", YES, YES),
        _aggregate("of several columns", "COUNT(DISTINCT dst, port)", YES, NO),
        _aggregate("with a filter", "SUM(length) FILTER (WHERE port = 80)", YES, YES),
        _aggregate("`COUNT_IF`", "COUNT_IF(port = 80)", NO, NO),
        _aggregate("of conditions", "BOOL_AND(length > 100)", NO, YES),
        _aggregate("of bits", "BIT_OR(port)", NO, "yes (`bit_and`, `bit_or`)"),
        _aggregate("correlation", "CORR(length, price)", NO, NO),
        _aggregate("regression", "REGR_SLOPE(length, price)", NO, NO),
        _aggregate("skewness, kurtosis", "SKEWNESS(length) AS s, KURTOSIS(length)", NO, NO),
        _aggregate("median", "MEDIAN(length)", "yes (`PERCENTILE`, since 2.0)", NO),
        _aggregate(
            "percentiles",
            "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY length)",
            "yes (`PERCENTILE`, since 2.0)",
            "not in streams",
        ),
        _aggregate("approximate percentiles", "APPROX_PERCENTILE(length, 0.9)", NO, YES),
        _aggregate("approximate distinct counts", "APPROX_COUNT_DISTINCT(dst)", NO, "of append-only streams"),
        _aggregate("the most frequent three", "TOP(3, dst)", "`ROW_NUMBER`", "`ROW_NUMBER`"),
        _aggregate("lists", "COLLECT_LIST(port)", "yes (`COLLECT`: a multiset)", "yes (`array_agg`)"),
        _aggregate("lists as a text", "LISTAGG(protocol, ',')", YES, "yes (`string_agg`)"),
        Row(
            "candles of prices",
            "SELECT src, FIRST(price) AS o, MAX(price) AS h, MIN(price) AS l, LAST(price) AS c FROM packets "
            "[WINDOW 60 sec SLIDE 60 sec] GROUP BY src",
            "SELECT src, FIRST(price) AS o, MAX(price) AS h, MIN(price) AS l, LAST(price) AS c FROM packets "
            "GROUP BY window(ts, '60 seconds'), src",
            YES,
            YES,
        ),
    ),
    "Queries over windows": (
        _over(
            "`WITH`",
            f"WITH b AS ({_BYTES}) SELECT * FROM b WHERE bytes > 10",
            f"WITH b AS ({_SPARK_BYTES}) SELECT * FROM b WHERE bytes > 10",
            YES,
            YES,
        ),
        _over(
            "scalar sub-queries",
            "SELECT src, SUM(length) AS bytes FROM {w} GROUP BY src HAVING SUM(length) > (SELECT AVG(length) FROM {w})",
            "SELECT src, SUM(length) AS bytes FROM packets GROUP BY {s}, src HAVING SUM(length) > "
            "(SELECT AVG(length) FROM packets)",
            YES,
            YES,
        ),
        _over(
            "`IN` of a sub-query",
            "SELECT src, SUM(length) AS bytes FROM {w} GROUP BY src HAVING src IN (SELECT dst FROM {w} GROUP BY dst)",
            "SELECT src, SUM(length) AS bytes FROM packets WHERE src IN (SELECT dst FROM packets) GROUP BY {s}, src",
            YES,
            YES,
        ),
        _over(
            "`ORDER BY`, `LIMIT`",
            _BYTES + " ORDER BY bytes DESC LIMIT 3",
            _SPARK_BYTES + " ORDER BY bytes DESC LIMIT 3",
            "as window top-N",
            "as top-N",
        ),
        _over(
            "`QUALIFY`, `ROW_NUMBER`",
            "SELECT src, dst, COUNT(*) AS n FROM {w} GROUP BY src, dst "
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY src ORDER BY COUNT(*) DESC, dst) <= 2",
            "SELECT * FROM (SELECT src, dst, n, ROW_NUMBER() OVER (PARTITION BY src ORDER BY n DESC) AS r FROM "
            "(SELECT src, dst, COUNT(*) AS n FROM packets GROUP BY {s}, src, dst)) WHERE r <= 2",
            YES,
            YES,
        ),
        _over(
            "`LAG` over an answer",
            "SELECT src, SUM(length) AS bytes, LAG(SUM(length)) OVER (ORDER BY src) AS x FROM {w} GROUP BY src",
            f"SELECT src, bytes, LAG(bytes) OVER (ORDER BY src) AS x FROM ({_SPARK_BYTES})",
            "over rows",
            "over rows",
        ),
        _over(
            "`GROUPING SETS`",
            "SELECT src, dst, COUNT(*) AS n FROM {w} GROUP BY GROUPING SETS ((src), (dst), ())",
            "SELECT src, dst, COUNT(*) AS n FROM packets GROUP BY GROUPING SETS (({s}, src), ({s}, dst))",
            YES,
            YES,
        ),
        _over(
            "`HAVING` without `GROUP BY`",
            "SELECT COUNT(*) AS n FROM {w} HAVING COUNT(*) > 5",
            "SELECT COUNT(*) AS n FROM packets GROUP BY {s} HAVING COUNT(*) > 5",
            YES,
            YES,
        ),
        _over(
            "`UNION ALL` of answers",
            f"{_counts('src')} UNION ALL {_counts('dst')}",
            f"{_spark_counts('src')} UNION ALL {_spark_counts('dst')}",
            YES,
            YES,
        ),
    ),
    "Continuous queries": (
        Row(
            "join of two windows",
            "SELECT a.src, b.dst FROM flows [RANGE 10 sec] a JOIN flows [RANGE 10 sec] b ON a.src = b.dst",
            f"SELECT a.src, b.dst FROM flows a JOIN flows b ON a.src = b.dst AND {_NEAR}",
            "interval join, append-only",
            "interval join, append-only",
        ),
        Row(
            "left join",
            "SELECT a.src, b.dst FROM flows [RANGE 10 sec] a LEFT JOIN flows [RANGE 10 sec] b ON a.src = b.dst",
            f"SELECT a.src, b.dst FROM flows a LEFT JOIN flows b ON a.src = b.dst AND {_NEAR}",
            YES,
            YES,
        ),
        Row(
            "full join",
            "SELECT a.src, b.dst FROM flows [RANGE 10 sec] a FULL JOIN flows [RANGE 10 sec] b ON a.src = b.dst",
            f"SELECT a.src, b.dst FROM flows a FULL JOIN flows b ON a.src = b.dst AND {_NEAR}",
            YES,
            YES,
        ),
        Row(
            "rows without a partner",
            "SELECT src, dst FROM flows [RANGE 10 sec] a WHERE NOT EXISTS (SELECT * FROM flows [RANGE 10 sec] b "
            "WHERE a.src = b.dst)",
            f"SELECT src, dst FROM flows a LEFT ANTI JOIN flows b ON a.src = b.dst AND {_NEAR}",
            "of unbounded tables",
            "of unbounded tables",
        ),
        Row(
            "different rows of a sliding window",
            "SELECT DISTINCT src, dst FROM flows [RANGE 10 sec]",
            "SELECT DISTINCT src, dst FROM flows",
            "of unbounded tables",
            "of unbounded tables",
        ),
        Row(
            "differences of bags",
            "SELECT src FROM flows [RANGE 10 sec] EXCEPT ALL SELECT dst FROM flows [RANGE 10 sec]",
            "SELECT src FROM flows EXCEPT ALL SELECT dst FROM flows",
            "of unbounded tables",
            "not looked up",
        ),
        Row(
            "join with a table",
            "Istream(SELECT p.src, t.name FROM flows [UNBOUNDED] p, ports t WHERE p.port = t.port)",
            "SELECT p.src, t.name FROM flows p JOIN ports t ON p.port = t.port",
            YES,
            YES,
        ),
    ),
}
_OPEN = "a.kind = 1 AND b.kind = 2 AND a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires"
_WON = "a.id, MAX(b.price) AS final, MAX_BY(b.bidder, b.price) AS bidder"
_BY_DAY = "auction, bidder, price, ts, extra, DATE_FORMAT(ts, 'yyyy-MM-dd') AS day"
_BEST = "SELECT auction, MAX(price) AS most FROM events{} WHERE kind = 2 GROUP BY auction"
_SALES = "SELECT a.id, b.most FROM events{} a LEFT JOIN ({}) b ON a.id = b.auction WHERE a.kind = 1"
# Queries of the suite, and one of RisingWave's, that the benchmark does not run.
MORE_OF_NEXMARK = (
    Row(
        "q9: winning bids",
        f"SELECT {_WON} FROM events [RANGE 10 sec SLIDE 10 sec] a, events [RANGE 10 sec SLIDE 10 sec] b "
        f"WHERE {_OPEN} GROUP BY a.id",
        f"SELECT {_WON} FROM events a JOIN events b ON {_NEAR} AND {_OPEN} GROUP BY window(a.ts, '10 seconds'), a.id",
        YES,
        YES,
    ),
    Row(
        "q10: bids by day, for a sink",
        f"Istream(SELECT {_BY_DAY} FROM events [UNBOUNDED] WHERE kind = 2)",
        f"SELECT {_BY_DAY} FROM events WHERE kind = 2",
        YES,
        YES,
    ),
    Row(
        "q101: auctions and their highest bids",
        _SALES.format(" [RANGE 10 sec]", _BEST.format(" [RANGE 10 sec]")),
        _SALES.format("", _BEST.format("")),
        YES,
        YES,
    ),
)
# Of Flink's suite all run but q6 (its README); RisingWave's own tests have all but q11 to q13, and of q6 a variant.
_NEXMARK_FLINK = {"q6": "no (FLINK-19059)"}
_NEXMARK_RISINGWAVE = {"q6": "a variant"} | dict.fromkeys(("q11", "q12", "q13"), "not among its tests")

HEAD = """# Reference: coverage

What four engines make of the same queries. [When to take which](../comparison.md) is told elsewhere.
Written by [make_coverage.py](../../tools/make_coverage.py): Sash ran every text in one session over {events:,}
events of Nexmark and {packets:,} packets; Spark {spark} started every text as a streaming query in append mode, with a
watermark.
A [test](../../tests/docs/test_coverage.py) compares both columns. Flink and RisingWave were not run: their columns are
from [Nexmark's page](https://github.com/nexmark/nexmark), Flink's
[functions](https://nightlies.apache.org/flink/flink-docs-release-2.0/docs/dev/table/functions/systemfunctions/) and
[queries](https://nightlies.apache.org/flink/flink-docs-release-2.0/docs/dev/table/sql/queries/overview/), and
RisingWave's [aggregates](https://docs.risingwave.com/sql/functions/aggregate),
[windows](https://docs.risingwave.com/processing/sql/time-windows),
[joins](https://docs.risingwave.com/processing/sql/joins) and tests of Nexmark.

What a query costs:

- Sash, *panes*: a row for each pane and group; the number of rows is of this run, and queries over the same groups
  share them. *plan*: the tuples of the windows; the number counts changes, or answers under SLIDE.
- Spark: a job of its own, which reads the source again. A sliding window copies each row for every slide, {copies}
  times here; state is an aggregate per window and group, or the tuples of a join.
- Flink: an operator of its own in a job; a sliding window keeps a slice per slide and group.
- RisingWave: a materialised view; `hop` copies each row as Spark does.
"""


def table_of_packets() -> pa.Table:
    random = np.random.default_rng(7)
    micros = 1_767_225_600_000_000 + np.arange(PACKETS) * 60_000
    columns = {
        "ts": pa.array(micros, pa.timestamp("us", "UTC")),
        **{name: pa.array(random.integers(0, 20, PACKETS), pa.int32()) for name in ("src", "dst")},
        "protocol": pa.array(np.where(random.random(PACKETS) < 0.7, "TCP", "UDP")),
        "port": pa.array(random.choice([53, 80, 443], PACKETS), pa.int32()),
        "length": pa.array(random.integers(40, 1500, PACKETS), pa.int32()),
        "price": pa.array(np.round(random.random(PACKETS), 3)),
    }
    return pa.table(columns)


def write_data(root: Path) -> None:
    """Two files of each stream, so that each takes two micro-batches."""
    events = nexmark.table_of(np.arange(EVENTS), EVENTS // 25, np.random.default_rng(7))
    for name, table in (("events", events), ("packets", table_of_packets())):
        (root / name).mkdir()
        for part in range(2):
            rows = table.slice(part * len(table) // 2, len(table) // 2)
            pq.write_table(rows, root / name / f"part-{part}.parquet")


def rows() -> Iterator[tuple[str, Row]]:
    """Every line of the page with its section."""
    for name, query in QUERIES.items():
        flink, risingwave = _NEXMARK_FLINK.get(name, YES), _NEXMARK_RISINGWAVE.get(name, YES)
        yield "Nexmark", Row(f"{name}: {query.what}", query.cql, query.sql, flink, risingwave)
    yield from (("Nexmark", row) for row in MORE_OF_NEXMARK)
    yield from ((title, row) for title, found in SECTIONS.items() for row in found)


def sash_column(spark: Any, root: Path) -> list[str]:
    """What each text is answered from, or the reason why it is refused."""
    with sash.connect(spark=spark) as session:
        declare_events(session, str(root / "events"), 1)
        # Continuous queries are over windows that are open on the left, pasted ones over windows that are closed there.
        session.sql(PACKETS_DDL.format(name="packets", path=root / "packets") + " CLOSED LEFT")
        session.sql(PACKETS_DDL.format(name="flows", path=root / "packets"))
        session.sql("CREATE NONRETROACTIVE TABLE ports (port INT PRIMARY KEY, name STRING)")
        session.update_table("ports", [{"port": 80, "name": "http"}])
        refused: dict[str, str] = {}
        for place, (_, row) in enumerate(rows()):
            try:
                session.register(row.cql, name=f"t{place}")
            except SashError as error:
                reason = getattr(error, "reason", str(error)).removeprefix("not supported yet: ")
                refused[f"t{place}"] = f"no: {re.split('[:(]', reason)[0].strip()}"
        session.run()
        known = session.stats()
        return [refused.get(name) or _of(session, known, name) for name in (f"t{i}" for i in range(len(list(rows()))))]


def _of(session: sash.Session, known: dict[str, Any], name: str) -> str:
    handle, of_query = session.queries[name], known["queries"][name]
    if handle.error is not None:
        return f"fails: {handle.error}"
    assert of_query["answers"], f"query {name} has no answer"
    if "pane_table" not in of_query and "windows" not in of_query:
        if of_query["slide"] is not None:
            return f"plan, {of_query['answers']} answers"
        return f"plan, {handle.changes().num_rows:,} changes"
    tables = [each for stream in known["streams"].values() for each in stream["pane_tables"] if name in each["queries"]]
    return f"panes, {sum(each['rows'] for each in tables):,} rows"


def spark_column(spark: Any, root: Path) -> list[str]:
    """Whether Spark starts each text as a streaming query in append mode."""
    for name, folder in (("events", root / "events"), ("packets", root / "packets"), ("flows", root / "packets")):
        schema = spark.read.parquet(str(folder)).schema
        frame = spark.readStream.schema(schema).parquet(str(folder))
        frame.withWatermark("ts", "0 seconds").createOrReplaceTempView(name)
    spark.range(3).selectExpr("id AS key", "CAST(id AS STRING) AS value").createOrReplaceTempView("side")
    spark.range(3).selectExpr("CAST(id AS INT) AS port", "'x' AS name").createOrReplaceTempView("ports")
    return ["-" if row.spark is None else _started(spark, row.spark) for _, row in rows()]


# Where the reason of a message of Spark's ends.
_NOISE = r"[.;:,] |[.;]?\n|[.;]$| on (a )?streaming| with a streaming| on search path"


def _started(spark: Any, text: str) -> str:
    from pyspark.errors import AnalysisException

    with tempfile.TemporaryDirectory() as checkpoint:
        try:
            writer = spark.sql(text).writeStream.format("noop").outputMode("append")
            writer.option("checkpointLocation", checkpoint).start().stop()
        except AnalysisException as error:
            text = re.sub(r"^\[[^]]*\] |#[0-9]+L?", "", str(error))
            return f"no: {re.split(_NOISE, text)[0]}"
    return YES


def page(sash_cells: list[str], spark_cells: list[str], version: str) -> str:
    parts = [HEAD.format(events=EVENTS, packets=PACKETS, spark=version, copies=6)]
    section = None
    for (title, row), ours, theirs in zip(rows(), sash_cells, spark_cells, strict=True):
        if title != section:
            parts.append(f"\n## {title}\n\n| | Sash | Spark | Flink | RisingWave |\n| --- | --- | --- | --- | --- |\n")
            section = title
        parts.append(f"| {row.what} | {ours} | {theirs} | {row.flink} | {row.risingwave} |\n")
    parts.append(
        "\n## The texts\n\nSash's, then Spark's. Nexmark's are in\n"
        "[nexmark_queries.py](../../benchmarks/nexmark_queries.py).\n"
    )
    for title, found in {"More of Nexmark": MORE_OF_NEXMARK, **SECTIONS}.items():
        parts.append(f"\n### {title}: texts\n\n```sql\n")
        parts.append(
            "\n".join(
                f"-- {row.what}\n{row.cql};\n{f'{row.spark};' if row.spark else '-- Spark has none'}\n" for row in found
            )
        )
        parts.append("```\n")
    return "".join(parts)


def main() -> None:
    from sash.spark.spark_session import acquire_own_session, release_own_session

    spark = acquire_own_session()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_data(root)
        PAGE.write_text(page(sash_column(spark, root), spark_column(spark, root), spark.version), encoding="utf-8")
    release_own_session()


if __name__ == "__main__":
    main()
