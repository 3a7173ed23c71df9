"""COUNT_MIN: from counters or from the counts of all values, registered and asked, and from earlier checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sash.catalog import Catalog, RegisteredQuery
from sash.core.time import SECOND
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes, compile_query
from sash.runtime.explaining.explain import explain, tried
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.onetime import look_up
from sash.runtime.records.catalog_history import CatalogHistory, query_change
from sash.sql import bind
from tests.support.feed import Feed, compiled
from tests.support.sparkless_session import SparklessSession
from tests.support.streams import START, stream, to_table

TEXT = "SELECT k, COUNT_MIN(v, 3) AS n FROM s [WINDOW 8 sec SLIDE 2 sec] GROUP BY k WITH BOUNDS"
QUESTION = "SELECT k, COUNT_MIN(v, 3) AS n, COUNT_MIN(v, 4) AS m FROM s [WINDOW 6 sec] GROUP BY k"


def parts(count: int = 6) -> list[pa.Table]:
    """Three seconds each, nine tuples; every fifth value is NULL."""
    numbers = [range(i * 9, i * 9 + 9) for i in range(count)]
    return [
        to_table([(START + 1 + n * SECOND // 3, n % 2, "a", n % 7 if n % 5 else None, n, 1.0) for n in some])
        for some in numbers
    ]


def asked(text: str) -> CompiledQuery:
    catalog = Catalog()
    catalog.add_stream(stream())
    return compile_panes(bind(as_select(text), catalog), "(one-time)", one_time=True)


def told(answers: list[Answer]) -> list[tuple[Any, ...]]:
    return [(answer.as_of, answer.table.to_pylist()) for answer in answers]


@pytest.mark.parametrize(
    ("registered", "table"),
    [
        (TEXT, "(20000 counters of v, k)"),
        ("SELECT k, MEDIAN(v) AS n FROM s [WINDOW 8 sec SLIDE 2 sec] GROUP BY k", "(k, v)"),
    ],
)
def test_questions_read_what_is_there(registered: str, table: str) -> None:
    feed, question = Feed(stream()), asked(QUESTION)
    feed.runtime.synchronise(compiled({"q": registered}, feed.declared))
    tuples = [feed.push(part) for part in parts()] and pa.concat_tables(parts()).to_pylist()
    answer = look_up(question, feed.runtime).compute()
    newest = int(answer.as_of.timestamp() * 1_000_000)
    inside = [row for row in tuples if newest - 6 * SECOND < row["_us"] <= newest]
    rows = [(k, *([r["v"] for r in inside if r["k"] == k].count(v) for v in (3, 4))) for k in (0, 1)]
    assert sorted(tuple(row.values()) for row in answer.table.to_pylist()) == rows
    text = explain(question, tried(feed.runtime, [each.compiled for each in feed.runtime.active.values()], question))
    assert f"One-time: answered from pane table s by {table}" in text


def test_explain_tells_the_size_of_the_sketch() -> None:
    feed = Feed(stream())
    grouped, alone = compiled({"q": TEXT, "p": TEXT.replace("k, ", "").replace("GROUP BY k", "")}, feed.declared)
    feed.runtime.synchronise([grouped, alone])
    feed.push(parts()[0])
    line = (
        "  a count-min sketch of v: 2 rows of 10,000 counters for each pane{} at most; "
        "the counts of single values stay on Spark"
    )
    assert line.format(" and group") in explain(grouped, feed.runtime).splitlines()
    assert line.format("") in explain(alone, feed.runtime).splitlines()


def test_a_query_from_an_earlier_checkpoint_goes_on_with_the_counts_of_all_values() -> None:
    """Its registration has no word of counters, and its snapshot the counts of all values."""
    change = query_change(RegisteredQuery("q", TEXT, "s"))
    assert change["counters"], "new ones have it"
    del change["counters"]
    history = CatalogHistory()
    history.append(change)
    known = history.queries()["q"]
    assert not known.counters
    catalog = Catalog()
    catalog.add_stream(stream())
    (new,), query = compiled({"q": TEXT}, stream()), compile_query(known, catalog)
    old, fresh, other = Feed(stream()), Feed(stream()), Feed(stream())
    old.runtime.synchronise([query])
    other.runtime.synchronise([new])
    expected = [answer for part in parts() for answer in other.push(part)]
    answers = [answer for part in parts()[:3] for answer in old.push(part)]
    (group,) = old.runtime.groups.values()
    assert group.label == "(k, v)"
    fresh.runtime.synchronise([query])
    stream_snapshot.load(fresh.runtime, stream_snapshot.save(old.runtime))
    answers += [answer for part in parts()[3:] for answer in fresh.push(part)]
    assert told(answers) == told(expected) and len(answers) > 5


def test_counters_and_counts_of_values_agree() -> None:
    """Over every kind of window that a query may have, with few values."""
    windows = [
        "[WINDOW 8 sec SLIDE 2 sec]",
        "[WINDOW 6 sec SLIDE 3 sec LAG 3 sec]",
        "[ROWS 20 SLIDE 5]",
        "[UNBOUNDED SLIDE 4 sec]",
        "[PARTITION BY k ROWS 4 SLIDE 2]",
    ]
    texts = {
        f"q{i}": f"SELECT k, COUNT_MIN(v, 3) AS n FROM s {w} WHERE w > 4 GROUP BY k" for i, w in enumerate(windows)
    }
    queries = compiled(texts, stream(delay=SECOND))
    feeds = [Feed(stream(delay=SECOND)) for _ in range(2)]
    feeds[0].runtime.synchronise(queries)
    feeds[1].runtime.synchronise([replace(query, counters=False) for query in queries])
    ours, theirs = ([a for part in parts(9) for a in feed.push(part)] + feed.finish() for feed in feeds)
    assert sorted(told(ours), key=repr) == sorted(told(theirs), key=repr) and len(ours) > 20


def test_a_session_decides_at_registration_and_remembers_it(tmp_path: Path) -> None:
    """A query before MEDIAN has counters, one behind it reads MEDIAN's counts; so it is after a restart."""
    median = "SELECT k, MEDIAN(v) AS m FROM s [WINDOW 8 sec SLIDE 2 sec] GROUP BY k"
    told_by: dict[str, list[Any]] = {"before": [], "behind": []}
    for number, some in enumerate((parts(8)[:4], parts(8)[4:])):
        with SparklessSession(checkpoint=tmp_path / "c") as session:
            session.declare(stream())
            session.epochs["s"] = 4 * number
            queries = {
                name: session.register(text, name)
                for name, text in {"before": TEXT, "median": median, "behind": TEXT}.items()
            }
            for name in told_by:
                queries[name].subscribe(lambda answer, name=name: told_by[name].append(told([answer])))
            for part in some:
                session.push("s", part)
            labels = {table["name"] for table in session.stats()["streams"]["s"]["pane_tables"]}
            assert labels == {"(20000 counters of v, k)", "(k, v)"}, number
            if number == 0:
                assert "by (20000 counters of v, k)" in session.explain(f"REGISTER QUERY before AS {TEXT}")
                assert "by (k, v)" in session.explain(f"REGISTER QUERY another AS {TEXT}")
    assert told_by["before"] == told_by["behind"] and len(told_by["before"]) > 5
