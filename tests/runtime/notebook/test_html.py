"""What a notebook shows: escaped, bounded, and without colours of its own."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.runtime.answers.answer import MOST_ROWS, Answer, table_html
from sash.runtime.answers.registered_query import remember
from sash.runtime.explaining.explanation import Explanation, Section
from tests.runtime.notebook.queries import handle

NASTY = "<script>alert('&')</script>"
AS_OF = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


class Seen(HTMLParser):
    """The tags and the text of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def answer(table: pa.Table, complete: bool = True) -> Answer:
    return Answer("totals", AS_OF, complete, True, table)


def test_an_answer_says_as_of_when_and_whether_it_is_complete() -> None:
    table = pa.table({"k": ["a", None], "n": [1.5, 2.0]})
    seen = Seen(answer(table)._repr_html_())
    assert "totals as of 2026-01-01 00:00:05 UTC" in seen.text and "not complete" not in seen.text
    assert "1.5" in seen.text and "NULL" in seen.text and not seen.open
    assert "window not complete yet" in answer(table, complete=False)._repr_html_()


def test_of_many_rows_some_are_shown_and_the_others_counted() -> None:
    seen = Seen(answer(pa.table({"n": range(MOST_ROWS + 1_234)}))._repr_html_())
    assert seen.tags.count("tr") == MOST_ROWS + 1 and "1,234 more rows" in seen.text
    assert "more row" not in answer(pa.table({"n": range(MOST_ROWS)}))._repr_html_()


@given(name=st.text(), value=st.text())
def test_nothing_in_the_data_becomes_markup(name: str, value: str) -> None:
    safe = Seen(table_html(pa.table({"a": ["b"]}), "c"))
    for nasty in (NASTY, name, value):
        seen = Seen(table_html(pa.table({nasty: [value + NASTY]}), nasty))
        assert seen.tags == safe.tags and not seen.open and NASTY in seen.text


def test_a_query_shows_its_text_its_state_and_its_latest_answer() -> None:
    query = handle("SELECT k, SUM(v) AS n FROM s [WINDOW 5 sec SLIDE 5 sec] WHERE v < 7 GROUP BY k")
    assert "no answer yet" in Seen(query._repr_html_()).text
    for number in (1, 22):
        remember([(query.outward, answer(pa.table({"k": [NASTY], "n": [number]})))])
    seen = Seen(query._repr_html_())
    assert "WHERE v < 7" in seen.text and "2 answers" in seen.text and NASTY in seen.text
    assert "22" in seen.text and "script" not in seen.tags
    query.failure = SashError("division by <zero>")
    assert "failed: division by <zero>" in Seen(query._repr_html_()).text


def test_an_explanation_is_a_string_that_keeps_its_lines() -> None:
    text = Explanation([Section("a < b", lines=["  c"])])
    assert text == "a < b\n  c" and isinstance(text, str) and f"{text}" == "a < b\n  c"
    assert text._repr_html_() == "<pre>a &lt; b\n  c</pre>"


def test_pages_choose_the_colours() -> None:
    page = answer(pa.table({"k": [1]}))._repr_html_() + handle("SELECT 1")._repr_html_()
    assert not re.search(r"color|background|bgcolor|#[0-9a-f]{3}", page, re.IGNORECASE)
