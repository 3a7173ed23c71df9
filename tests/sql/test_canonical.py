"""Canonical text: one spelling per meaning, and it reads back as itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sash.sql import SelectStatement, parse
from sash.sql.expressions.scope import FromColumns, Scope, SourceColumns
from sash.sql.expressions.terms import Term, over_tuples, render
from sash.sql.expressions.typer import type_expression
from tests.sql.examples import CATALOG
from tests.support.examples import examples


def typed(text: str) -> Term:
    statement = parse(f"SELECT {text} FROM packets [WINDOW 1 min]")
    assert isinstance(statement, SelectStatement)
    assert isinstance(statement.select.tree, exp.Select)
    columns = FromColumns((SourceColumns.of(CATALOG.streams[0], "packets", "packets"),))
    return over_tuples(type_expression(statement.select.tree.expressions[0], Scope(statement.select.script, columns)))


PAIRS = [
    ("packets.SRC+1", "src + 1"),
    ("((src))", "src"),
    ("src-(dst-1)", "src - (dst - 1)"),
    ("(src+dst)*2", "(src + dst) * 2"),
    ("- -src", "-(-src)"),
    ("-5", "-5"),
    ("src - -5", "src - -5"),
    ("not src=1 and ok", "NOT src = 1 AND ok"),
    ("src not in (1,2)", "NOT src IN (1, 2)"),
    ("src != 1", "src <> 1"),
    ("src == 1", "src = 1"),
    ("protocol not like 'a\\\\_%'", "NOT protocol LIKE 'a\\\\_%'"),
    ("protocol not rlike 'a' or protocol not ilike 'b'", "NOT protocol RLIKE 'a' OR NOT protocol ILIKE 'b'"),
    ("src not between 1 and 2", "NOT src BETWEEN 1 AND 2"),
    ("'a' 'b'", "'ab'"),
    ("ok is not true", "NOT ok <=> TRUE"),
    ("protocol is not null", "protocol IS NOT NULL"),
    ("ok is true", "ok <=> TRUE"),
    ("upper( Protocol )", "UPPER(protocol)"),
    ("protocol || 'x'", "CONCAT(protocol, 'x')"),
    ('"it\'s"', "'it\\'s'"),
    ("'a''b'", "'a\\'b'"),
    ("1e3", "1000.0E0"),
    ("1.50", "1.50"),
    ("1.", "1."),
    ("cast(src as long)", "CAST(src AS BIGINT)"),
    ("try_cast(protocol as decimal(5,2))", "TRY_CAST(protocol AS DECIMAL(5,2))"),
    ("10L", "CAST(10 AS BIGINT)"),
    ("case src when 1 then 'a' else 'b' end", "CASE WHEN src = 1 THEN 'a' ELSE 'b' END"),
    ("ts - interval 2 weeks", "ts - INTERVAL '14' DAY"),
    ("extract(year from ts)", "EXTRACT(YEAR FROM ts)"),
    ("date '2024-01-01'", "CAST('2024-01-01' AS DATE)"),
    ("`a b` div 2", "`a b` DIV 2"),
    ("src << 2", "SHIFTLEFT(src, 2)"),
    ("(src & 1) | 2", "(src & 1) | 2"),
    ("if(ok, 1, null)", "IF(ok, 1, NULL)"),
    ("src between 1 and 2 or ok", "src BETWEEN 1 AND 2 OR ok"),
    ("count(distinct (SRC))", "COUNT(DISTINCT src)"),
    ("mean(src) + median(src+1)", "AVG(src) + MEDIAN(src + 1)"),
    ("quantile(protocol, .90)", "QUANTILE(protocol, 0.9)"),
    ("quantile_cont(src, 5e-1)", "QUANTILE_CONT(src, 0.5)"),
    ("approx_quantile(src, 1.0)", "APPROX_QUANTILE(src, 1)"),
    ("quantile(src, 0.00)", "QUANTILE(src, 0)"),
    ("approx_count_distinct(src) / mode(src)", "APPROX_COUNT_DISTINCT(src) / MODE(src)"),
    ("count_min(src, 10L)", "COUNT_MIN(src, 10)"),
    ("count_min(src, 7.0)", "COUNT_MIN(src, 7)"),
    ("count_min(ratio, 1)", "COUNT_MIN(ratio, 1.0E0)"),
    ("count_min(price, 1.5)", "COUNT_MIN(price, 1.50)"),
    ("count_min(protocol, 'it''s')", "COUNT_MIN(protocol, 'it\\'s')"),
    ("count_min(ok, true)", "COUNT_MIN(ok, TRUE)"),
    ("count_min(day, '2024-01-02')", "COUNT_MIN(day, CAST('2024-01-02' AS DATE))"),
    (
        "count_min(ts, timestamp '2024-01-02 03:04:05+01:00')",
        "COUNT_MIN(ts, CAST('2024-01-02 02:04:05+00:00' AS TIMESTAMP))",
    ),
]


@pytest.mark.parametrize(("text", "canonical"), PAIRS)
def test_canonical_text(text: str, canonical: str) -> None:
    assert render(typed(text)) == canonical
    assert render(typed(canonical)) == canonical


NUMBERS = st.sampled_from(["src", "dst", "port", "1", "-2", "1.5", "2e0", "price", "ratio", "`a b`", "NULL"])
STRINGS = st.one_of(
    st.just("protocol"),
    st.text("ab'\\\"%_\n", max_size=5).map(lambda s: "'" + s.replace("\\", "\\\\").replace("'", "\\'") + "'"),
)


def numeric(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner)
    return st.one_of(
        pair.map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        pair.map(lambda p: f"{p[0]} {p[1]} {p[2]}"),
        inner.map(lambda x: f"-({x})"),
        inner.map(lambda x: f"abs({x})"),
        st.tuples(inner, inner).map(lambda p: f"coalesce({p[0]}, {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"case when {p[0]} > 1 then {p[1]} end"),
    )


def conditions(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compare = st.tuples(numbers, st.sampled_from(["=", "<>", "<", ">=", "<=>"]), numbers)
    simple = st.one_of(
        compare.map(lambda p: f"{p[0]} {p[1]} {p[2]}"),
        st.tuples(STRINGS, STRINGS).map(lambda p: f"{p[0]} = {p[1]}"),
        st.tuples(numbers, numbers, numbers).map(lambda p: f"{p[0]} not between {p[1]} and {p[2]}"),
        st.tuples(numbers, numbers).map(lambda p: f"{p[0]} in ({p[1]}, 7)"),
        numbers.map(lambda x: f"({x}) is not null"),
    )
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({p[0]}) {p[1]} {p[2]}"),
            inner.map(lambda x: f"not ({x})"),
        ),
        max_leaves=3,
    )


@settings(max_examples=examples(150), deadline=None)
@given(conditions(st.recursive(NUMBERS, numeric, max_leaves=4)))
def test_canonical_text_reads_back_as_itself(text: str) -> None:
    term = typed(text)
    canonical = render(term)
    again = typed(canonical)
    assert render(again) == canonical
    assert again.type == term.type
    assert [part.type for part in again.walk()] == [part.type for part in term.walk()]
