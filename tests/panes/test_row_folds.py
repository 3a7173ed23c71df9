"""Rows that come and go, folded: the answer over the current rows, as a database computes it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, Stream
from sash.core.errors import QueryFailedError
from sash.panes import row_folds
from sash.panes.row_folds import RowFold, irreversible, why_not_folded
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.sql import bind
from tests.support.examples import examples
from tests.support.oracle import duck, same_rows

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.int32()),
        ("g", pa.string()),
        ("v", pa.int32()),
        ("w", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(12, 2)),
    ]
)
WINDOW = "[WINDOW 5 sec]"
REVERSIBLE = [
    "SELECT COUNT(*) AS n, COUNT(v) AS nv, SUM(v) AS t, AVG(v) AS mean FROM s {w}",
    "SELECT k, SUM(w) AS t, COUNT(w) AS n FROM s {w} GROUP BY k",
    "SELECT k, g, COUNT(*) AS n, AVG(w) AS mean FROM s {w} WHERE v > 10 OR g = 'a' GROUP BY k, g",
    "SELECT g, SUM(d) AS t, COUNT(x) AS n FROM s {w} WHERE k IS NOT NULL GROUP BY g HAVING COUNT(*) > 1",
    "SELECT x, COUNT(*) AS n FROM s {w} GROUP BY x",
    "SELECT g, COUNT(DISTINCT v) AS n, SUM(v) AS t FROM s {w} GROUP BY g",
    "SELECT SUM(v) + COUNT(*) AS both FROM s {w} WHERE x < 2E0",
]
IRREVERSIBLE = [
    "SELECT k, MIN(v) AS lo, MAX(w) AS hi FROM s {w} GROUP BY k",
    "SELECT g, SUM(x) AS t, AVG(x) AS mean FROM s {w} GROUP BY g",
    "SELECT MAX(ts) AS last, MIN(x) AS lo FROM s {w} WHERE k = 1",
]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.just(0),
            "k": st.sampled_from([None, 1, 2, 3]),
            "g": st.sampled_from([None, "a", "b", "ä"]),
            "v": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
            "w": st.one_of(st.none(), st.integers(-(2**58), 2**58)),
            "x": st.sampled_from([None, 0.0, -1.5, 2.25]),
            "d": st.one_of(st.none(), st.decimals(-(10**9), 10**9, places=2)),
        }
    ),
    max_size=8,
)


def compiled(text: str) -> CompiledQuery:
    catalog = Catalog()
    catalog.add_stream(Stream("s", SCHEMA, "ts"))
    return compile_panes(bind(as_select(text.format(w=WINDOW)), catalog), one_time=True)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


class Folded:
    """A question with its folds; rows come and go for all of them."""

    def __init__(self, text: str) -> None:
        self._query = compiled(text)
        assert all(why_not_folded(reading, SCHEMA) is None for reading in self._query.readings)
        self.folds = [RowFold(reading, SCHEMA) for reading in self._query.readings]

    def answer(self) -> list[dict[str, Any]]:
        (finisher,) = self._query.finishers
        columns = [reader.read([fold.view()], {}) for reader, fold in zip(finisher.readers, self.folds, strict=True)]
        return finisher.finish(columns, 0).to_pylist()


def by_definition(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    duck().register("folded", table_of(rows))
    return duck().sql(text.format(w="").replace("FROM s", "FROM folded")).to_arrow_table().to_pylist()


@settings(max_examples=examples(300))
@given(
    text=st.sampled_from(REVERSIBLE),
    parts=st.lists(st.tuples(ROWS, st.booleans()), max_size=6),
    least=st.sampled_from([0, 4_096]),
)
def test_what_was_taken_back_was_never_there(text: str, parts: list[tuple[list[Any], bool]], least: int) -> None:
    """Parts that leave are taken back after others have come."""
    folded = Folded(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_folds, "LEAST_WAITING", least)
        for place, (rows, _) in enumerate(parts):
            for fold in folded.folds:
                fold.add(table_of(rows))
                if place and parts[place - 1][1]:
                    fold.take_back(table_of(parts[place - 1][0]))
        stays = [rows for rows, leaves in parts[:-1] if not leaves] + [rows for rows, _ in parts[-1:]]
        left = [row for rows in stays for row in rows]
        assert same_rows(folded.answer(), by_definition(text, left))


@settings(max_examples=examples(200))
@given(text=st.sampled_from([*REVERSIBLE, *IRREVERSIBLE]), parts=st.lists(ROWS, max_size=6))
def test_all_that_comes_is_there(text: str, parts: list[list[Any]]) -> None:
    folded = Folded(text)
    for rows in parts:
        for fold in folded.folds:
            fold.add(table_of(rows))
    assert same_rows(folded.answer(), by_definition(text, [row for rows in parts for row in rows]))


@pytest.mark.parametrize(("text", "word"), list(zip(IRREVERSIBLE, ["MIN(v)", "SUM(x)", "MAX(ts)"], strict=True)))
def test_what_is_not_exact_is_not_taken_back(text: str, word: str) -> None:
    (reading,) = compiled(text).readings
    assert irreversible(reading) == word
    with pytest.raises(ValueError, match="cannot be taken back"):
        RowFold(reading, SCHEMA).take_back(table_of([]))


def test_counts_and_exact_sums_are_taken_back() -> None:
    assert all(irreversible(reading) is None for each in REVERSIBLE for reading in compiled(each).readings)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT SUM(v + 1) AS t FROM s {w}", "v + 1 is no column"),
        ("SELECT v % 2 AS r, COUNT(*) AS n FROM s {w} GROUP BY v % 2", "v % 2 is no column"),
        ("SELECT MAX(g) AS m FROM s {w}", "MAX(g) is none of"),
        ("SELECT VARIANCE(v) AS m FROM s {w}", "MOMENTS(v) is none of"),
        ("SELECT APPROX_COUNT_DISTINCT(v) AS m FROM s {w}", "is none of"),
        ("SELECT COUNT(*) AS n FROM s {w} WHERE v % 2 = 0", "WHERE v % 2 = 0 does more than compare"),
        ("SELECT COUNT(*) AS n FROM s [ROWS 5]", "a window of rows"),
    ],
)
def test_what_takes_spark_is_named(text: str, why: str) -> None:
    found = [why_not_folded(reading, SCHEMA) for reading in compiled(text).readings]
    assert any(each is not None and why in each for each in found)


def test_sums_are_exact_beyond_64_bits_until_they_are_answered() -> None:
    """As in panes: an overflow on the way does not matter, a final sum that does not fit fails the question."""
    folded, most = Folded("SELECT SUM(w) AS t FROM s {w}"), table_of([{"w": 2**63 - 1}])
    for _ in range(3):
        folded.folds[0].add(most)
    with pytest.raises(QueryFailedError, match="does not fit into BIGINT"):
        folded.answer()
    for _ in range(2):
        folded.folds[0].take_back(most)
    assert folded.answer() == [{"t": 2**63 - 1}]


def test_decimals_are_taken_back_to_the_last_digit() -> None:
    folded = Folded("SELECT SUM(d) AS t, COUNT(d) AS n FROM s {w}")
    folded.folds[0].add(table_of([{"d": Decimal("0.01")}, {"d": Decimal("9999999999.99")}]))
    folded.folds[0].take_back(table_of([{"d": Decimal("9999999999.99")}]))
    assert folded.answer() == [{"t": Decimal("0.01"), "n": 1}]
