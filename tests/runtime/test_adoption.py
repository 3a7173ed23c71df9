"""DataFrames of Spark's own API as queries, against what Spark itself writes of them in append mode."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.core.errors import CatalogError, SashError

pytestmark = pytest.mark.spark

CASES, FILES, ROWS = 40, 3, 80
SCHEMA = "ts TIMESTAMP, k INT, g STRING, v INT, time STRING"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
# In seconds; tuples come at most so much later than those behind them.
DISORDER = 4


def write_rows(place: Path, seed: int) -> None:
    """Files whose tuples are out of order; some have no time."""
    chance = random.Random(seed)
    moments = sorted(chance.choice([0, 0.5, 0.000_001]) + chance.randrange(90) for _ in range(FILES * ROWS))
    arriving = sorted(moments, key=lambda each: each + chance.random() * DISORDER)
    for number in range(FILES):
        lines = []
        for moment in arriving[number * ROWS : (number + 1) * ROWS]:
            time = (BEGIN + timedelta(seconds=moment)).replace(tzinfo=None).isoformat(" ")
            ts = time if chance.random() > 0.02 else ""
            v = chance.choice([chance.randrange(50), ""])
            lines.append(f"{ts},{chance.randrange(3)},{chance.choice('abC')},{v},{time}")
        path = place / f"{number}.csv"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (number + 1, number + 1))


@pytest.fixture(scope="module")
def source(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("rows")
    write_rows(place, 27)
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).csv(str(place))


def frame_of(source: Any, chance: random.Random) -> Any:
    """A streaming aggregation as a user of Spark writes it; its first two columns are the window's edges."""
    from pyspark.sql import functions as f

    conditions = [
        lambda df: df.where("v % 3 > 0"),
        lambda df: df.where(f.col("v").between(5, 40) | f.col("v").isNull()),
        lambda df: df.filter(f.col("g").isin("a", "b") & (f.col("k") != 1)),
    ]
    is_complete = chance.random() < 0.5
    delay = f"{DISORDER + 1 if is_complete else 1} seconds"
    steps = [lambda df: df.withWatermark("ts", delay)]
    if chance.random() < 0.5:
        steps.append(chance.choice(conditions))
    # Spark's time goes with the tuples that are left.
    if is_complete:
        chance.shuffle(steps)
    if chance.random() < 0.5:
        steps.append(lambda df: df.withColumn("w", f.coalesce(f.col("v"), f.lit(7)) * 2).alias("p"))
    else:
        steps.append(
            lambda df: df.select("ts", "k", f.upper("g").alias("g"), "v", (f.col("v") + f.col("k")).alias("w"))
        )
    for step in steps:
        source = step(source)
    length = chance.randint(1, 20)
    slide = chance.choice([None, chance.randint(1, length)])
    start = chance.choice([None, f"{chance.randrange(slide or length)} seconds"])
    window = f.window("ts", f"{length} seconds", None if slide is None else f"{slide} seconds", start)
    keys = chance.choice(
        [[], ["k"], ["g"], ["k", "g"], [f.lower("g").alias("low")], [f.expr("nvl(v, 0) % 2").alias("odd")]]
    )
    made = {
        "n": f.count("*"),
        "total": f.sum("w"),
        "mean": f.avg("v"),
        "most": f.max("w"),
        "least": f.min("g"),
        "any": f.bool_or(f.col("v") > 45),
        "some": f.count_if(f.col("v") > 20),
        "cases": f.sum(f.when(f.col("k") == 0, f.col("w")).otherwise(0)),
    }
    names = chance.sample(sorted(made), chance.randint(1, 4))
    frame = source.groupBy(window, *keys).agg(*(made[name].alias(name) for name in names))
    if chance.random() < 0.3:
        having = {"least": "least < 'b'", "any": "any"}
        frame = frame.where(having.get(names[0], f"{names[0]} > {chance.choice([1, 10])}"))
    others = [name for name in frame.columns if name != "window"]
    if chance.random() < 0.3 and (whole := [name for name in names if name not in ("mean", "any", "least")]):
        others.append(f.concat(f.col(whole[0]).cast("string"), f.lit("!")).alias("text"))
    return frame.select("window.start", "window.end", *others)


