"""Rows that indexes leave out of the windows of a question cannot matter: the answer is that over all rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, StoredIndex, Stream
from sash.core.time import SECOND
from sash.runtime.explaining.explain_stored import explain_rows
from sash.runtime.stored import stored_indexes
from sash.runtime.stored.stored_access import (
    ByOrder,
    ByPlace,
    ByProbe,
    ByValue,
    IndexesOf,
    choose_access,
    common_time,
    having,
    in_places,
    read_question,
    window_rows,
)
from sash.runtime.stored.stored_indexes import TIME
from sash.runtime.stored.stored_window import StoredWindow
from sash.sql import ROW_KINDS, SelectStatement, StoredQuestion, bind_stored, parse
from tests.support.examples import examples
from tests.support.stored_questions import joins, nested, orders, sorts

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int32()), ("v", pa.int32()), ("g", pa.string())]
)
ORACLE = duckdb.connect(config={"default_null_order": "nulls_first_on_asc_last_on_desc", "threads": 1})
STREAMS = {name: Stream(name, SCHEMA, "ts", keep=6 * SECOND) for name in "st"}
Row = tuple[int, int | None, int | None, str | None]


@dataclass
class Running:
    """The rows that a question reads of a running stream."""

    stream: Stream
    kept: StoredWindow


def batch(rows: list[Row], first: int) -> pa.Table:
    times = [time for time, *_ in rows]
    ids = list(range(first, first + len(rows)))
    columns = [times, ids, *([row[place] for row in rows] for place in (1, 2, 3)), times]
    schema = SCHEMA.append(pa.field(TIME, pa.int64()))
    return pa.table([pa.array(column, type) for column, type in zip(columns, schema.types, strict=True)], schema=schema)


def running(name: str, batches: list[list[Row]], indexes: list[StoredIndex]) -> Running:
    """A stream that has stored the batches, with indexes made before the last."""
    kept, latest = StoredWindow(STREAMS[name]), 0
    kept.take(batch([(SECOND // 2, None, 3, "b")], 0), 2 * SECOND)
    for place, rows in enumerate(batches):
        if place == len(batches) - 1:
            for index in (index for index in indexes if index.stream == name):
                kept.create_index(index)
        latest = max([latest, *(time for time, *_ in rows)])
        kept.take(kept.accepted(batch(rows, 100 * place + 1)), latest)
    return Running(STREAMS[name], kept)


def bound(text: str) -> StoredQuestion:
    catalog = Catalog()
    for stream in STREAMS.values():
        catalog.add_stream(stream)
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    return bind_stored(statement.select, catalog)


def rows_by(question: StoredQuestion, streams: Mapping[str, Running]) -> Any:
    """The rows of each window that may matter, as of when, and whether the windows are all there."""
    stored = read_question(question, {view: streams[each.stream.name].kept for view, each in question.windows.items()})
    as_of = common_time(stored.values())
    assert as_of is not None
    cut = {view: window_rows(reading, stored[view], as_of) for view, reading in question.windows.items()}
    rows = {view: having(question.windows[view].sought, found) for view, (found, _) in cut.items()}
    return rows, as_of, all(whole for _, whole in cut.values())


def answer(question: StoredQuestion, rows: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """In order where the question has one."""
    found = in_order(question.sql, rows)
    return found if " LIMIT " in question.sql.rsplit(")", 1)[-1] else sorted(found, key=repr)


def in_order(sql: str, rows: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    for view, table in rows.items():
        ORACLE.register(view, table.drop_columns([TIME]))
    return ORACLE.sql(sql).fetchall()


@contextmanager
def indexes_always_help() -> Iterator[None]:
    with mock.patch.multiple(stored_indexes, _LEAST_VALUES=0, _LEAST_VALUES_PROBED=0, _LEAST_ROWS_ORDERED=1):
        yield


def some_rows(random: Random) -> list[list[Row]]:
    """Ten seconds in three batches, with few values and NULLs: some rows join, and some do not."""
    numbers, texts = [None, *range(random.choice([3, 8]))], [None, "a", "b", "", "ä"]

    def row(time: int) -> Row:
        return time, random.choice(numbers), random.choice(numbers), random.choice(texts)

    size = random.choice([8, 20])
    times = sorted(random.randrange(2 * SECOND, 12 * SECOND) for _ in range(3 * size))
    return [[row(time) for time in times[part * size : (part + 1) * size]] for part in range(3)]


@cache
def pairs(seed: int) -> tuple[dict[str, Running], dict[str, Running]]:
    """The same streams without and with indexes of all columns; s and t stand at different times."""
    random = Random(seed)
    kinds = random.sample(ROW_KINDS, 3)
    indexes = [StoredIndex(name, column, kind) for name in "st" for column, kind in zip("kvg", kinds, strict=True)]
    rows = {name: some_rows(random) for name in "st"}
    plain, indexed = ({name: running(name, rows[name], made) for name in "st"} for made in ([], indexes))
    for each in [*plain.values(), *indexed.values()] if seed % 2 else []:
        each.kept.has_ended = True
    return plain, indexed


def check_answer(text: str, seed: int) -> None:
    question = bound(text)
    plain, indexed = pairs(seed)
    whole, *told = rows_by(question, plain)
    with indexes_always_help():
        narrowed, *told_by_indexes = rows_by(question, indexed)
    assert told_by_indexes == told
    assert answer(question, narrowed) == answer(question, whole)


seeds = st.integers(0, 7)


@settings(max_examples=examples(400))
@given(text=joins(), seed=seeds)
def test_joins_of_what_is_found_are_those_of_all_rows(text: str, seed: int) -> None:
    check_answer(text, seed)


@settings(max_examples=examples(300))
@given(text=orders(), seed=seeds)
def test_the_first_of_what_is_found_are_the_first_of_all_rows(text: str, seed: int) -> None:
    check_answer(text, seed)


@settings(max_examples=examples(1_000))
@given(text=sorts(), seed=seeds, shuffle=st.randoms(use_true_random=False))
def test_a_sort_by_places_is_that_of_all_rows(text: str, seed: int, shuffle: Random) -> None:
    """Whatever the order in which the rows are given back; what ORDER BY leaves equal stays in order of arrival."""
    question, whole = bound(text), bound(f"{text}, id")
    plain, indexed = pairs(seed)
    rows, *_ = rows_by(question, indexed)
    expected = in_order(whole.sql, rows_by(whole, plain)[0])
    sorting = question.sorting
    if sorting is None or not any(sorting.place in table.schema.names for table in rows.values()):
        assert Counter(in_order(question.sql, rows)) == Counter(expected)
        return
    for view, table in rows.items():
        order = shuffle.sample(range(len(table)), len(table))
        ORACLE.register(view, table.take(pa.array(order, pa.int64())).drop_columns([TIME]))
    found = in_places(ORACLE.sql(sorting.sql).to_arrow_table(), sorting.place)
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected


@settings(max_examples=examples(200))
@given(text=nested(), seed=seeds)
def test_sub_queries_over_what_is_found_are_those_over_all_rows(text: str, seed: int) -> None:
    check_answer(text, seed)


# -- what is chosen --------------------------------------------------------------------------------


def many_values() -> dict[str, Running]:
    """Of each stream 5 seconds with 1,000 rows each: 1,000 values of k, 50 of v, each 5 and 100 times; and one row."""
    rows: list[Row] = [(second * SECOND + 1 + i, i, i % 50, str(i % 3)) for second in range(1, 6) for i in range(1_000)]
    indexes = [StoredIndex(name, column, "db") for name in "st" for column in "kv"]
    return {name: running(name, [rows, [(7 * SECOND, 0, 0, "")]], indexes) for name in "st"}


@pytest.fixture(scope="module")
def streams() -> dict[str, Running]:
    return many_values()


def indexes_of(streams: Mapping[str, Running]) -> IndexesOf:
    return lambda stream: streams[stream.name].kept.indexes


def sizes(text: str, streams: Mapping[str, Running]) -> list[int]:
    question = bound(text)
    rows, *_ = rows_by(question, streams)
    return [len(rows[view]) for view in question.windows]


INDEX = "the db index on k, which has 1,000 values"
CHAIN = """
    SELECT a.id FROM s [WINDOW 6 sec] a JOIN t [WINDOW 6 sec] b ON a.v = b.v JOIN t [WINDOW 6 sec] c ON b.k = c.k
    WHERE a.k = 7
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a.id FROM s [WINDOW 6 sec] a JOIN t [WINDOW 6 sec] b ON a.k = b.k WHERE a.k = 7", [5, 5]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a, t [WINDOW 6 sec] b WHERE b.k = a.k AND a.k IN (7, 8)", [10, 10]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a LEFT JOIN t [WINDOW 6 sec] b ON a.k = b.k WHERE a.k = 7", [5, 5]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a RIGHT JOIN t [WINDOW 6 sec] b ON a.k = b.k WHERE b.k = 7", [5, 5]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a RIGHT JOIN s [WINDOW 6 sec] b ON a.k = b.k WHERE a.k = 7", [5, 5001]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a FULL JOIN s [WINDOW 6 sec] b ON a.k = b.k WHERE a.k = 7", [5, 5001]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a JOIN t [WINDOW 6 sec] b ON a.k = b.k OR a.v = b.v", [5001, 5001]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a JOIN s [WINDOW 6 sec] b ON a.k = b.v", [5001, 5001]),
        ("SELECT a.id FROM s [ROWS 3] a JOIN s [WINDOW 6 sec] b ON a.k = b.k", [3, 15]),
        ("SELECT a.id FROM s [WINDOW 6 sec] a JOIN s [ROWS 2] b USING (k)", [10, 2]),
        (CHAIN, [5, 100, 100]),
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY k LIMIT 3", [6]),
        ("SELECT id FROM s [WINDOW 3 sec] ORDER BY k, g DESC", [3000]),
        ("SELECT id FROM s [WINDOW 3 sec] ORDER BY k DESC, id LIMIT 3 OFFSET 1", [6]),
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY k LIMIT 2600", [5001]),
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY g LIMIT 3", [5001]),
        ("SELECT id FROM s [WINDOW 6 sec] WHERE v < 3 ORDER BY k LIMIT 3", [5001]),
        ("SELECT -v AS k FROM s [WINDOW 6 sec] ORDER BY k LIMIT 3", [5001]),
        ("SELECT MAX(v) AS m FROM s [WINDOW 6 sec] a, s [ROWS 1] b WHERE a.k = b.k", [5, 1]),
    ],
)  # fmt: skip
def test_only_rows_that_may_matter(streams: dict[str, Running], text: str, expected: list[int]) -> None:
    assert sizes(text, streams) == expected


