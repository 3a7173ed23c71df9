"""Windows as Spark writes them: the same text, answered by Sash while the rows come and by Spark over all of them.

And the columns of an answer that tell its window, against the window that is recomputed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND, to_micros
from sash.core.window import FOREVER
from tests.support.feed import answers_of
from tests.support.streams import START, stream, to_table

CASES = 24


def rows(chance: random.Random, count: int = 400) -> list[Any]:
    """(timestamp, k, g, v, w, x), many at the edges of windows."""
    times = sorted(START + chance.randrange(60) * SECOND + chance.choice([0, 0, 1, 500_000]) for _ in range(count))
    return [(ts, chance.randrange(4), chance.choice("abc"), chance.randrange(100), 7, 0.5) for ts in times]


def spark_text(chance: random.Random) -> str:
    """A query as a user of Spark has it, with any window that Spark takes."""
    length = chance.randint(1, 25)
    slide = chance.randint(1, length)
    start = chance.choice([0, 0, chance.randrange(slide)])
    window = f"window(ts, '{length} seconds', '{slide} seconds', '{start} seconds')"
    key, where = chance.choice(["", ", k", ", g"]), chance.choice(["", "WHERE v % 3 > 0"])
    return (
        f"SELECT window.start, window.end{key}, SUM(v) AS total, COUNT(*) AS n, MAX(x) AS most FROM s {where} "
        f"GROUP BY {window}{key}"
    )


def listed(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.spark
def test_spark_gives_the_same_rows(spark: Any) -> None:
    chance = random.Random(29)
    texts = [spark_text(chance) for _ in range(CASES)]
    frame = spark.createDataFrame(to_table(rows(chance)).drop_columns(["_us"]))
    frame.createOrReplaceTempView("s")
    with sash.connect(spark=spark) as session:
        session.create_stream("s", frame, timestamp="ts", closed="left")
        queries = [session.register(text, name=f"q{place}") for place, text in enumerate(texts)]
        structs = session.register("SELECT window, COUNT(*) FROM s GROUP BY window(ts, '7 seconds', '3 seconds')", "w")
        session.run()
        for query in [*queries, structs]:
            assert query.error is None, query.text
            answered = sum((listed(flat(answer.table)) for answer in query.answers()), Counter[Any]())
            last = max(row[1] for row in answered)
            expected = flat(spark.sql(query.text).toArrow())
            assert answered == Counter({row: n for row, n in listed(expected).items() if row[1] <= last}), query.text
            assert len(answered) > 1, query.text


def expanded(text: str, tuples: list[Any]) -> Counter[Any]:
    """What Spark's documentation says: each tuple in every window [start, end) that has it."""
    length, slide, first = (int(number) * SECOND for number in re.findall(r"(\d+) seconds", text))
    key = [1] if ", k" in text else [2] if ", g" in text else []
    groups: dict[Any, list[Any]] = {}
    for row in tuples:
        start = (row[0] - first) // slide * slide + first
        while start > row[0] - length:
            if "WHERE" not in text or row[3] % 3:
                groups.setdefault((start, start + length, *(row[place] for place in key)), []).append(row[3])
            start -= slide
    return Counter((*window, sum(values), len(values), 0.5) for window, values in groups.items())


def test_windows_are_as_spark_expands_tuples() -> None:
    chance = random.Random(29)
    texts = {f"q{place}": spark_text(chance) for place in range(CASES)}
    tuples = rows(chance)
    for name, answers in answers_of(stream(closed_left=True), texts, [to_table(tuples)]).items():
        found = Counter[Any]()
        for answer in answers:
            found += Counter((to_micros(row[0]), to_micros(row[1]), *row[2:]) for row in listed(answer.table))
        last = max(row[1] for row in found)
        expected = Counter({row: n for row, n in expanded(texts[name], tuples).items() if row[1] <= last})
        assert found == expected, texts[name]


def table_text(chance: random.Random) -> tuple[str, int, int, int]:
    """A query as a user of Flink or RisingWave has it, with the length, slide and offset of its windows in seconds."""
    length = chance.randint(1, 25)
    slide = chance.choice([length, chance.randint(1, length)])
    offset = chance.choice([0, chance.randrange(slide)])
    lengths = [length] if slide == length else [slide, length]
    sizes = ", ".join(f"INTERVAL '{each}' SECOND" for each in [*lengths, *[offset] * bool(offset)])
    name = "TUMBLE" if slide == length else "HOP"
    source = chance.choice([f"{name}(s, ts, {sizes})", f"TABLE({name}(TABLE s, DESCRIPTOR(ts), {sizes}))"])
    key, where = chance.choice(["", ", k"]), chance.choice(["", "WHERE v % 3 > 0"])
    text = f"SELECT window_start, window_end{key}, SUM(v) AS total, COUNT(*) AS n FROM {source} {where}"
    return f"{text} GROUP BY window_start, window_end{key}", length, slide, offset


