"""The memory of holistic aggregates, row-based and unbounded windows: bounded, and the same after 50 windows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from sash.core.time import SECOND
from sash.panes.basic_interval import MOST_UNMERGED
from sash.panes.partitioned import LEAST_DROPPED
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.stream_runtime import StreamRuntime
from tests.support.feed import Feed, compiled
from tests.support.journal import written
from tests.support.streams import SCHEMA, START, stream

WINDOWS = 50
# One pane is a second and one micro-batch. Dictionaries up to 1024 entries are never compacted, so panes are large.
PANES = 2
PER_PANE = 700


def tuples(second: int, v: list[int], k: list[int] | None = None, g: list[str] | None = None) -> pa.Table:
    """Some tuples of one second, evenly apart."""
    stamps = [START + second * SECOND + 1 + i * SECOND // (len(v) + 1) for i in range(len(v))]
    nothing: list[Any] = [None] * len(v)
    columns: list[list[Any]] = [stamps, k or nothing, g or nothing, v, nothing, nothing]
    table = pa.table([pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return table.append_column("_us", table["ts"].cast(pa.int64()))


class Watched:
    """A feed whose rows, groups and saved state are written down after every micro-batch."""

    def __init__(self, texts: dict[str, str], synopsis: str | None = None) -> None:
        self.feed = Feed(stream())
        self.feed.runtime.synchronise(compiled(texts, self.feed.declared, synopsis))
        self.rows: list[int] = []
        self.groups: list[int] = []
        self.saved: list[int] = []
        self.latest: dict[str, Answer] = {}

    def push(self, part: pa.Table) -> None:
        for answer in self.feed.push(part):
            self.latest[answer.query] = answer
        groups = self.feed.runtime.groups.values()
        self.rows.append(sum(group.panes.rows for group in groups))
        self.groups.append(max(group.panes.groups for group in groups))

    def save(self) -> None:
        self.saved.append(saved_bytes(self.feed.runtime))

    def run(self, part: Callable[[int], pa.Table], seconds: int = WINDOWS * PANES) -> None:
        for second in range(seconds):
            self.push(part(second))
            if second % PANES == 0:
                self.save()

    def check_steady(self) -> None:
        """The greatest of the second half is no greater than that of the first, once the window is full."""
        for seen in (self.rows, self.groups, self.saved):
            half = len(seen) // 2
            # Numbers in the saved state get longer: a digit more now and then is no growth.
            assert max(seen[half:]) <= 1.02 * max(seen[:half])


def peaks(sizes: list[tuple[int, ...]]) -> list[int]:
    return [max(column) for column in zip(*sizes, strict=True)]


def saved_bytes(runtime: StreamRuntime) -> int:
    snapshot = written(stream_snapshot.save(runtime))
    return len(json.dumps(snapshot.state)) + sum(table.nbytes for table in snapshot.tables)


OF_ONE_TABLE = {
    "distinct": "SELECT COUNT(DISTINCT v) AS a FROM s {w}",
    "quantiles": "SELECT MEDIAN(v) AS a, QUANTILE(v, 0.9) AS b, MODE(v) AS c FROM s {w}",
    "top": "SELECT TOP(3, v) FROM s {w}",
    "heavy": "SELECT TOP(3, v, SUM(v)) FROM s {w}",
    "histogram": "SELECT HISTOGRAM(v) FROM s {w}",
    "frequent": "SELECT FREQUENT(3, v) FROM s {w}",
    "point": "SELECT MODE(v) AS m, COUNT_MIN(v, 7) AS a FROM s {w}",
}
BY_COUNTERS = {"counters": "SELECT COUNT_MIN(v, 7) AS a FROM s {w}"}
GROUPED = {"grouped": "SELECT k, COUNT(DISTINCT v) AS a, MAX(v) AS b FROM s {w} WHERE v % 2 = 0 GROUP BY k"}


@pytest.mark.parametrize("texts", [OF_ONE_TABLE, GROUPED, BY_COUNTERS], ids=["one table", "grouped", "counters"])
def test_ever_new_values(texts: dict[str, str]) -> None:
    """Each value comes twice, in one second, and never again: a row per value and pane, and no more."""
    window = f"[WINDOW {PANES} sec SLIDE 1 sec]"
    watched = Watched({name: text.format(w=window) for name, text in texts.items()})

    def part(second: int) -> pa.Table:
        fresh = range(second * PER_PANE, (second + 1) * PER_PANE)
        values = [value for value in fresh for _ in range(2)]
        return tuples(second, values, [value % 3 for value in values])

    watched.run(part)
    watched.check_steady()
    # The open pane lies beside those of the window; MAX(v) by k has a pane table of its own; a value has two counters.
    plain = 3 if texts is GROUPED else PER_PANE if texts is BY_COUNTERS else 0
    assert max(watched.rows) <= (PANES + 1) * (PER_PANE + plain)
    assert watched.feed.runtime.active.keys() == texts.keys()


@pytest.mark.parametrize("synopsis", ["running", "interval", "landmark"])
def test_ever_new_values_beside_the_panes(synopsis: str) -> None:
    """Another synopsis over the same panes gives its groups back as well."""
    text = f"SELECT COUNT(DISTINCT v) AS a FROM s [WINDOW {PANES} sec SLIDE 1 sec]"
    watched, widths = Watched({"q": text}, synopsis), []
    for second in range(WINDOWS):
        watched.push(tuples(second, list(range(second * PER_PANE, (second + 1) * PER_PANE))))
        (group,) = watched.feed.runtime.groups.values()
        widths += [each.groups for each in group.panes.accelerators]
        if second > PANES:
            assert watched.latest["q"].table.to_pylist() == [{"a": PANES * PER_PANE}]
    assert max(widths[len(widths) // 2 :]) <= max(widths[: len(widths) // 2])


def test_few_values_take_a_row_each_however_many_tuples() -> None:
    watched = Watched({"q": f"SELECT MEDIAN(v) AS m, COUNT(DISTINCT v) AS d FROM s [WINDOW {PANES} sec SLIDE 1 sec]"})
    watched.run(lambda second: tuples(second, [i % 7 for i in range(1000)]), seconds=40)
    assert max(watched.rows) == (PANES + 1) * 7
    assert max(watched.groups) == 7
    assert watched.latest["q"].table.to_pylist() == [{"m": 3.0, "d": 7}]


def test_ever_new_strings() -> None:
    watched = Watched({"q": f"SELECT COUNT(DISTINCT g) AS d, MODE(g) AS m FROM s [WINDOW {PANES} sec SLIDE 1 sec]"})
    watched.run(
        lambda second: tuples(second, [0] * PER_PANE, g=[f"{second * PER_PANE + i:09d}" for i in range(PER_PANE)])
    )
    watched.check_steady()
    assert max(watched.rows) == (PANES + 1) * PER_PANE


def test_ever_new_values_after_a_gap() -> None:
    """A gap of several windows: the next tuples forget the panes before it."""
    watched = Watched({"q": f"SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW {PANES} sec SLIDE 1 sec]"})
    for second in range(0, 60 * PANES, 3 * PANES):
        values = list(range(second * PER_PANE, (second + 1) * PER_PANE))
        watched.push(tuples(second, values))
        watched.save()
        assert watched.rows[-1] <= 2 * PER_PANE
    watched.check_steady()


def test_rows() -> None:
    """Of the last 1,000 rows in panes of 250, at most the open pane more is kept."""
    texts = {
        "d": "SELECT COUNT(DISTINCT v) AS d FROM s [ROWS 1000 SLIDE 250]",
        "t": "SELECT TOP(2, v) FROM s [ROWS 1000 SLIDE 250]",
    }
    watched = Watched(texts)
    watched.run(lambda second: tuples(second, list(range(second * 1000, (second + 1) * 1000))), seconds=2 * WINDOWS)
    watched.check_steady()
    assert max(watched.rows) <= 1250
    assert watched.latest["d"].table.to_pylist() == [{"d": 1000}]
    stamps = [len(group.clock.stamps.save()[0]) for group in watched.feed.runtime.groups.values()]
    assert max(stamps) <= 6


def test_partitions_that_stay() -> None:
    """The last 5 rows of each of 200 partitions; rows that are out of reach are dropped in the lump."""
    watched = Watched(
        {"q": "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM s [PARTITION BY k ROWS 5 SLIDE 100] GROUP BY k"}
    )
    watched.run(lambda second: tuples(second, [second] * PER_PANE, [i % 200 for i in range(PER_PANE)]), seconds=WINDOWS)
    watched.check_steady()
    kept = 200 * 5
    tables = len(watched.feed.runtime.groups)
    assert max(watched.rows) <= tables * (kept + max(LEAST_DROPPED, kept) + PER_PANE)
    assert {row["n"] for row in watched.latest["q"].table.to_pylist()} == {5}


def test_ever_new_partitions_grow_by_their_nature() -> None:
    """n rows of every partition that ever was, and no more: a partition never ends."""
    seen: Counter[int] = Counter()
    watched = Watched({"q": "SELECT k, COUNT(*) AS n FROM s [PARTITION BY k ROWS 3 SLIDE 50] GROUP BY k"})

    def part(second: int) -> pa.Table:
        # Fifty partitions of this second, five times each; every second one of the last second comes once more.
        keys = [*range(second * 50, second * 50 + 50)] * 5 + [*range(max(0, second - 1) * 50, second * 50, 2)]
        seen.update(keys)
        return tuples(second, [1] * len(keys), keys)

    watched.run(part, seconds=80)
    watched.feed.finish()
    (group,) = watched.feed.runtime.groups.values()
    kept = sum(min(3, count) for count in seen.values())
    stored = Counter(group.panes.to_table()["key0"].to_pylist())
    assert all(stored[key] >= min(3, count) for key, count in seen.items())
    assert kept <= group.panes.rows <= kept + max(LEAST_DROPPED, kept) + 300
    assert len(watched.latest["q"].table) >= 79 * 50


def test_unbounded_windows_keep_few_panes() -> None:
    texts = {
        "a": "SELECT k, SUM(v) AS t, MAX(v) AS m, AVG(v) AS a FROM s [UNBOUNDED SLIDE 1 sec] GROUP BY k",
        "b": "SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 2 sec LAG 5 sec] GROUP BY k",
    }
    watched, panes = Watched(texts), []
    for second in range(120):
        watched.push(tuples(second, [second] * 6, [i % 3 for i in range(6)]))
        (group,) = watched.feed.runtime.groups.values()
        panes.append(group.panes.panes)
    # The panes of the lag, those that gather before they are merged, and the merged ones.
    assert max(panes) <= MOST_UNMERGED + 5 + 2
    assert max(watched.rows) <= 3 * (max(panes) + 1)
    assert watched.latest["a"].table.column("t").to_pylist() == [2 * sum(range(119))] * 3


def test_unbounded_distinct_values_are_kept_once() -> None:
    """A value that comes in every pane is one row of the merged panes, and one of each that is not merged."""
    watched = Watched({"q": "SELECT COUNT(DISTINCT v) AS d FROM s [UNBOUNDED SLIDE 1 sec]"})
    for second in range(120):
        watched.push(tuples(second, [*range(50), 1000 + second]))
        assert watched.rows[-1] <= (50 + second + 1) + (MOST_UNMERGED + 2) * 51
    assert watched.latest["q"].table.to_pylist() == [{"d": 50 + 119}]


def test_finer_and_coarser_neighbours_leave_nothing_behind() -> None:
    """Queries that come and go, with panes cut anew each time: no rest of them stays."""
    declared = stream()
    feed = Feed(declared)
    stays = compiled({"stays": "SELECT COUNT(DISTINCT v) AS d FROM s [WINDOW 2 sec SLIDE 2 sec]"}, declared)
    sizes = []
    for second in range(WINDOWS * PANES):
        comes = compiled(
            {f"n{second}": f"SELECT HISTOGRAM(v) FROM s [WINDOW {1 + second % 3} sec SLIDE 1 sec]"}, declared
        )
        feed.runtime.synchronise([*stays, *comes] if second % 2 else stays)
        feed.push(tuples(second, list(range(second * PER_PANE, (second + 1) * PER_PANE))))
        (group,) = feed.runtime.groups.values()
        sizes.append((group.panes.rows, group.panes.groups, len(group.clock.coarse), saved_bytes(feed.runtime)))
    half = len(sizes) // 2
    for now, before in zip(peaks(sizes[half:]), peaks(sizes[:half]), strict=True):
        assert now <= 1.02 * before