def test_who_is_read_first_and_by_what(streams: dict[str, Running]) -> None:
    access = choose_access(bound(CHAIN.replace("a.k = 7", "c.k = 7")), indexes_of(streams))
    assert [(view, type(way)) for view, way in access.items()] == [
        ("_window_2", ByValue),
        ("_window_1", ByProbe),
        ("_window_0", ByProbe),
    ]
    alone = choose_access(
        bound("SELECT k FROM s [WINDOW 6 sec] ORDER BY k LIMIT 3"), lambda _: streams["s"].kept.indexes
    )
    assert isinstance(alone["_window_0"], ByOrder)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT a.id FROM s [WINDOW 6 sec] a JOIN t [WINDOW 6 sec] b ON a.k = b.k WHERE a.k = 7",
            [
                f"k = 7: found by {INDEX}",
                f"k = _window_0.k: {INDEX}, is probed with those of _window_0; with too many values, every row",
            ],
        ),
        (
            "SELECT id FROM s [WINDOW 6 sec] ORDER BY k DESC NULLS FIRST LIMIT 3",
            [f"ORDER BY k DESC NULLS FIRST: the first 3 rows, and those equal to the last, found by {INDEX}"],
        ),
        (
            "SELECT id FROM s [WINDOW 6 sec] ORDER BY g LIMIT 3",
            ["ORDER BY g: every row; CREATE INDEX ON s (g) would find the first"],
        ),
        (
            "SELECT a.id FROM s [WINDOW 6 sec] a JOIN t [WINDOW 6 sec] b ON a.g = b.g WHERE a.k = 7 OR b.k = 7",
            [
                "g = _window_1.g: every row; CREATE INDEX ON s (g) might find the rows that join",
                "g = _window_0.g: every row; CREATE INDEX ON t (g) might find the rows that join",
            ],
        ),
        ("SELECT id FROM s [WINDOW 6 sec]", ["every row"]),
        (
            "SELECT id FROM s [WINDOW 6 sec] WHERE v > 3 ORDER BY k DESC, g",
            [f"ORDER BY k DESC, g: every row, with its place in this order by {INDEX}; Spark does not sort"],
        ),
        (
            "SELECT id FROM s [WINDOW 6 sec] ORDER BY g, k",
            ["ORDER BY g, k: every row; CREATE INDEX ON s (g) would have their order"],
        ),
        ("SELECT id FROM s [WINDOW 6 sec] WHERE k = 7 ORDER BY v", [f"k = 7: found by {INDEX}"]),
        ("SELECT id FROM s [ROWS 5] ORDER BY k", ["every row"]),
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY k, v + 1", ["every row"]),
    ],
)
def test_explain_says_what_serves_each_window(streams: dict[str, Running], text: str, expected: list[str]) -> None:
    shown = explain_rows(bound(text), indexes_of(streams)).splitlines()
    assert [line.strip() for line in shown if line.startswith("    ")] == expected


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY k", ByPlace),
        ("SELECT id FROM s [WINDOW 6 sec] WHERE v > 3 ORDER BY k DESC, g, id", ByPlace),
        ("SELECT id FROM s [WINDOW 6 sec] WHERE g = 'a' ORDER BY v", ByPlace),
        ("SELECT id FROM s [WINDOW 6 sec] WHERE k = 7 ORDER BY v", ByValue),
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY k LIMIT 3", ByOrder),
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY k LIMIT 3000", type(None)),
        ("SELECT id FROM s [WINDOW 6 sec] ORDER BY g, k", type(None)),
        ("SELECT id FROM s [ROWS 4] ORDER BY k", type(None)),
    ],
)  # fmt: skip
def test_who_sorts(streams: dict[str, Running], text: str, way: type) -> None:
    access = choose_access(bound(text), indexes_of(streams))
    assert [type(each) for each in access.values()] == [way]


