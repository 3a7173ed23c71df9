"""Whole windows in order, on Spark: by places that an index gives as by Spark's own sort."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.core.clock import ManualClock
from sash.core.time import SECOND
from sash.runtime.asking import on_spark
from tests.rows.test_types import TYPES
from tests.support.streams import START

pytestmark = pytest.mark.spark
# Those that Spark has, and can write to Parquet.
COLUMNS = {
    name.replace(" ", "_"): TYPES[name][0]
    for name in ("int8", "boolean", "date", "double", "float", "decimal", "long decimal", "text", "bytes")
}
VALUES: dict[str, list[Any]] = {
    "int8": [-128, 0, 127],
    "boolean": [False, True],
    "date": [date(1968, 2, 29), date(1970, 1, 1), date(2024, 1, 1)],
    "double": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), -1.5, 5e-324],
    "float": [0.0, -0.0, float("nan"), float("inf"), -2.5],
    "decimal": [Decimal("-1.250"), Decimal(0), Decimal("25.001")],
    "long_decimal": [Decimal(-(10**20)), Decimal(0), Decimal(10**20)],
    "text": ["", "a", "Z", "é", "\U0001f600", "\uffee", "aa"],
    "bytes": [b"", b"\x00", b"\x7f", b"\x80", b"\xff"],
}


@pytest.fixture(scope="module")
def sessions(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sash.Session]]:
    """Two sessions over the same sixty rows of six seconds, the second with an index of every column."""
    directory, random = tmp_path_factory.mktemp("data"), Random(3)
    columns: dict[str, pa.Array] = {
        "ts": pa.array([START + number * SECOND // 10 + 1 for number in range(60)], pa.timestamp("us", "UTC")),
        "id": pa.array(range(60), pa.int64()),
    }
    for name, type in COLUMNS.items():
        columns[name] = pa.array([random.choice([None, *VALUES[name]]) for _ in range(60)], type)
    pq.write_table(pa.table(columns), directory / "rows.parquet")
    frame = spark.read.parquet(str(directory))
    with sash.connect(spark=spark, clock=ManualClock()) as plain, sash.connect(spark=spark) as quick:
        for session in (plain, quick):
            session.create_stream("s", frame, timestamp="ts", keep="6 sec")
            session.run()
        for name in COLUMNS:
            quick.sql(f"CREATE INDEX ON s ({name})")
        yield [plain, quick]


def orders(name: str) -> list[str]:
    """The column as first term and as a further one."""
    other = next(each for each in COLUMNS if each != name)
    return [f"{name}, id", f"{name} DESC NULLS FIRST, id DESC", f"{other} DESC, {name} DESC, id"]


@pytest.fixture(scope="module")
def sorted_by_spark(sessions: list[sash.Session]) -> dict[str, list[int]]:
    """The ids in every order, by one question."""
    asked = [terms for name in COLUMNS for terms in orders(name)]
    places = ", ".join(f"row_number() OVER (ORDER BY {terms}) AS n{number}" for number, terms in enumerate(asked))
    found = sessions[0].query(f"SELECT id, {places} FROM s [WINDOW 5 sec] WHERE id % 7 > 0")
    return {terms: found.sort_by(f"n{number}")["id"].to_pylist() for number, terms in enumerate(asked)}


@pytest.fixture(scope="module")
def whole(sessions: list[sash.Session]) -> pa.Table:
    return sessions[0].query("SELECT * FROM s [WINDOW 5 sec]")


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_as_first_and_as_further_term(
    sessions: list[sash.Session], sorted_by_spark: dict[str, list[int]], whole: pa.Table, name: str
) -> None:
    for terms in orders(name):
        text = f"SELECT id, {name} FROM s [WINDOW 5 sec] WHERE id % 7 > 0 ORDER BY {terms}"
        assert "Spark does not sort" in sessions[1].explain(text)
        by_places = sessions[1].query(text)
        assert len(by_places) > 40
        assert by_places["id"].to_pylist() == sorted_by_spark[terms]
        assert by_places.schema.types == whole.select(["id", name]).schema.types


def test_what_is_too_large_to_be_put_in_order_here_spark_sorts_by_place(
    sessions: list[sash.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT *, id + 1 AS n FROM s [WINDOW 5 sec] ORDER BY text DESC, id"
    expected = sessions[0].query(text)
    monkeypatch.setattr(on_spark, "MOST_TEXT", 0)
    found = sessions[1].query(text)
    assert found.schema == expected.schema and found["n"].to_pylist() == expected["n"].to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id / 0 AS n FROM s [WINDOW 5 sec] ORDER BY text",
        "SELECT id FROM s [WINDOW 5 sec] WHERE 1 / (id - id) > 0 ORDER BY text",
    ],
)
def test_what_spark_refuses_it_refuses_with_an_index(sessions: list[sash.Session], text: str) -> None:
    reasons = []
    for session in sessions:
        with pytest.raises(sash.SashError) as refused:
            session.query(text)
        reasons.append(str(refused.value).split("\n")[0][:60])
    assert reasons[0] == reasons[1]


def test_one_name_for_several_things_is_sparks_to_judge(sessions: list[sash.Session]) -> None:
    text = "SELECT *, text AS bytes FROM s [WINDOW 5 sec] ORDER BY bytes, id"
    assert "Spark does not sort" not in sessions[1].explain(text)
    without, with_an_index = (session.query(text)["id"].to_pylist() for session in sessions)
    assert with_an_index == without