def written_by_spark(frames: list[Any], place: Path) -> list[Counter[Any]]:
    running, settings = [], frames[0].sparkSession.conf
    partitions = settings.get("spark.sql.shuffle.partitions")
    settings.set("spark.sql.shuffle.partitions", "1")
    for number, frame in enumerate(frames):
        writer = frame.writeStream.format("memory").queryName(f"adopted{number}").outputMode("append")
        writer = writer.option("checkpointLocation", str(place / str(number))).trigger(availableNow=True)
        running.append(writer.start())
        if len(running) % 4 == 0:
            for each in running[-4:]:
                each.awaitTermination()
    settings.set("spark.sql.shuffle.partitions", partitions)
    return [listed(frame.sparkSession.table(f"adopted{n}").toArrow()) for n, frame in enumerate(frames)]


def listed(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def test_answers_are_what_spark_writes(spark: Any, source: Any, tmp_path: Path) -> None:
    chance = random.Random(27)
    frames = [frame_of(source, chance) for _ in range(CASES)]
    written = written_by_spark(frames, tmp_path)
    with sash.connect(spark=spark) as session:
        queries = [session.register(frame, name=f"q{number}") for number, frame in enumerate(frames)]
        # One for each delay of withWatermark.
        assert len(session.streams) == 2
        session.run()
        told = 0
        for frame, query, expected in zip(frames, queries, written, strict=True):
            assert query.error is None, query.text
            assert query.latest().table.schema.names == frame.columns
            found = sum((listed(answer.table) for answer in query.answers()), Counter[Any]())
            # The last answer of a window that ends between multiples of SLIDE (LAG) is due after the last tuple.
            last = max((row[1] for row in found), default=BEGIN)
            assert not [row for row in expected if row[1] > last + timedelta(seconds=20)], query.text
            last = min(last, max((row[1] for row in expected), default=BEGIN))
            part = Counter({row: n for row, n in expected.items() if row[1] <= last})
            assert Counter({row: n for row, n in found.items() if row[1] <= last}) == part, query.text
            told += len(part)
        assert told > 30 * CASES


def minutely(source: Any, *, time: str = "ts") -> Any:
    from pyspark.sql import functions as f

    return source.groupBy(f.window(time, "60 seconds", "5 seconds"), "k").agg(f.sum("v"))


def test_equal_sources_are_read_once(spark: Any, source: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    def opened(**options: str) -> Any:
        return spark.readStream.schema(SCHEMA).options(**options).csv(str(tmp_path))

    with sash.connect(spark=spark) as session:
        for number in range(20):
            session.register(minutely(opened(header="true").where(f"v > {number}")), name=f"q{number}")
        assert len(session.streams) == 1
        (name,) = session.streams
        query = session.queries["q7"]
        window = "window(`ts`, '1 min', '5 sec'), `k`"
        columns = "window AS `window`, `k` AS `k`, sum(`v`) AS `sum(v)`"
        assert query.text == f"SELECT {columns} FROM `{name}` WHERE (`v` > 7) GROUP BY {window}"
        assert "WINDOW 1 min SLIDE EXACTLY 5 sec" in session.explain(query.text)
        others = {
            "option": opened(header="false"),
            "place": source,
            "delay": opened(header="true").withWatermark("ts", "10 seconds"),
            "column": opened(header="true").withColumn("ts", f.to_timestamp("time")),
        }
        for number, (name, frame) in enumerate(others.items()):
            session.register(minutely(frame), name=name)
            assert len(session.streams) == number + 2
        assert sorted(each.stream.delay for each in session.streams.values()) == [0, 0, 0, 0, 10_000_000]


def test_expressions_mean_what_they_mean_in_spark(spark: Any, tmp_path: Path) -> None:
    """Texts that Spark writes of its expressions, of columns with odd names: as many tuples as in a batch."""
    from pyspark.sql import functions as f

    words = ["it's", r"a\b", "x", "100%", "A_b"]
    stamps = [BEGIN.replace(tzinfo=None) + timedelta(seconds=second) for second in range(50)]
    lines = (f"{ts},{words[i % 5]},{i},{i / 4},{ts.date() + timedelta(days=i)}" for i, ts in enumerate(stamps))
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    schema, word, number, x = (
        "ts TIMESTAMP, order STRING, `a b` INT, x DOUBLE, d DATE",
        f.col("order"),
        f.col("a b"),
        "x",
    )
    conditions = [
        word == "it's",
        word == r"a\b",
        word.like(r"A\_%") | word.like(r"%\%"),
        word.eqNullSafe("x") | word.contains("'") | word.rlike("^[0-9]+%$"),
        f.regexp_replace(word, "[a-z]", "Z") == "Z",
        f.concat(f.upper(word), f.lit("!")) == "X!",
        f.when(f.col(x) > 3, "q").otherwise("r") == "q",
        f.col("ts") > datetime(2026, 1, 1, 0, 0, 20),
        f.col("ts") + f.expr("INTERVAL 5 SECONDS") > datetime(2026, 1, 1, 0, 0, 30),
        f.col("d").between(date(2026, 1, 10), date(2026, 2, 3)),
        f.coalesce(f.lit(None).cast("int"), number) * Decimal("1.50") > 10,
        ~number.isin(1, 2, 3) & (number > f.lit(5).cast("long")) & (f.pmod(number, f.lit(3)) == 1),
        (f.col(x) != float("nan")) & (-f.col(x) < -2.5e-3),
        number.bitwiseAND(3) == 1,
        f.nullif(number, f.lit(3)).isNull() | (f.expr("`a b` DIV 7") == 2),
    ]
    rows, stream = spark.read.schema(schema).csv(str(tmp_path)), spark.readStream.schema(schema).csv(str(tmp_path))
    with sash.connect(spark=spark) as session:
        for place, condition in enumerate(conditions):
            counted = stream.where(condition).groupBy(f.window("ts", "5 seconds")).agg(f.count("*").alias("n"))
            session.register(counted, name=f"q{place}")
        session.run()
        for place, condition in enumerate(conditions):
            query = session.queries[f"q{place}"]
            found = sum(row["n"] for answer in query.answers() for row in answer.table.to_pylist())
            assert query.error is None and 0 < found == rows.where(condition).count(), query.text


def test_a_stream_of_a_given_name(spark: Any, source: Any) -> None:
    with sash.connect(spark=spark) as session:
        session.register(minutely(source), name="adopted", stream="rows")
        session.register(minutely(source.where("k = 1")), name="also", stream="rows")
        text = session.register("SELECT COUNT(*) AS n FROM rows [WINDOW 10 sec SLIDE 10 sec]", name="text")
        session.run()
        assert list(session.streams) == ["rows"] and text.latest() is not None
        with pytest.raises(CatalogError, match="stream 'rows' has other rows than this DataFrame"):
            session.register(minutely(source.withWatermark("ts", "1 second")), name="other", stream="rows")
        with pytest.raises(SashError, match="a SELECT names its own in FROM"):
            session.register("SELECT COUNT(*) FROM rows [WINDOW 1 sec SLIDE 1 sec]", name="other", stream="rows")


def test_a_refused_query_leaves_no_stream(spark: Any, source: Any) -> None:
    with sash.connect(spark=spark) as session:
        with pytest.raises(CatalogError, match="is no name for a query"):
            session.register(minutely(source), name="no name")
        assert not session.streams


def test_prepared_rows_are_the_stream(spark: Any, tmp_path: Path) -> None:
    """What CQL lacks stays Spark's: here a JSON object becomes columns, among them the time."""
    from pyspark.sql import functions as f

    lines = [f'{{"at": "2026-01-01 00:00:0{second}", "k": {second % 2}}}' for second in range(6)]
    (tmp_path / "rows.txt").write_text("\n".join(lines))
    parsed = spark.readStream.text(str(tmp_path)).select(f.from_json("value", "at TIMESTAMP, k INT").alias("row"))
    frame = parsed.select("row.*").withWatermark("at", "1 second").where("k = 1")
    with sash.connect(spark=spark) as session:
        query = session.register(frame.groupBy(f.window("at", "2 seconds")).count(), name="q")
        session.run()
        answers = [answer.table.to_pylist() for answer in query.answers()]
        assert [row["count"] for rows in answers for row in rows] == [1, 1, 1]
        assert answers[0][0]["window"] == {"start": BEGIN, "end": BEGIN + timedelta(seconds=2)}


def test_a_program_registers_again_after_a_restart(spark: Any, tmp_path: Path) -> None:
    rows, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    rows.mkdir()

    def write(first: int) -> None:
        stamps = ((BEGIN + timedelta(seconds=second)).replace(tzinfo=None) for second in range(first, first + 30))
        (rows / f"{first}.csv").write_text(
            "".join(f"{stamp},{stamp.second % 3},a,{stamp.second},\n" for stamp in stamps)
        )

    def frame(condition: str = "v > 5") -> Any:
        return minutely(spark.readStream.schema(SCHEMA).csv(str(rows)).withColumn("v", f.col("v") + 1).where(condition))

    from pyspark.sql import functions as f

    def told(query: sash.Query) -> list[Counter[Any]]:
        return [Counter(map(str, answer.table.to_pylist())) for answer in query.answers()]

    write(0)
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        session.register(frame(), name="q")
        session.run()
        first = told(session.queries["q"])
    write(30)
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        with pytest.raises(SashError, match="register its DataFrame"):
            session.run()
        with pytest.raises(SashError, match="'q'"):
            session.register(frame("v > 6"), name="q")
        session.register(frame(), name="q")
        session.run()
        answers = told(session.queries["q"])
    with sash.connect(spark=spark) as session:
        session.register(frame(), name="q")
        session.run()
        assert answers == told(session.queries["q"])
    assert answers[: len(first)] == first and len(first) < len(answers)


def cases(spark: Any, source: Any) -> Iterator[tuple[Any, str]]:
    """What register refuses, and a word of why and of the way out."""
    from pyspark.sql import functions as f

    def odd(x: int) -> bool:
        return x % 2 > 0

    window, table = f.window("ts", "5 seconds"), spark.range(3).withColumnRenamed("id", "k")
    stream = r"session.create_stream\('rows', df"
    yield minutely(source.dropDuplicates(["k"])), f"has Deduplicate.*{stream}"
    yield minutely(source.union(source)), f"has Union.*{stream}"
    yield minutely(source.join(table, "k")), f"has Join.*{stream}"
    yield minutely(source.select("ts", "k", f.explode(f.array("v")).alias("v"))), f"explode.*Generate.*{stream}"
    yield minutely(source.mapInArrow(lambda parts: parts, SCHEMA)), f"has MapInArrow.*{stream}"
    yield minutely(source.where(f.udf(odd, "boolean")("v"))), r"function odd .*\(PythonUDF\).*create_function"
    yield minutely(source).orderBy("k"), "has Sort.*whose answers take ORDER BY"
    yield minutely(source).limit(3), "has .*Limit.*whose answers take ORDER BY"
    yield minutely(source).groupBy("window").count(), "an Aggregate over another.*register the inner one"
    yield source.rollup(window, "k").count(), "has rollup"
    yield source.groupBy(f.session_window("ts", "5 seconds")).count(), "has session_window.* as CQL, which"
    yield source.groupBy("k").count(), r"groups by no window.*\[UNBOUNDED"
    yield source.where("k = 1"), "has no aggregation.*create_stream"
    yield source.groupBy(f.window(f.to_timestamp("time"), "5 seconds")).count(), "make a column of it first"
    late = source.withColumn("at", f.to_timestamp("time")).withWatermark("at", "1 second")
    yield minutely(late), "withWatermark is on another column"
    yield source.groupBy(window).agg(f.histogram_numeric("v", f.lit(3))), "HISTOGRAM_NUMERIC"
    yield source.where("rand() > 0.5").groupBy(window).count(), "RAND is refused"
    yield spark.range(3), "static.*session.create_stream"
    yield 5, "takes a SELECT or a streaming DataFrame, not 5"


def test_what_cannot_be_adopted_is_named_with_the_way_out(spark: Any, source: Any) -> None:
    with sash.connect(spark=spark) as session:
        for frame, why in cases(spark, source):
            with pytest.raises(SashError, match=f"(?si){why}"):
                session.register(frame, name="q")
        assert not session.streams and not session.queries


def test_a_connect_dataframe_is_refused() -> None:
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
    with sash.connect() as session, pytest.raises(SashError, match=r"Spark Connect.*classic"):
        session.register(connect(), name="q")
