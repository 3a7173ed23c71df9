"""Random questions over stored windows, on Spark: the same answers with indexes as without."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import sash
from sash.core.clock import ManualClock
from sash.core.time import SECOND
from tests.runtime.test_stored_access import SCHEMA, indexes_always_help
from tests.support.examples import examples
from tests.support.stored_questions import questions, whole_sorts
from tests.support.streams import START

pytestmark = pytest.mark.spark


def write(path: Path, seed: int) -> None:
    """Forty rows of eight seconds, with NULLs in all columns but two."""
    random, rows = Random(seed), []
    for number in range(40):
        numbers = [random.choice([None, *range(6)]) for _ in range(2)]
        rows.append((START + number * SECOND // 5 + 1, number, *numbers, random.choice([None, "a", "b", "", "ä"])))
    columns = [pa.array(column, type) for column, type in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    path.mkdir()
    pq.write_table(pa.table(columns, schema=SCHEMA), path / "part.parquet")


@pytest.fixture(scope="module")
def sessions(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sash.Session]]:
    """Two sessions over the same files, the second with indexes."""
    directory = tmp_path_factory.mktemp("data")
    for seed, name in enumerate("st"):
        write(directory / name, seed)
    connect = partial(sash.connect, spark=spark, clock=ManualClock())
    with connect() as plain, connect() as quick:
        for session in (plain, quick):
            for name in "st":
                session.sql(
                    f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k INT, v INT, g STRING) FROM parquet "
                    f"OPTIONS (path '{directory / name}') TIMESTAMP ts KEEP 6 sec"
                )
            session.run()
        for name, column, kind in [("s", "k", "db"), ("s", "g", "aux"), ("t", "v", "bw"), ("t", "k", "ring")]:
            quick.sql(f"CREATE INDEX ON {name} ({column}) USING {kind}")
        yield [plain, quick]


def answer(session: sash.Session, text: str) -> list[tuple[Any, ...]]:
    """In order where the question has one."""
    found = session.query(text)
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    return rows if " ORDER BY " in text.rsplit(")", 1)[-1] else sorted(rows, key=repr)


@settings(max_examples=examples(40))
@given(text=questions())
def test_the_same_answers_with_indexes_as_without(sessions: list[sash.Session], text: str) -> None:
    plain, quick = sessions
    with indexes_always_help():
        assert answer(quick, text) == answer(plain, text)


@settings(max_examples=examples(40))
@given(text=whole_sorts())
def test_the_same_order_with_indexes_as_without(sessions: list[sash.Session], text: str) -> None:
    plain, quick = sessions
    with indexes_always_help():
        assert answer(quick, text) == answer(plain, text)