@pytest.mark.parametrize(
    ("at_once", "question", "helps"),
    [
        (5_001, "SELECT id FROM s [WINDOW 1 sec] WHERE v > 3", True),
        (5_000, "SELECT id FROM s [WINDOW 6 sec] WHERE v > 3", False),
        (0, "SELECT id FROM s [WINDOW 6 sec]", True),
        (0, "SELECT id FROM s [WINDOW 3 sec]", True),
        (1_001, "SELECT id FROM s [WINDOW 2 sec]", True),
        (1_000, "SELECT id FROM s [WINDOW 2 sec]", False),
    ],
)
def test_an_index_sorts_where_most_of_what_is_stored_is_asked_for(
    streams: dict[str, Running], at_once: int, question: str, helps: bool
) -> None:
    for most, is_more in ((5_001, False), (5_000, True)):
        with mock.patch.multiple(stored_indexes, _PLACED_AT_ONCE=at_once, _PLACED_PER_ROW=2, _MOST_PLACED=most):
            (way,) = choose_access(bound(f"{question} ORDER BY k"), indexes_of(streams)).values()
        assert isinstance(way, ByPlace) == (helps and not is_more)


def test_an_index_does_not_sort_more_text_than_arrow_can(streams: dict[str, Running]) -> None:
    with mock.patch.object(stored_indexes, "MOST_TEXT", 1_000):
        assert choose_access(bound("SELECT id FROM s [WINDOW 6 sec] ORDER BY k"), indexes_of(streams)) == {
            "_window_0": None
        }


