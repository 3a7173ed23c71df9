"""The demo's view with a session of straw: it must fit the terminal at every moment of the demo."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from rich.console import Console

from sash.cli.demo import closing_words, plain_line
from sash.cli.demo_stream import FLOODERS, demo_queries, dotted, expansion
from sash.cli.demo_view import DemoView, Pulse
from tests.cli.examples import answer, moment

FLOODER = (10 << 24) + 7
COLUMNS = {
    "src": FLOODER,
    "dst": 10 << 24,
    "protocol": "TCP",
    "port": 443,
    "average": 1.5,
    "deviation": None,
    "largest": 9,
}


class Straw:
    """As much of a session as the view asks for."""

    def __init__(self, seconds: int, flood: bool = False) -> None:
        self.seconds = seconds
        self.queries = {name: self._query(name, text, flood) for name, text in demo_queries(1000).items()}

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
            "executions": 70,
            "joint_executions": 40,
            "work_saved": 0.4,
            "streams": {
                "packets": {
                    "micro_batches": self.seconds,
                    "seconds_in_spark": 0.5 * self.seconds,
                    "seconds_in_sash": 0.01 * self.seconds,
                    "watermark": moment(self.seconds) if self.seconds else None,
                    "pane_tables": [{"rows": 100}, {"rows": 50}],
                }
            },
        }


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20), (200, 60)])
@pytest.mark.parametrize("seconds", [0, 1, 30, 500])
def test_it_fits(size, seconds):
    width, height = size
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(DemoView(Straw(seconds), 30, Pulse()))
    lines = captured.get().splitlines()
    assert len(lines) <= height and all(len(line) <= width for line in lines)


def shown(session):
    console = Console(width=80, height=24, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(DemoView(session, 30, Pulse()))
    return captured.get()


def test_before_the_first_tuple_the_queries_are_shown():
    assert "top_talkers_10s" in shown(Straw(0)) and "WINDOW" in shown(Straw(0))


def test_a_flood_is_announced():
    assert "flood" not in shown(Straw(30))
    assert f"flood from {dotted(FLOODER)} (180 packets/s)" in shown(Straw(30, flood=True))


def test_a_plain_line():
    session = Straw(30, flood=True)
    line = plain_line(session, Pulse().take(session.stats()))
    assert line.startswith("  30 s") and line.endswith(f"FLOOD from {dotted(FLOODER)}") and "40% work saved" in line


def test_closing_words_compare_with_separate_jobs():
    queries = {
        "a": "SELECT 1 FROM p [WINDOW 10 sec SLIDE 2 sec]",
        "b": "SELECT 1 FROM p [WINDOW 4 sec SLIDE 4 sec] WHERE x",
    }
    words = closing_words(Straw(30).stats(), queries, 31.0)
    assert "tuples read          30,000          60,000" in words
    assert "rows to aggregate    60,000          at least 150,000" in words


def test_nothing_is_compared_when_nothing_was_read():
    assert "nothing to compare" in closing_words(Straw(0).stats(), demo_queries(1000), 3.0)


def test_the_queries_are_about_twenty_at_several_time_scales():
    queries = demo_queries(20_000)
    assert 18 <= len(queries) <= 24
    assert len({text.split("[")[1].split("]")[0] for text in queries.values()}) >= 10
    assert max(map(expansion, queries.values())) >= 10
