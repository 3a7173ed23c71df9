"""Window functions, common tables and nested sub-queries over the answers of panes, against DuckDB over the tuples."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import CqlError
from sash.core.time import SECOND, to_micros
from tests.support.examples import examples
from tests.support.feed import answers_of, compiled
from tests.support.oracle import recompute, same_rows
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import START, batches, stream

_ORDER = "ORDER BY t DESC NULLS LAST, k ASC NULLS FIRST"
_SUMS = "ORDER BY SUM(v) DESC NULLS LAST, k ASC NULLS FIRST"
# (text with {w} for the window clause); FROM with the stream stands once.
FORMS = [
    f"SELECT k, SUM(v) AS t, ROW_NUMBER() OVER ({_SUMS}) AS n FROM s {{w}} GROUP BY k",
    (
        "SELECT k, g, SUM(v) AS t FROM s {w} GROUP BY k, g HAVING COUNT(*) > 1 "
        "QUALIFY RANK() OVER (PARTITION BY g ORDER BY SUM(v) DESC NULLS LAST) <= 2"
    ),
    f"SELECT k, LAG(COUNT(*)) OVER ({_SUMS}) AS a, SUM(COUNT(*)) OVER ({_SUMS}) AS b FROM s {{w}} GROUP BY k",
    "SELECT g, SUM(v) / SUM(SUM(v)) OVER () AS part, MEDIAN(v) AS m FROM s {w} GROUP BY g",
    "SELECT COUNT(*) AS n, SUM(COUNT(*)) OVER () AS same FROM s {w}",
    f"SELECT k, NTILE(2) OVER ({_SUMS}) AS tile FROM s {{w}} GROUP BY k ORDER BY tile, k ASC NULLS FIRST LIMIT 2",
    (
        f"SELECT k, t FROM (SELECT k, t, ROW_NUMBER() OVER ({_ORDER}) AS n FROM (SELECT k, SUM(v) AS t FROM s {{w}} "
        "GROUP BY k) b) c WHERE n <= 2"
    ),
    "SELECT t + 1 AS u FROM (SELECT k, CAST(SUM(v) AS BIGINT) AS t FROM s {w} GROUP BY k) b WHERE k > 1",
    (
        "WITH a(t) AS (SELECT CAST(SUM(v) AS BIGINT) FROM s {w} GROUP BY k), b AS (SELECT t * 2 AS u FROM a) "
        "SELECT u FROM b"
    ),
    "WITH a AS (SELECT k, SUM(v) AS t FROM s {w} GROUP BY k) SELECT x.k, y.t FROM a x JOIN a y USING (k)",
]


SETS = [
    "SELECT k, g, COUNT(*) AS n, GROUPING(k) AS gk, SUM(v) AS t FROM s {w} GROUP BY ROLLUP(k, g)",
    "SELECT k, g, AVG(v) AS a, COUNT(DISTINCT v) AS d, GROUPING_ID(k, g) AS id FROM s {w} GROUP BY CUBE(k, g)",
    (
        "SELECT k, g, MIN(g) AS lo, STDDEV(v) AS s, MEDIAN(v) AS m FROM s {w} WHERE v > 0 "
        "GROUP BY GROUPING SETS (g, (k, g))"
    ),
    "SELECT k, v % 3 AS r, COUNT(*) AS n, SUM(w) AS t FROM s {w} GROUP BY k, ROLLUP(v % 3) HAVING COUNT(*) > k",
    (
        "SELECT k, g, MAX(x) AS x, RANK() OVER (PARTITION BY GROUPING(k) ORDER BY COUNT(*) DESC) AS place FROM s {w} "
        "GROUP BY CUBE(k, g) QUALIFY place < 3"
    ),
    "SELECT k, COUNT(*) AS n FROM s {w} GROUP BY GROUPING SETS (k, k, ())",
    "SELECT k, n FROM (SELECT k, g, COUNT(*) AS n FROM s {w} GROUP BY ROLLUP((k, g))) a WHERE n > 1",
]


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(SETS), min_size=1, max_size=3, unique=True), batches(), st.integers(1, 9))
def test_grouping_sets(texts: list[str], parts: list[pa.Table], length: int) -> None:
    """Over no tuples DuckDB has a row for the set without keys, and Spark has none."""
    check(texts, parts, length)


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(FORMS), min_size=1, max_size=4, unique=True), batches(), st.integers(1, 9))
def test_answers_are_those_of_the_tuples(texts: list[str], parts: list[pa.Table], length: int) -> None:
    check(texts, parts, length)


def check(texts: list[str], parts: list[pa.Table], length: int) -> None:
    asked = {f"q{i}": text.format(w=f"[WINDOW {length} sec SLIDE 3 sec]") for i, text in enumerate(texts)}
    tuples = pa.concat_tables(parts)
    for name, answers in answers_of(stream(), asked, parts, None).items():
        text = texts[int(name[1:])]
        for answer in answers:
            as_of = to_micros(answer.as_of)
            truth = recompute(text.format(w="[]"), tuples, as_of, length * SECOND)
            where = " WHERE v > 0" if "WHERE v > 0" in text else ""
            (some,) = recompute(f"SELECT COUNT(*) AS n FROM s []{where}", tuples, as_of, length * SECOND)
            if text in SETS and not some["n"]:
                truth = []
            assert same_rows(answer.table.to_pylist(), truth, ordered="LIMIT" in text)


def test_grouping_sets_share_the_pane_table_of_the_finest() -> None:
    """Beside the values that MEDIAN and COUNT(DISTINCT ..) count."""
    for text, tables in ((SETS[0], {"(g, k)"}), (SETS[1], {"(g, k)", "(g, k, v)"}), (SETS[3], {"(k, v % 3)"})):
        (query,) = compiled({"q": text.format(w="[WINDOW 5 sec SLIDE 5 sec]")}, stream())
        assert {reading.table.label for reading in query.readings} == tables


def test_panes_in_the_cluster_have_no_grouping_sets() -> None:
    with SparklessSession() as session:
        session.declare(stream())
        with pytest.raises(CqlError, match="give each set its own query") as caught:
            session.register(SETS[0].format(w="[WINDOW 5 sec SLIDE 5 sec]"), name="q", synopsis="cluster")
        assert caught.value.span is not None


@pytest.mark.parametrize("form", [*FORMS[:3], FORMS[6]])
def test_questions_are_answered_from_stored_rows(form: str) -> None:
    """Sash folds the rows of the window, and numbers the groups: without Spark."""
    rows = tuples((4, 0, 5), (5, 1, 7), (6, 2, 9), (7, 0, 1), (8, 0, 1), (9, 5, 5))
    with SparklessSession() as session:
        session.declare(stream(keep=10 * SECOND))
        session.push("s", rows)
        answer = session.query(form.format(w="[WINDOW 5 sec]"))
        truth = recompute(form.format(w="[]"), rows, START + 8 * SECOND, 5 * SECOND)
        assert truth and same_rows(answer.to_pylist(), truth)
