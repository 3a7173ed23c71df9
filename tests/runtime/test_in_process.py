"""Aggregates of a stored window, folded sub-window by sub-window: against DuckDB, and while the window slides.

Threads meet at events, never at times. What happened to the window is written down as a history, which is judged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import CLUSTER, Catalog, Stream
from sash.core.time import SECOND
from sash.isolation import Recorder, SharedWindow, classify
from sash.panes.row_folds import RowFold
from sash.runtime.asking.in_process import answer_folded
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.runtime.explaining import explain as explaining
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.route import rows_behind
from sash.runtime.settings import Settings
from sash.runtime.stored.stored_indexes import TIME
from sash.runtime.stored.stored_window import StoredWindow
from sash.sql import bind
from tests.support.examples import examples
from tests.support.oracle import recompute, same_rows
from tests.support.streams import START, batches, stream, to_table
from tests.support.threads import PATIENCE, join, start

FORMS = [
    "SELECT COUNT(*) AS n, COUNT(v) AS nv, SUM(w) AS total, AVG(v) AS mean FROM s {w}",
    "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s {w} GROUP BY k",
    "SELECT g, k, AVG(w) AS mean FROM s {w} WHERE v > 10 OR k IS NULL GROUP BY g, k",
    "SELECT k, MAX(v) - MIN(v) AS span FROM s {w} GROUP BY k HAVING COUNT(*) > 1",
    "SELECT g, SUM(x) AS t, COUNT(DISTINCT v) AS d FROM s {w} GROUP BY g",
    "SELECT k, COUNT(*) AS n FROM s {w} GROUP BY k ORDER BY n DESC NULLS LAST, k ASC NULLS FIRST LIMIT 2",
]


def compiled(text: str, declared: Stream) -> CompiledQuery:
    catalog = Catalog()
    catalog.add_stream(declared)
    return compile_panes(bind(as_select(text), catalog), one_time=True)


def stored(tuples: pa.Table) -> pa.Table:
    return tuples.rename_columns([*tuples.schema.names[:-1], TIME])


@settings(max_examples=examples(200))
@given(
    parts=batches(disorder=3 * SECOND),
    text=st.sampled_from(FORMS),
    level=st.sampled_from(["serial", "ws", "lws", "ttu"]),
    left=st.booleans(),
    revise=st.booleans(),
    length=st.integers(1, 9),
)
def test_equals_duckdb(parts: list[pa.Table], text: str, level: str, left: bool, revise: bool, length: int) -> None:
    """The answer over the stored rows, by a scan."""
    declared = stream(closed_left=left, late_revise=revise, keep=9 * SECOND)
    query, kept = compiled(text.format(w=f"[WINDOW {length} sec]"), declared), StoredWindow(declared, level)
    assert rows_behind(query, declared).why_spark is None
    latest = START
    for part in parts:
        latest = max([latest, *part["_us"].to_pylist()])
        kept.take(kept.accepted(stored(part)), latest)
        rows = kept.read(length * SECOND)
        if rows is None:
            continue
        table, as_of = answer_folded(query, kept)
        tuples = rows.rows.rename_columns([*rows.rows.schema.names[:-1], "_us"])
        expected = recompute(text.replace("{w}", "[]"), tuples, as_of, length * SECOND, closed_left=left)
        assert as_of == rows.as_of and same_rows(table.to_pylist(), expected, "ORDER BY" in text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT COUNT(*) AS n FROM s [WINDOW 5 sec LAG 2 sec]", "LAG"),
        ("SELECT a.n FROM (SELECT COUNT(*) AS n FROM s [WINDOW 5 sec]) a, (SELECT MAX(v) AS m FROM s [WINDOW 5 sec]) b",
         "several answers"),
        ("SELECT SUM(v + 1) AS t FROM s [WINDOW 5 sec]", "v + 1 is no column"),
        ("SELECT COUNT(*) AS n FROM s [ROWS 5]", "window of rows"),
    ],
)  # fmt: skip
def test_what_is_left_to_spark(text: str, why: str) -> None:
    declared = stream(keep=9 * SECOND)
    found = rows_behind(compiled(text, declared), declared).why_spark
    assert found is not None and why in found


def test_windows_are_made_of_whole_sub_windows() -> None:
    declared = stream(keep=1_200 * SECOND)
    asked = [compiled(f"SELECT COUNT(*) AS n FROM s [WINDOW {length} sec]", declared) for length in (5, 6)]
    why, none = (rows_behind(query, declared).why_spark for query in asked)
    assert why == "its window is no multiple of the sub-windows of 2 sec"
    assert none is None
    far = Stream("s", declared.schema, "ts", keep=9 * SECOND, keep_in=CLUSTER)
    asked_far = compiled("SELECT COUNT(*) AS n FROM s [WINDOW 5 sec]", far)
    assert rows_behind(asked_far, far).why_spark == "its rows are in the cluster"


# -- while the window slides -----------------------------------------------------------------------

WINDOW = 8
EXACT = "SELECT k, SUM(w) AS t, COUNT(*) AS n, AVG(v) AS a FROM s [WINDOW 8 sec] WHERE v >= 0 GROUP BY k ORDER BY k"
SHORT = "SELECT SUM(v) AS t, COUNT(DISTINCT v) AS d FROM s [WINDOW 3 sec]"
EXTREMES = "SELECT k, MIN(v) AS lo, MAX(w) AS hi FROM s [WINDOW 8 sec] GROUP BY k ORDER BY k"
FLOATS = "SELECT k, SUM(x) AS t FROM s [WINDOW 8 sec] GROUP BY k ORDER BY k"
LATEST = ["lws", "ttu"]


def second(number: int) -> pa.Table:
    """The tuples of the second that ends sub-window `number`: three groups, numbers that tell it from others."""
    end = START + number * SECOND
    rows = [(end - i, i % 3, "a", 10 * number + i - 20, number * 2**33 + i, number + i / 4) for i in range(4)]
    return to_table(rows)


@dataclass
class Sliding:
    """A stored window of eight seconds, all that has come to it, and its history."""

    level: str
    revise: bool = False
    tuples: list[pa.Table] = field(default_factory=list)
    youngest: int = 0
    # How much had come when the window had slid to a second.
    marks: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.declared = stream(keep=WINDOW * SECOND, late_revise=self.revise)
        self.recorder = Recorder()
        self.kept = StoredWindow(self.declared, self.level, self.recorder)
        self.slide(2 * WINDOW)

    def slide(self, times: int) -> None:
        for _ in range(times):
            self.youngest += 1
            self.tuples.append(second(self.youngest))
            self.marks[START + self.youngest * SECOND] = len(self.tuples)
            self.kept.take(self.kept.accepted(stored(self.tuples[-1])), START + self.youngest * SECOND + 1)

    def late(self, age: int) -> None:
        """A late tuple for the sub-window of an age; it is the least and the greatest in its group."""
        end = START + (self.youngest - age) * SECOND
        self.tuples.append(to_table([(end - 100, 1, "a", -(10**6), 2**60, 0.5)]))
        self.kept.take(self.kept.accepted(stored(self.tuples[-1])), None)

    def expected(self, text: str, as_of: int, came: int | None = None) -> list[dict[str, Any]]:
        """By all tuples, or by the first that came."""
        length = int(text.split("WINDOW ")[1].split()[0]) * SECOND
        return recompute(text, pa.concat_tables(self.tuples[:came]), as_of, length)

    def is_answer(self, text: str, as_of: int, rows: list[dict[str, Any]]) -> bool:
        """A state as of then: with none, some or all of the late tuples that came before the next slide."""
        last = self.marks.get(as_of + SECOND, len(self.tuples) + 1) - 1
        came = range(self.marks[as_of], last + 1)
        return any(same_rows(rows, self.expected(text, as_of, each), "ORDER BY" in text) for each in came)

    def ask(self, text: str) -> int:
        """As of when; the answer is that of DuckDB over all that had come by then."""
        table, as_of = answer_folded(compiled(text, self.declared), self.kept)
        assert same_rows(table.to_pylist(), self.expected(text, as_of), "ORDER BY" in text)
        return as_of

    @property
    def counts(self) -> tuple[int, int, int]:
        found = self.kept.reads.counts()
        return found["read_restarts"], found["read_undone"], found["read_inserted"]


Event = Callable[[int, Callable[[], None]], None]


@pytest.fixture
def after_adds(monkeypatch: pytest.MonkeyPatch) -> Event:
    """An action on another thread that is over when a number of sub-windows have been added."""
    add, due = RowFold.add, list[list[Any]]()

    def watched(fold: RowFold, rows: pa.Table) -> None:
        add(fold, rows)
        for event in due:
            event[0] -= 1
            if event[0] == 0:
                join(start(event[1]))

    monkeypatch.setattr(RowFold, "add", watched)
    return lambda adds, work: due.append([adds, work])


@pytest.mark.parametrize("level", LATEST)
def test_what_has_left_is_taken_back(level: str, after_adds: Event) -> None:
    """Six of eight sub-windows are read when the window slides by five: at least three of them have left."""
    window = Sliding(level)
    after_adds(6, lambda: window.slide(5))
    assert window.ask(EXACT) == START + window.youngest * SECOND, "as of its end"
    restarts, undone, inserted = window.counts
    assert restarts == 0 and undone >= 3 and inserted == 5
    verdict = classify(window.recorder.history)
    assert verdict.serializable and verdict.lws


@pytest.mark.parametrize("level", LATEST)
def test_a_window_that_goes_away_as_a_whole_is_taken_back(level: str, after_adds: Event) -> None:
    window = Sliding(level)
    after_adds(7, lambda: window.slide(3 * WINDOW))
    assert window.ask(EXACT) == START + window.youngest * SECOND
    assert window.counts == (0, 7, WINDOW) and classify(window.recorder.history).lws


@pytest.mark.parametrize("level", LATEST)
def test_a_shorter_window_takes_back_what_has_left_it(level: str, after_adds: Event) -> None:
    """Three sub-windows of the stored eight, two pane tables: what leaves is in the stored window still."""
    window = Sliding(level)
    after_adds(4, lambda: window.slide(2))
    assert window.ask(SHORT) == START + window.youngest * SECOND
    restarts, undone, _ = window.counts
    assert restarts == 0 and undone >= 1 and classify(window.recorder.history).lws


@pytest.mark.parametrize("level", LATEST)
@pytest.mark.parametrize("text", [EXTREMES, FLOATS])
def test_what_cannot_be_taken_back_is_begun_again(level: str, text: str, after_adds: Event) -> None:
    window = Sliding(level)
    after_adds(6, lambda: window.slide(5))
    after_adds(6 + 6, lambda: window.slide(5))
    assert window.ask(text) == START + window.youngest * SECOND
    restarts, undone, _ = window.counts
    assert restarts == 2 and undone == 0
    verdict = classify(window.recorder.history)
    assert verdict.serializable and verdict.lws


@pytest.mark.parametrize("text", [EXACT, EXTREMES, FLOATS])
def test_under_ws_nothing_is_begun_again_or_taken_back(text: str, after_adds: Event) -> None:
    window = Sliding("ws")
    begun = window.youngest
    after_adds(6, lambda: window.slide(5))
    assert window.ask(text) == START + begun * SECOND, "as of its start"
    assert window.counts == (0, 0, 0) and classify(window.recorder.history).ws


@pytest.mark.parametrize("level", LATEST)
@pytest.mark.parametrize("text", [EXACT, EXTREMES, FLOATS])
def test_late_tuples_are_handed_over(level: str, text: str, after_adds: Event) -> None:
    """They only come: extremes and sums of floats take them in as well (thesis 7.4.3)."""
    window = Sliding(level, revise=True)
    after_adds(WINDOW - 1, lambda: [window.late(age) for age in range(WINDOW)] and None)
    assert window.ask(text) == START + window.youngest * SECOND
    assert window.counts == (0, 0, WINDOW - 1), "the last one is read as it is then"
    assert classify(window.recorder.history).lws


@pytest.mark.parametrize("level", LATEST)
def test_late_tuples_of_what_has_left_are_taken_back_with_it(level: str, after_adds: Event) -> None:
    window = Sliding(level, revise=True)

    def happens() -> None:
        for age in range(WINDOW):
            window.late(age)
        window.slide(3 * WINDOW)

    after_adds(7, happens)
    assert window.ask(EXACT) == START + window.youngest * SECOND
    restarts, undone, _ = window.counts
    assert restarts == 0 and undone == 7 and classify(window.recorder.history).lws


@pytest.mark.parametrize("text", [EXACT, SHORT, EXTREMES])
def test_a_jump_leaves_nothing_of_before_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes on by more than the window, which slides sub-window by sub-window: each state is asked."""
    window, found, slide = Sliding("ttu"), list[tuple[pa.Table, int]](), SharedWindow.slide
    window.youngest += 3 * WINDOW
    window.tuples += [second(window.youngest - age) for age in range(WINDOW)]

    def asked(shared: SharedWindow[Any], new: Any, inserts: Any = None) -> Any:
        left = slide(shared, new, inserts)
        found.append(answer_folded(compiled(text, window.declared), window.kept))
        return left

    monkeypatch.setattr(SharedWindow, "slide", asked)
    for tuples in window.tuples[-WINDOW:]:
        window.kept.take(window.kept.accepted(stored(tuples)), None)
    window.kept.take(window.kept.empty(), START + window.youngest * SECOND + 1)
    assert [as_of for _, as_of in found] == [
        START + (window.youngest - age) * SECOND for age in reversed(range(WINDOW))
    ]
    for table, as_of in found:
        assert same_rows(table.to_pylist(), window.expected(text, as_of), "ORDER BY" in text)