def test_explain_shows_what_spark_is_given(streams: dict[str, Running]) -> None:
    shown = explain_rows(bound("SELECT id FROM s [WINDOW 6 sec] WHERE v > 3 ORDER BY k"), indexes_of(streams))
    assert shown.splitlines()[-1] == "  SELECT id, _place FROM _window_0 AS s WHERE v > 3"
    shown = explain_rows(bound("SELECT id FROM s [WINDOW 6 sec] ORDER BY g"), indexes_of(streams))
    assert shown.splitlines()[-1] == "  SELECT id FROM _window_0 AS s ORDER BY g"


# -- while the window slides -----------------------------------------------------------------------


def test_an_index_that_is_dropped_meanwhile_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = many_values()
    text = "SELECT a.id FROM s [WINDOW 6 sec] a JOIN s [WINDOW 6 sec] b ON a.k = b.k WHERE a.k = 7"
    read = stored_indexes.StoredIndexes.read

    def dropped_before(indexes: Any, needed: Any, reading: Any) -> Any:
        monkeypatch.setattr(stored_indexes.StoredIndexes, "read", read)
        streams["s"].kept.drop_index(StoredIndex("s", "k", "db"))
        return read(indexes, needed, reading)

    monkeypatch.setattr(stored_indexes.StoredIndexes, "read", dropped_before)
    assert sizes(text, streams) == [5, 5001]


