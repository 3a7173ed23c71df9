"""The demo's view with a session of straw: it must fit the terminal at every moment of the demo."""

import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest
from rich.console import Console

from sash.cli.demo import DemoRun, plain_line
from sash.cli.demo_jobs import JobRates
from sash.cli.demo_stream import FLOODERS, QUERIES, demo_queries, dotted, overview
from sash.cli.demo_table import closing_table
from sash.cli.demo_view import DemoStage, DemoView, Pulse
from sash.core.time import SECOND
from sash.core.window import TimeWindow
from tests.cli.examples import answer

FLOODER = (10 << 24) + 7
COLUMNS = {
    "src": FLOODER,
    "dst": 10 << 24,
    "protocol": "TCP",
    "port": 443,
    "average": 1.5,
    "largest": 9,
}


class Straw:
    """As much of a session as the view asks for."""

    def __init__(self, seconds: int, flood: bool = False) -> None:
        self.seconds = seconds
        texts = {query.name: query.text for query in demo_queries(1000)[: QUERIES[0]]}
        self.queries = {name: self._query(name, text, flood) for name, text in texts.items()}

    def _query(self, name, text, flood):
        columns = [column for column in COLUMNS if f"{column}" in text.split(" FROM ")[0]]
        row = {column: COLUMNS[column] for column in columns} | {"bytes": 1_500_000, "packets": 900}
        rows = [] if name == FLOODERS and not flood else [row] * (10 if "LIMIT" in text else 1)
        table = pa.Table.from_pylist(rows, schema=pa.Table.from_pylist([row]).schema)
        answers = [answer(second + 1, name) for second in range(self.seconds)]
        answers = [SimpleNamespace(as_of=each.as_of, table=table) for each in answers]
        return SimpleNamespace(
            name=name, text=text, answers=lambda: answers, latest=lambda: answers[-1] if answers else None
        )

    def stats(self):
        return {
            "tuples": self.seconds * 1000,
            "refreshes": 120,
            "work_saved": 0.994,
            "work": {
                "shared": work(1, 1000 * self.seconds),
                "separate": work(len(self.queries), 200_000 * self.seconds),
            },
            "streams": {
                "packets": {
                    "micro_batches": self.seconds,
                    "seconds_in_spark": 0.5 * self.seconds,
                    "seconds_in_sash": 0.01 * self.seconds,
                }
            },
        }


def work(passes, rows):
    rest = ("tuples_read", "rows_expanded", "rows_aggregated", "state_rows", "executions")
    return {"passes": passes, **dict.fromkeys(rest, rows)}


def vitals(session):
    return Pulse().take(session.stats())


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20), (200, 60)])
@pytest.mark.parametrize("seconds", [0, 1, 30, 500])
def test_it_fits(size, seconds):
    width, height = size
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        session = Straw(seconds)
        console.print(DemoView(session, 30, lambda: vitals(session)))
    lines = captured.get().splitlines()
    assert len(lines) <= height and all(len(line) <= width for line in lines)


def shown(session):
    console = Console(width=80, height=24, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(DemoView(session, 30, lambda: vitals(session)))
    return captured.get()


def test_before_the_first_tuple_the_queries_are_shown():
    assert "top_talkers_10s" in shown(Straw(0)) and "WINDOW" in shown(Straw(0))


def test_a_flood_is_announced():
    assert "flood" not in shown(Straw(30))
    assert f"flood from {dotted(FLOODER)} (180 packets/s)" in shown(Straw(30, flood=True))


def test_a_plain_line():
    session = Straw(30, flood=True)
    line = plain_line(session, vitals(session))
    assert line.startswith("  0 s   200 queries  micro-batch  510 ms |█████▏    |")
    assert line.endswith(f"FLOOD from {dotted(FLOODER)}") and "99.4% work saved" in line


def closing(session, jobs=None):
    console = Console(width=100, color_system=None)
    stages = [DemoStage(200, 0.25, 0.2, 0.05, 70.0, 80_000.0), DemoStage(800, 0.26, 0.2, 0.06, 280.0, 77_000.0)]
    with console.capture() as captured:
        console.print(closing_table(session.stats(), stages, jobs))
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def test_the_closing_table_compares_with_separate_jobs():
    lines = closing(Straw(30))
    assert "passes over the source 1 200 200" in lines and "rows expanded 30,000 6,000,000 200" in lines
    assert "work saved 99.4%" in lines
    assert "200 250 ms 200 ms 50 ms 70" in lines and "800 260 ms 200 ms 60 ms 280" in lines
    assert not any("Spark jobs" in line for line in lines)


def test_the_closing_table_shows_both_rates():
    lines = closing(Straw(30), JobRates(4, 1.3, 77_000.0))
    assert "one after the other Sash Spark jobs" in lines
    assert "queries served 800 4" in lines and "micro-batch 260 ms 1,300 ms" in lines
    assert "packets/s x queries 61.6 M 77.0 k" in lines and "times faster 800" in lines


def test_nothing_is_compared_when_nothing_was_read():
    assert "nothing to compare" in closing(Straw(0))[0]


def test_the_queries_are_different_and_of_many_time_scales():
    queries = demo_queries(20_000)
    assert len(queries) == len({query.text for query in queries}) == len({query.name for query in queries}) == 800
    assert len({query.spark_text for query in queries}) == 800 and queries[:10] == overview(20_000)
    windows = [TimeWindow(query.window * SECOND, query.slide * SECOND) for query in queries[: QUERIES[0]]]
    assert len(set(windows)) >= 20 and max(window.per_tuple for window in windows) >= 50
    assert all(query.slide <= query.window for query in queries)


def test_micro_batches_are_counted_by_their_queries():
    pulse, session = Pulse(), Straw(1)
    pulse.take(session.stats())
    session.seconds = 3
    pulse.take(session.stats())
    assert [(each.queries, each.in_spark, each.tuples, each.answers) for each in pulse.samples] == [
        (200, 0.5, 1000, 120),
        (200, 0.5, 1000, 0),
    ]
    assert [stage.queries for stage in pulse.stages(QUERIES)] == [200]


class Registering(Straw):
    """A session of straw that takes queries; its clock is the number of looks."""

    def __init__(self):
        super().__init__(0)
        self.queries = {}

    def register(self, text, name):
        self.queries[name] = text

    def wait(self, timeout):
        self.seconds += 1
        return False


def test_the_queries_double_at_each_third_of_the_time():
    session = Registering()
    run = DemoRun(session, demo_queries(1000), 30, threading.Event(), lambda: session.seconds)
    run.grow()
    numbers = [len(session.queries)]
    while not run.look():
        numbers.append(len(session.queries))
    assert [numbers.count(each) for each in QUERIES] == [11, 11, 11], "a third each, from the first micro-batch on"
    assert list(session.queries) == [query.name for query in demo_queries(1000)]
