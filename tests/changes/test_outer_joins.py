"""Outer joins as they are written, against the same text by DuckDB over what is in the windows, at every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, Stream
from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.time import SECOND
from sash.plan.continuous import STRATEGIES, BaseWindow, Node, windows
from sash.sql import RegisterQuery, bind, parse, plan_changes
from tests.changes.test_plans_oracle import restored
from tests.support.examples import examples
from tests.support.relational import Row, check_net, listed, view
from tests.support.windows_in_duckdb import Definition

END = 22
COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int32())])
CATALOG = Catalog()
for name in "st":
    CATALOG.add_stream(Stream(name, COLUMNS, "ts"))


def planned(text: str) -> Node:
    statement = parse(f"REGISTER QUERY q AS {text}")
    assert isinstance(statement, RegisterQuery)
    return plan_changes(bind(statement.select, CATALOG))


def arrivals(window: BaseWindow, rows: pa.Table) -> Arrivals:
    """What Spark would bring for a window: its columns of the tuples that pass its WHERE."""
    columns = ", ".join(f'{column.expression.sql} AS "{column.name}"' for column in window.columns)
    where = f" WHERE {window.predicate.sql}" if window.predicate is not None else ""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("tuples", rows)
    found = connection.sql(f"SELECT _us, {columns} FROM tuples{where} ORDER BY _us".replace("`", '"')).to_arrow_table()
    stamps = np.asarray(found["_us"], dtype=np.int64)
    return Arrivals(found.drop_columns(["_us"]).cast(window.schema), stamps)


def changes_of(
    plan: Node, streams: dict[str, pa.Table], cuts: Sequence[int], strategy: str
) -> list[tuple[int, int, int, Row]]:
    """All changes; after each epoch the state comes back from its files."""
    stage, state, found, low = Stage(plan, 3, strategy), State(), [], 0
    every = [arrivals(each, streams[each.stream]) for each in windows(plan)]
    for high in [*(cut * SECOND for cut in sorted(set(cuts))), END * SECOND]:
        given = {}
        for place, each in enumerate(every):
            taken = (each.ts >= low) & (each.ts < high)
            given[place] = Arrivals(each.rows.filter(pa.array(taken)), each.ts[taken])
        changes, state = stage.step(state, given, low, high)
        found += listed(changes)
        state, low = restored(state), high
    check_net(found)
    return found


_conditions = ["{a}.v > 1", "{b}.v < 3", "{a}.k IS NOT NULL", "{b}.k <> 2", "{a}.v IN (1, 2)", "1 = 1", "NULL"]
_conditions += ["{a}.v < {b}.v", "{a}.v + {b}.v <> 3", "({a}.v IS NULL OR {b}.k = 1)"]
_where = [
    "a.v > 0", "b.v < 3", "b.k IS NULL", "a.v IS NULL OR b.v > 1", "COALESCE(b.v, 9) > 2", "a.k = b.v", "a.v <= b.v",
    "COALESCE(a.k, b.k) <> 3", "1 = 0",
]  # fmt: skip
_windows = st.one_of(st.integers(1, 6).map(lambda n: f"RANGE {n} sec"), st.integers(1, 3).map(lambda n: f"ROWS {n}"))


@st.composite
def joins(draw: st.DrawFn) -> str:
    """FROM with two to four windows, and WHERE."""

    def source(alias: str) -> str:
        return f"{draw(st.sampled_from('st'))} [{draw(_windows)}] {alias}"

    text, kinds = source("a"), ["LEFT", "RIGHT", "FULL", "INNER"]
    kinds = [draw(st.sampled_from(kinds[:3])), *draw(st.lists(st.sampled_from(kinds), max_size=2))]
    if draw(st.booleans()):
        kinds = kinds[::-1]
    for place, kind in enumerate(kinds):
        left, right = "abcd"[draw(st.integers(0, place))], "abcd"[place + 1]
        key = draw(st.sampled_from(["{a}.k = {b}.k", "{b}.k = {a}.v", "{a}.k + 1 = {b}.k", "{a}.v = {b}.v"]))
        more = draw(st.lists(st.sampled_from(_conditions), max_size=2, unique=True)) if draw(st.booleans()) else []
        on = " AND ".join(draw(st.permutations([key, *more]))).format(a=left, b=right)
        text += f" {kind} JOIN {source(right)} ON {on}"
    tests = draw(st.lists(st.sampled_from(_where), max_size=2, unique=True)) if draw(st.booleans()) else []
    return f"FROM {text}{' WHERE ' + ' AND '.join(tests) if tests else ''}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    body = draw(joins())
    forms = [
        f"SELECT a.k, a.v, b.k AS j, b.v AS w, 1 + 1 AS two {body}",
        f"SELECT COALESCE(b.v, -1) AS v, a.k IS NULL AS missing, ABS(a.v) AS p {body}",
        f"SELECT DISTINCT a.k, b.k AS j {body}",
        f"SELECT b.k, COUNT(*) AS n, COUNT(a.v) AS c, SUM(a.v + b.v) AS t {body} GROUP BY b.k",
    ]
    return draw(st.sampled_from(forms))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Tuples of a stream, one at a time: the youngest n are then certain."""
    value = st.one_of(st.integers(0, 3), st.none())
    rows = draw(st.lists(st.tuples(st.integers(1, 16), value, value), max_size=12, unique_by=lambda row: row[0]))
    stamps = pa.array([at * SECOND for at, _, _ in rows], pa.int64())
    columns = [stamps, *(pa.array([row[place] for row in rows], pa.int32()) for place in (1, 2))]
    return pa.table(columns, names=["_us", "k", "v"])


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(query=queries(), s=tables(), t=tables(), cuts=st.lists(st.integers(1, END - 1), max_size=4))
@settings(max_examples=examples(150))
def test_the_answer_of_duckdb_at_every_instant(
    strategy: str, query: str, s: pa.Table, t: pa.Table, cuts: list[int]
) -> None:
    streams, plan = {"s": s, "t": t}, planned(query)
    definition, found = Definition(streams), changes_of(plan, streams, cuts, strategy)
    assert Counter(found) == Counter(changes_of(plan, streams, [], strategy))
    for second in range(END):
        assert view(found, second * SECOND) == definition.answer(query, second * SECOND), f"at {second}"