def test_hop_and_tumble_are_as_duckdb_joins_tuples_with_windows() -> None:
    chance = random.Random(31)
    texts = {f"q{place}": table_text(chance) for place in range(CASES)}
    tuples = to_table(rows(chance))
    answered = answers_of(stream(closed_left=True), {name: text for name, (text, *_) in texts.items()}, [tuples])
    connection = duckdb.connect(config={"threads": 1})
    connection.register("s", tuples)
    for name, (text, *sizes) in texts.items():
        length, slide, offset = (size * SECOND for size in sizes)
        found = Counter[Any]()
        for answer in answered[name]:
            found += Counter((to_micros(row[0]), to_micros(row[1]), *row[2:]) for row in listed(answer.table))
        first = (START - length) // slide * slide + offset
        windows = f"SELECT range AS b, range + {length} AS e FROM range({first}, {START + 100 * SECOND}, {slide})"
        key, where = ", k" if ", k" in text else "", "AND v % 3 > 0" if "WHERE" in text else ""
        joined = f"FROM s, ({windows}) WHERE _us >= b AND _us < e {where} GROUP BY b, e{key}"
        expected = Counter(connection.sql(f"SELECT b, e{key}, SUM(v), COUNT(*) {joined}").fetchall())
        last = max(row[1] for row in found)
        assert found == Counter({row: n for row, n in expected.items() if row[1] <= last}), text
        assert len(found) > 1, text


def flat(table: pa.Table) -> pa.Table:
    """With the struct `window` as its two columns."""
    if pa.types.is_struct(table.schema.field(0).type):
        start, end = table.column(0).combine_chunks().flatten()
        table = pa.table([start, end, *table.columns[1:]], ["start", "end", *table.column_names[1:]])
    return table


def edges(clause: str, *, left: bool = False, where: str = "") -> list[tuple[int, list[dict[str, Any]]]]:
    """The answers of a query that tells its window, by time."""
    declared, parts = stream(closed_left=left), [to_table(rows(random.Random(seed), 80)) for seed in (1,)]
    text = (
        f"SELECT window_start(w) AS s, window_end() AS e, window_bounds() AS b, COUNT(*) AS n FROM s {clause} w {where}"
    )
    return [(to_micros(each.as_of), each.table.to_pylist()) for each in answers_of(declared, {"q": text}, parts)["q"]]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize(("length", "slide", "lag"), [(10, 5, 0), (7, 3, 2), (3, 4, 0), (12, 1, 5)])
def test_an_answer_tells_its_window(length: int, slide: int, lag: int, left: bool) -> None:
    found = edges(f"[WINDOW {length} sec SLIDE {slide} sec LAG {lag} sec]", left=left)
    assert len(found) > 10
    for as_of, ((row,)) in found:
        end = as_of - lag * SECOND
        assert (to_micros(row["s"]), to_micros(row["e"])) == (end - length * SECOND, end)
        assert row["b"] == {"start": row["s"], "end": row["e"]}


def test_windows_without_a_start_with_a_fixed_one_and_of_several_lengths() -> None:
    for as_of, ((row,)) in edges("[UNBOUNDED SLIDE 10 sec]"):
        assert row["s"] is None and to_micros(row["e"]) == as_of < FOREVER
    since = datetime.fromtimestamp(START // SECOND, UTC).replace(tzinfo=None).isoformat(" ")
    assert edges(f"[SINCE '{since}' SLIDE 10 sec]")[0][1][0]["s"].isoformat().startswith(since.replace(" ", "T"))
    for as_of, found in edges("[WINDOW 2 TO 6 sec STEP 2 sec SLIDE 5 sec]"):
        assert sorted(as_of - to_micros(row["s"]) for row in found) == [2 * SECOND, 4 * SECOND, 6 * SECOND]
        assert {to_micros(row["e"]) for row in found} == {as_of}


def test_edges_stand_in_having_and_order_by() -> None:
    after = (
        f"HAVING window_end() > TIMESTAMP '{datetime.fromtimestamp(START // SECOND + 30, UTC).replace(tzinfo=None)}'"
    )
    assert {len(found) for as_of, found in edges("[WINDOW 5 sec SLIDE 5 sec]", where=after)} == {0, 1}
    ordered = edges("[WINDOW 2 TO 6 sec STEP 2 sec SLIDE 5 sec]", where="ORDER BY window_start() DESC LIMIT 2")
    assert all([row["s"] for row in found] == sorted((row["s"] for row in found), reverse=True) for _, found in ordered)