def test_a_sort_falls_back_to_spark_where_its_index_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = many_values()
    question = bound("SELECT id FROM s [WINDOW 6 sec] ORDER BY k")
    assert question.sorting is not None
    with_places, *_ = rows_by(question, streams)
    monkeypatch.setattr(stored_indexes.StoredIndexes, "_there", mock.Mock(side_effect=stored_indexes.IndexGoneError))
    without, *_ = rows_by(question, streams)
    assert without["_window_0"].equals(with_places["_window_0"].drop_columns([question.sorting.place]))


def test_places_are_of_one_state() -> None:
    """Seconds of ten rows with the values 9 to 0 of v, and one value of k: places go by k, then back by v."""

    def second(number: int) -> list[Row]:
        return [(number * SECOND + i * 100_000 + 1, -number, 9 - i, None) for i in range(10)]

    streams = {"s": running("s", [second(0)], [StoredIndex("s", "k", "db")])}
    kept = streams["s"].kept
    for number in range(1, 8):
        kept.take(batch(second(number), 100 * number), (number + 1) * SECOND)
    question = bound("SELECT id FROM s [WINDOW 3 sec] ORDER BY k, v")
    expected = [10 * back + 9 - i for back in (2, 1, 0) for i in range(10)]
    problems: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            rows, as_of, _ = rows_by(question, streams)
            table = rows["_window_0"]
            places = table["_place"].to_pylist() if "_place" in table.schema.names else []
            ranks = sorted(places)
            if [ranks.index(place) for place in places] != expected or set(table["k"].to_pylist()) != {
                back - as_of // SECOND for back in (1, 2, 3)
            }:
                problems.append(f"as of {as_of // SECOND}: {table['k'].to_pylist()} {places}")

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(8, 200):
        kept.take(batch(second(number), 100 * number), (number + 1) * SECOND)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []


def test_all_windows_of_a_stream_are_of_one_state() -> None:
    """A row per tenth of a second, with its second: a window joined with itself has each second ten times or not."""

    def second(number: int) -> list[Row]:
        return [(number * SECOND + i * 100_000 + 1, number, number % 10, None) for i in range(10)]

    streams = {"s": running("s", [second(0)], [StoredIndex("s", "k", "db"), StoredIndex("s", "v", "db")])}
    kept = streams["s"].kept
    for number in range(1, 8):
        kept.take(batch(second(number), 100 * number), (number + 1) * SECOND)
    question = bound("SELECT a.id FROM s [ROWS 25] a JOIN s [WINDOW 6 sec] b ON a.k = b.k")
    problems: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            rows, as_of, _ = rows_by(question, streams)
            last = as_of // SECOND
            rows_of_a = Counter(rows["_window_0"]["k"].to_pylist())
            rows_of_b = Counter(rows["_window_1"]["k"].to_pylist())
            if rows_of_a != {last - 1: 10, last - 2: 10, last - 3: 5} or rows_of_b != dict.fromkeys(rows_of_a, 10):
                problems.append(f"as of {last}: {rows_of_a} {rows_of_b}")

    threads = [threading.Thread(target=look) for _ in range(3)]
    with indexes_always_help():
        for thread in threads:
            thread.start()
        for number in range(8, 200):
            kept.take(batch(second(number), 100 * number), (number + 1) * SECOND)
        done.set()
        for thread in threads:
            thread.join()
    assert problems == []
