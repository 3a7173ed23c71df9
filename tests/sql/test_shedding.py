"""SHED RANDOM: its syntax, and the allowed queries over such a stream."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.catalog import Catalog, Stream, one_in
from sash.core.errors import CatalogError, CqlError
from sash.plan.nodes import Project
from sash.runtime.commands.declare import checked, declared_stream
from sash.runtime.route import is_continuous
from sash.sql import CreateStream, bind, parse, plan_changes, plan_panes
from sash.sql.reading.statements import SelectStatement

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int32()), ("d", pa.decimal128(30, 2))]
)
CREATE = "CREATE STREAM s (ts TIMESTAMP, v INT) FROM csv OPTIONS (path 'x') TIMESTAMP ts {}"
W = "[WINDOW 10 sec SLIDE 5 sec]"


def catalog(approx: bool = False) -> Catalog:
    found = Catalog()
    found.add_stream(Stream("s", SCHEMA, "ts", shed=2, shed_approx=approx))
    found.add_stream(Stream("t", SCHEMA, "ts"))
    return found


def bound(text: str, known: Catalog) -> Project | None:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    bound = bind(statement.select, known)
    if is_continuous(bound):
        plan_changes(bound)
        return None
    return plan_panes(bound, periodic=True)


def created(clauses: str) -> CreateStream:
    statement = parse(CREATE.format(clauses))
    assert isinstance(statement, CreateStream)
    return statement


@pytest.mark.parametrize(
    ("clause", "n", "approx"),
    [("RANDOM 0.5", 2, False), ("RANDOM 0.1 APPROX DELAY 1 sec", 10, True), ("random 0.001", 1_000, False)],
)
def test_the_clause(clause: str, n: int, approx: bool) -> None:
    statement = created(f"SHED {clause}")
    assert (statement.shed, statement.shed_approx) == (n, approx)
    assert declared_stream(statement, SCHEMA).shed == n


@pytest.mark.parametrize("written", ["v > 5", "V BETWEEN 1 AND 3 OR v IS NULL", "(v = 1)", "v IN (1, 2)"])
def test_tuples_that_go_first(written: str) -> None:
    for approx in (False, True):
        statement = created(f"SHED RANDOM 0.5 WHERE {written} FIRST{' APPROX' * approx} DELAY 1 sec")
        assert (statement.shed, statement.shed_first, statement.shed_approx) == (2, written, approx)
        stream = declared_stream(statement, SCHEMA)
        assert stream.shed_first is not None and checked(stream) == stream, "a checkpoint's is declared again as it is"


@pytest.mark.parametrize("text", ["WHERE v > 5", "WHERE v > 5 DELAY 1 sec", "WHERE FIRST", "WHERE"])
def test_a_condition_ends_with_first(text: str) -> None:
    with pytest.raises(CqlError, match=r"expected FIRST|expected a condition"):
        created(f"SHED RANDOM 0.5 {text}")


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("x > 5", "unknown column 'x'"),
        ("v", "BOOLEAN|condition"),
        ("v / k > 1", "compare columns with constants"),
        ("CAST(v AS STRING) = '1'", "compare columns with constants"),
        ("SUM(v) > 1", "aggregate SUM"),
        ("v > 1 GROUP BY k", "xpect"),
        ("v > 1; SELECT 1", "xpect"),
    ],
)
def test_a_condition_that_may_fail_is_refused(condition: str, why: str) -> None:
    with pytest.raises(CatalogError, match=why):
        checked(Stream("s", SCHEMA, "ts", shed=2, shed_first=condition))
    with pytest.raises(CatalogError, match="shed_first needs shed"):
        checked(Stream("s", SCHEMA, "ts", shed_first="v > 1"))


@pytest.mark.parametrize("part", ["0.3", "1", "0", "1.0", "2", "0.0001", "0.75"])
def test_a_part_that_is_not_one_in_n_is_refused(part: str) -> None:
    with pytest.raises(CqlError, match=r"one in n, such as 0\.5") as refused:
        created(f"SHED RANDOM {part}")
    assert refused.value.column == len(CREATE.format("SHED RANDOM ")) + 1


def test_words_that_are_missing() -> None:
    with pytest.raises(CqlError, match="expected RANDOM and the part"):
        created("SHED 0.5")
    with pytest.raises(CqlError, match="expected the part of the tuples to keep"):
        created("SHED RANDOM half")
    with pytest.raises(ValueError, match="one in n"):
        one_in("half")


def test_what_is_stored_cannot_be_shed() -> None:
    with pytest.raises(CatalogError, match="KEEP stores every tuple"):
        declared_stream(created("SHED RANDOM 0.5 KEEP 10 sec"), SCHEMA)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        ("MAX(v)", "MAX"),
        ("1 + MIN(v)", "MIN"),
        ("COUNT(DISTINCT v)", "COUNT"),
        ("MEDIAN(v)", "MEDIAN"),
        ("APPROX_COUNT_DISTINCT(v)", "APPROX_COUNT_DISTINCT"),
        ("APPROX_QUANTILE(v, 0.5)", "APPROX_QUANTILE"),
        ("TOP(3, v)", "TOP"),
        ("HISTOGRAM(v)", "HISTOGRAM"),
    ],
)
def test_what_cannot_be_scaled_is_refused_unless_the_stream_says_approx(call: str, word: str) -> None:
    text = f"SELECT {call} AS x FROM s {W}"
    with pytest.raises(CqlError, match="cannot be scaled") as refused:
        bound(text, catalog())
    assert refused.value.column == text.index(word) + 1
    assert bound(text, catalog(approx=True)) is not None
    assert bound(text.replace("FROM s", "FROM t"), catalog()) is not None


def test_having_and_order_by_are_looked_at_too() -> None:
    for clause in ("GROUP BY k HAVING MAX(v) > 1", "GROUP BY k ORDER BY MIN(v)"):
        with pytest.raises(CqlError, match="cannot be scaled"):
            bound(f"SELECT k, SUM(v) AS t FROM s {W} {clause}", catalog())


@pytest.mark.parametrize("approx", [True, False])
def test_rows_and_continuous_queries_are_refused(approx: bool) -> None:
    with pytest.raises(CqlError, match="a window of ROWS would count"):
        bound("SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 5]", catalog(approx))
    for text in (
        "SELECT v FROM s [RANGE 5 sec]",
        "SELECT t.v FROM s [RANGE 5 sec], t [RANGE 5 sec] WHERE s.k = t.k",
        f"SELECT DISTINCT v FROM s {W}",
    ):
        with pytest.raises(CqlError, match="single results cannot be scaled"):
            bound(text, catalog(approx))


def test_sums_and_counts_have_bounds_there_and_only_there() -> None:
    text = f"SELECT k, SUM(v) AS t, COUNT(*) AS n, AVG(v) AS mean FROM s {W} GROUP BY k WITH BOUNDS"
    plan = bound(text, catalog())
    assert plan is not None
    names = [output.name for output in plan.outputs]
    assert names == ["k", "t", "t_lower", "t_upper", "n", "n_lower", "n_upper", "mean"]
    types = {output.name: output.expression.type for output in plan.outputs}
    assert types["t_lower"] == pa.float64() and types["n_upper"] == pa.int64() and types["t"] == pa.int64()
    with pytest.raises(CqlError, match="WITH BOUNDS needs a column"):
        bound(text.replace("FROM s", "FROM t"), catalog())


def test_decimals_that_might_not_fit_are_refused() -> None:
    with pytest.raises(CqlError, match="SUM of more than 25 digits"):
        bound(f"SELECT SUM(d) AS t FROM s {W}", catalog())
    assert bound(f"SELECT SUM(CAST(d AS DECIMAL(20, 2))) AS t FROM s {W}", catalog()) is not None
