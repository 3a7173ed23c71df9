"""SESSION windows: what panes cannot answer is refused at its word, with the way out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from sash.catalog import Catalog
from sash.core.errors import CqlError
from sash.runtime.compiler import as_select
from sash.runtime.route import decide_registered, question_of, route
from sash.sql import bind
from tests.sql.examples import CATALOG, check_error, marked

SESSION = "packets [SESSION GAP 30 sec SLIDE 10 sec]"
REFUSED = [
    (f"SELECT «TOP»(3, src) FROM {SESSION}", "TOP over sessions; GROUP BY the item, and its sessions are listed"),
    (f"SELECT «FREQUENT»(3, src) FROM {SESSION}", "FREQUENT over sessions"),
    (
        f"SELECT src, «COUNT»(DISTINCT dst) FROM {SESSION} GROUP BY src",
        "COUNT(DISTINCT ..) over sessions; APPROX_COUNT_DISTINCT is kept",
    ),
    (f"SELECT src, «MEDIAN»(length) FROM {SESSION} GROUP BY src", "MEDIAN over sessions; APPROX_QUANTILE is kept"),
    (f"SELECT src FROM {SESSION} GROUP BY src HAVING «MODE»(length) > 3", "MODE over sessions; use [WINDOW d]"),
    (f"SELECT src, «COLLECT_LIST»(dst) FROM {SESSION} GROUP BY src", "COLLECT_LIST over sessions; use [WINDOW d]"),
    (f"SELECT src, dst, COUNT(*) FROM {SESSION} «GROUP BY» ROLLUP (src, dst)", "ROLLUP and CUBE over sessions"),
    (
        """SELECT a.src FROM (SELECT src, COUNT(*) AS n FROM packets [WINDOW 1 min SLIDE «10 sec»] GROUP BY src) a
           JOIN (SELECT src, COUNT(*) AS m FROM packets [SESSION GAP 9 sec SLIDE 10 sec] GROUP BY src) b USING (src)""",
        "sessions are told at the multiples of SLIDE alone: write SLIDE EXACTLY here",
    ),
    (
        f"SELECT COUNT(*) FROM {SESSION} WHERE «window_start»() > ts",
        "window_start() is of the window, and of no tuple",
    ),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_panes_do_not_have_of_sessions(text: str, reason: str) -> None:
    check_error(text, reason)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT src, length FROM packets [SESSION GAP «30 sec»]",
        "SELECT DISTINCT src FROM packets [SESSION GAP «30 sec» SLIDE 10 sec]",
        "SELECT a.src FROM packets [SESSION GAP «30 sec»] a, packets [SESSION GAP 30 sec] b WHERE a.src = b.src",
    ],
)
def test_continuous_queries_have_no_sessions(text: str) -> None:
    statement, start, end = marked(text)
    with pytest.raises(CqlError, match=r"sessions are answered from panes, .*: aggregate them") as caught:
        route(bind(as_select(statement), CATALOG))
    assert caught.value.span is not None and (caught.value.span.start, caught.value.span.end) == (start, end)


@pytest.mark.parametrize("keep", [None, 60_000_000])
def test_a_question_has_no_sessions(keep: int | None) -> None:
    known = Catalog()
    known.add_stream(replace(CATALOG.stream("packets"), keep=keep))
    statement, start, end = marked("SELECT src, COUNT(*) FROM packets [SESSION GAP «30 sec»] GROUP BY src")
    with pytest.raises(CqlError, match=r"sessions are told when they end.*: REGISTER QUERY") as caught:
        question_of(as_select(statement), known, partial(decide_registered, catalog=known))
    assert caught.value.span is not None and (caught.value.span.start, caught.value.span.end) == (start, end)


def test_a_stream_that_sheds_has_no_sessions() -> None:
    known = Catalog()
    known.add_stream(replace(CATALOG.stream("packets"), shed=10))
    with pytest.raises(CqlError, match=r"may drop tuples \(SHED\), and without one of its tuples a session is two"):
        route(bind(as_select(f"SELECT COUNT(*) FROM {SESSION}"), known))