@pytest.mark.parametrize("level", LATEST)
def test_rows_that_are_collected_are_dropped_and_read(level: str) -> None:
    """A selection: nothing is computed again, whatever slides and however late tuples are."""
    window = Sliding(level, revise=True)
    seen: list[int] = []

    def wanted(rows: pa.Table) -> pa.Table:
        seen.append(len(rows))
        if len(seen) == 6:
            join(start(lambda: (window.late(0), window.slide(5))))
        return rows.filter(pa.compute.greater_equal(rows["v"], 0))

    found = window.kept.read(WINDOW * SECOND, wanted)
    assert found is not None and found.as_of == START + window.youngest * SECOND
    text = "SELECT v FROM s [WINDOW 8 sec] WHERE v >= 0"
    assert sorted(found.rows["v"].to_pylist()) == sorted(row["v"] for row in window.expected(text, found.as_of))
    assert found.rows[TIME].to_pylist() == sorted(found.rows[TIME].to_pylist())
    restarts, undone, _ = window.counts
    assert restarts == 0 and undone >= 3 and classify(window.recorder.history).lws


@pytest.mark.parametrize("texts", [[EXACT, SHORT], [EXACT, SHORT, EXTREMES, FLOATS]], ids=["exact", "all"])
@pytest.mark.parametrize("revise", [False, True], ids=["", "late"])
@pytest.mark.parametrize("level", ["serial", "ws", "lws", "ttu"])
def test_threads_ask_while_the_window_slides(level: str, revise: bool, texts: list[str]) -> None:
    """Every answer is that of the window as of its time; what can be taken back is never begun again."""
    window, stop = Sliding(level, revise), threading.Event()

    def ask(text: str) -> list[tuple[int, list[dict[str, Any]]]]:
        query, answers = compiled(text, window.declared), list[tuple[int, list[dict[str, Any]]]]()
        while not stop.is_set() or not answers:
            table, as_of = answer_folded(query, window.kept)
            answers.append((as_of, table.to_pylist()))
        return answers

    with ThreadPoolExecutor(len(texts)) as pool:
        asked = [pool.submit(ask, text) for text in texts]
        for number in range(300):
            window.slide(1)
            if revise and number % 3 == 0:
                window.late(number % WINDOW)
        stop.set()
        found = [each.result(PATIENCE) for each in asked]
    for text, answers in zip(texts, found, strict=True):
        assert all(window.is_answer(text, *each) for each in answers[:: max(1, len(answers) // 20)])
    verdict = classify(window.recorder.history)
    assert verdict.serializable and verdict.ws and (verdict.lws or level == "ws")
    aborted = {each.transaction for each in window.recorder.history.operations if each.kind == "a"}
    undone = {each.transaction for each in window.recorder.history.operations if each.kind == "u"}
    assert not undone & aborted
    assert EXTREMES in texts or (window.counts[0] == 0 and not aborted)


# -- EXPLAIN ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "way", "sliding"),
    [
        (EXACT, "sub-window by sub-window over the stored rows", "taken back"),
        (EXTREMES, "sub-window by sub-window over the stored rows", "restarted, because MIN(v) cannot be taken back"),
        (FLOATS, "sub-window by sub-window over the stored rows", "restarted, because SUM(x) cannot be taken back"),
        ("SELECT MAX(g) AS m FROM s [WINDOW 8 sec]", "by a pass on Spark over the stored rows", "dropped before Spark"),
    ],
)
def test_explain_says_which_way_it_goes(text: str, way: str, sliding: str) -> None:
    declared = stream(keep=WINDOW * SECOND)
    shown = explaining.explain(compiled(text, declared), StreamRuntime(declared, Settings()))
    assert f"One-time: {way} (KEEP 8 sec)" in shown
    assert f"if a sub-window that was read leaves the window: {sliding}" in shown
