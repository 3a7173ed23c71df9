"""Which synopsis is chosen and when it changes; answers stay right whatever is chosen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.core.time import SECOND, to_micros
from sash.core.window import FOREVER
from sash.panes import basic_interval
from sash.panes.readings import Reading
from sash.runtime.answers.answer import Answer
from sash.sharing import choose as module
from sash.sharing.choose import Load, SynopsisChoice, access_cost, check_synopsis, choose
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.oracle import recompute, same_rows
from tests.support.streams import START, stream, to_table


@cache
def readings_of(text: str) -> tuple[Reading, ...]:
    (query,) = compiled({"q": text}, stream())
    return query.readings


def readings(*texts: str) -> list[Reading]:
    """What some queries read."""
    return [reading for text in texts for reading in readings_of(text)]


def windows(count: int, longest: int, aggregate: str = "SUM(v)", slide: int = 1) -> list[Reading]:
    """So many windows of different lengths over panes of a second, the longest of `longest` panes."""
    form = "SELECT k, {} AS a FROM s [WINDOW {} sec SLIDE {} sec] GROUP BY k"
    return readings(*(form.format(aggregate, longest - i, slide) for i in range(count)))


PANE = Load(SECOND)


def test_a_window_without_end_is_one_pane_that_grows() -> None:
    """Its values are read, whatever the synopsis, and no others."""
    grown = readings("SELECT k, SUM(v) AS a FROM s [UNBOUNDED SLIDE 1 sec] GROUP BY k")
    components = sum(len(partial.dtypes) for reading in grown for partial in reading.partials)
    for kind in ("basic", "interval"):
        costs = [access_cost(grown, kind, Load(SECOND, groups=groups, rows_per_pane=groups)) for groups in (10, 110)]
        assert costs[1] - costs[0] == 100 * components


# -- by cost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("panes", [64, 1024, 4096])
def test_interval_up_to_the_break_even(panes: int) -> None:
    """Few windows are looked up; from b / log2 b windows on one scan costs less (thesis 8.3.1)."""
    limit = math.ceil(panes / math.log2(panes))
    assert choose(windows(1, panes, "SUM(x)"), PANE).kind == "interval"
    over = choose(windows(limit, panes, "SUM(x)"), PANE)
    assert over.kind == "basic"
    assert f"{limit} windows over {panes} panes: from {limit} on (b / log2 b) one scan costs less" in over.reason
    assert "b / log2 b" not in choose(windows(limit - 1, panes, "SUM(x)"), PANE).reason


@pytest.mark.parametrize("panes", [64, 1024, 4096])
def test_landmarks_where_they_cost_least(panes: int) -> None:
    """Two values per lookup, and a few more updates for each set of widths; not for sums of floats."""
    choice = choose(windows(1, panes, "MAX(v)"), PANE)
    assert choice.kind == "landmark" and choice.reason.startswith("1 window: 4 values per pane and group")
    many = choose(windows(panes // 2 - 1, panes, "MAX(v)"), PANE)
    assert many.kind in ("landmark", "basic")
    assert choose(windows(panes // 2, panes, "MAX(v)"), PANE).kind == "basic"
    refused = choose(windows(panes // 2, panes, "SUM(x)"), PANE)
    assert "landmark refused: sums of floats would depend on where the landmarks lie" in refused.reason
    assert choose(windows(1, panes, "SUM(v)"), PANE).kind == "running", "the cheapest of all"


@pytest.mark.parametrize("panes", [64, 500])
def test_running_up_to_half_the_panes(panes: int) -> None:
    """Two values per window, whatever its length: sums of whole numbers only."""
    few = choose(windows(2, panes), PANE)
    assert few.kind == "running"
    assert f"by scanning {panes} panes" in few.reason
    over = choose(windows(panes // 2, panes), PANE)
    assert over.kind == "basic"
    assert f"from {panes // 2} on (b / 2) one scan costs less" in over.reason


@pytest.mark.parametrize("aggregate", ["SUM(v)", "MAX(v)"])
def test_more_windows_never_bring_lookups_back(aggregate: str) -> None:
    kinds = [choose(windows(count, 256, aggregate), PANE).kind for count in range(1, 150, 4)]
    assert kinds[0] != "basic"
    first = kinds.index("basic")
    assert set(kinds[first:]) == {"basic"}


def test_a_short_window_is_scanned() -> None:
    for aggregate in ("SUM(v)", "MAX(v)"):
        assert choose(windows(1, 1, aggregate), PANE).kind == "basic"
        assert choose(windows(1, 4, aggregate), PANE).kind == "basic"


def test_the_cost_includes_the_schedule() -> None:
    """A long window that is asked for seldom costs little to scan: lookups would have to be kept up all the time."""
    assert choose(windows(1, 600, slide=1), PANE).kind == "running"
    assert choose(windows(1, 600, slide=600), PANE).kind == "basic"
    assert "saves too little" in choose(windows(1, 600, slide=600), PANE).reason


def test_equal_windows_count_once() -> None:
    """A hundred queries over one window are one lookup."""
    assert choose(windows(1, 64) * 100, PANE).kind == "running"


def test_nothing_but_the_panes_for_partitions_and_unbounded_windows() -> None:
    for window in ("[UNBOUNDED SLIDE 1 sec]", "[PARTITION BY k ROWS 9 SLIDE 1]"):
        assert choose(readings(f"SELECT SUM(v) AS a FROM s {window}"), Load(1)).kind == "basic"
    # Beside a bounded window they do not matter.
    both = readings(
        "SELECT SUM(v) AS a FROM s [UNBOUNDED SLIDE 1 sec]", "SELECT SUM(v) AS a FROM s [WINDOW 600 sec SLIDE 1 sec]"
    )
    assert choose(both, PANE).kind == "running"
    assert choose([], PANE).kind == "basic"


def test_rows_are_counted_as_seconds_are() -> None:
    long = readings("SELECT SUM(v) AS a FROM s [ROWS 1000 SLIDE 1]")
    assert choose(long, Load(1)).kind == "running"
    assert choose(long, Load(500)).kind == "basic"


# -- what it depends on ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "aggregate", ["MAX(v)", "MIN(w)", "SUM(x)", "AVG(x)", "MAX(x)", "SUM(v) + MAX(v)", "STDDEV(v)", "MAX(g)"]
)
def test_running_is_for_sums_of_exact_numbers(aggregate: str) -> None:
    """Floats never subtract, extremes cannot be taken back; one such partial is enough."""
    assert choose(windows(1, 1000, aggregate), PANE).kind != "running"
    with pytest.raises(SashError, match="a running synopsis cannot answer this query"):
        check_synopsis("running", windows(1, 1000, aggregate))


def test_memory() -> None:
    """A vector over all groups for each pane must fit."""
    one = windows(1, 1000)
    assert choose(one, Load(SECOND, 1000, 1000.0)).kind == "running"
    much = choose(one, Load(SECOND, 100_000, 100_000.0))
    assert much.kind == "basic" and "too much memory for 100000 groups" in much.reason


def test_sparse_panes_are_cheap_to_scan() -> None:
    """A dense vector has all groups, a pane only those that it saw."""
    one = windows(1, 100)
    assert choose(one, Load(SECOND, 1000, 1000.0)).kind == "running"
    sparse = choose(one, Load(SECOND, 1000, 10.0))
    assert sparse.kind == "basic" and "one scan costs less" in sparse.reason


@given(
    st.integers(1, 40),
    st.integers(1, 2000),
    st.sampled_from(["SUM(v)", "MAX(v)", "SUM(x)", "COUNT(*)", "VARIANCE(v)", "MIN(g)"]),
    st.integers(1, 5000),
    st.floats(0.01, 1.0),
)
@settings(max_examples=examples(40))
def test_what_is_chosen_is_never_refused(count: int, longest: int, aggregate: str, groups: int, density: float) -> None:
    asked = windows(min(count, longest), longest, aggregate)
    choice = choose(asked, Load(SECOND, groups, max(1.0, groups * density)))
    check_synopsis(choice.kind, asked)
    assert choice.reason
    # The same question has the same answer.
    assert choose(asked, Load(SECOND, groups, max(1.0, groups * density))) == choice


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "select", "window", "why"),
    [
        ("running", "MAX(v) AS a", "WINDOW 9 sec SLIDE 1 sec", "MAX is not subtractable"),
        ("running", "SUM(v) AS a, MIN(v) AS b", "ROWS 9 SLIDE 1", "MIN is not subtractable"),
        ("running", "SUM(x) AS a", "WINDOW 9 sec SLIDE 1 sec", "float sums are never taken by subtraction"),
        ("running", "TOP(2, k, SUM(x))", "WINDOW 9 sec SLIDE 1 sec", "float sums are never taken by subtraction"),
        ("interval", "STDDEV(v) AS a", "WINDOW 9 sec SLIDE 1 sec", "combines more than one number at a time"),
        ("landmark", "MAX(g) AS a", "WINDOW 9 sec SLIDE 1 sec", "compares values through a dictionary"),
        (
            "interval",
            "APPROX_COUNT_DISTINCT(v) AS a",
            "WINDOW 9 sec SLIDE 1 sec",
            "combines more than one number at a time",
        ),
        ("running", "APPROX_TOP(3, v)", "WINDOW 9 sec SLIDE 1 sec", "combines more than one number at a time"),
        ("running", "SUM(v) AS a", "UNBOUNDED SLIDE 1 sec", "cannot answer UNBOUNDED windows"),
        ("interval", "SUM(v) AS a", "PARTITION BY k ROWS 3 SLIDE 1", "cannot answer PARTITION BY windows"),
        ("heap", "SUM(v) AS a", "ROWS 3 SLIDE 1", "unknown synopsis 'heap'; known: basic, running, interval, landmark"),
    ],
)
def test_impossible_pairs_are_refused_when_planned(kind: str, select: str, window: str, why: str) -> None:
    (query,) = compiled({"q": f"SELECT {select} FROM s [{window}]"}, stream(), kind)
    with pytest.raises(SashError, match=re.escape(why)):
        query.check()


def test_several_windows_are_refused_if_one_of_them_is() -> None:
    text = (
        "SELECT a.t, b.m FROM (SELECT SUM(v) AS t FROM s [WINDOW 9 sec SLIDE 1 sec]) a "
        "CROSS JOIN (SELECT MAX(v) AS m FROM s [WINDOW 3 sec SLIDE 1 sec]) b"
    )
    (query,) = compiled({"q": text}, stream(), "running")
    with pytest.raises(SashError, match="MAX is not subtractable"):
        query.check()


# -- in the engine: the choice follows the workload, nothing is lost ---------------------------------------


WINDOW = re.compile(r"\[(?:WINDOW (\d+) sec|UNBOUNDED) SLIDE (\d+) sec(?: LAG (\d+) sec)?\]")


class Workload:
    """A feed whose queries come and go; every complete answer is compared with recomputation from all tuples."""

    def __init__(self, **clauses: Any) -> None:
        self.declared = stream(**clauses)
        self.feed = Feed(self.declared)
        self.tuples = to_table([])
        self.checked = 0
        self._known: dict[tuple[str, str | None], Any] = {}

    def ask(self, texts: Iterable[tuple[str, str | None]]) -> None:
        """These queries from now on, each with the synopsis that it insists on."""
        for text, synopsis in texts:
            if (text, synopsis) not in self._known:
                (query,) = compiled({f"{synopsis or 'auto'}: {text}": text}, self.declared, synopsis)
                query.check()
                self._known[text, synopsis] = query
        self.feed.runtime.synchronise([self._known[each] for each in texts])

    def push(self, rows: list[tuple[Any, ...]]) -> list[Answer]:
        part = to_table(rows)
        self.tuples = pa.concat_tables([self.tuples, part])
        answers = self.feed.push(part)
        for answer in answers:
            self.check(answer)
        return answers

    def check(self, answer: Answer) -> None:
        if not answer.complete:
            return
        text = answer.query.split(": ", 1)[1]
        found = WINDOW.search(text)
        assert found is not None
        length = int(found[1]) * SECOND if found[1] else FOREVER
        theirs = recompute(text, self.tuples, to_micros(answer.as_of), length, int(found[3] or 0) * SECOND)
        ours = answer.table.to_pylist()
        assert same_rows(ours, theirs), (answer.query, answer.as_of, self.choices, ours, theirs)
        self.checked += 1

    @property
    def choices(self) -> list[SynopsisChoice]:
        return [group.choices.choice for group in self.feed.runtime.ordered()]

    @property
    def kinds(self) -> list[str]:
        """What stands beside the panes now."""
        accelerators = [each for group in self.feed.runtime.ordered() for each in group.panes.accelerators]
        return [each.kind for each in accelerators]


def second(at: float, keys: Iterable[int], v: int = 1) -> list[tuple[Any, ...]]:
    return [(START + round(at * SECOND) + 1, k, None, v + k, None, None) for k in keys]


def lengths(count: int) -> list[tuple[str, None]]:
    form = "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW {} sec SLIDE 1 sec] GROUP BY k"
    return [(form.format(48 - i), None) for i in range(count)]


def test_the_choice_changes_with_the_workload() -> None:
    """One long window is looked up; many are scanned together; when they go, lookups come back."""
    workload, kinds = Workload(), []
    for at in range(130):
        workload.ask(lengths(20 if 60 <= at < 75 else 1))
        workload.push(second(at, range(4), at))
        kinds.append(workload.kinds)
    assert kinds[50] == ["running"] and kinds[70] == [] and kinds[129] == ["running"]
    # Of the windows that came, those that reach back no further than the long one are complete at once.
    assert workload.checked > 80 + 15 * 19
    (group,) = workload.feed.runtime.groups.values()
    clock = group.clock
    assert clock.retained_from is not None and clock.now is not None and clock.now - clock.retained_from == 48 * SECOND


def test_the_choice_survives_late_tuples() -> None:
    """Closed panes that are revised are built into the other synopses anew."""
    workload = Workload(late_revise=True)
    texts = [*lengths(1), ("SELECT k, MAX(v) AS m FROM s [WINDOW 40 sec SLIDE 1 sec LAG 3 sec] GROUP BY k", "interval")]
    workload.ask(texts)
    for at in range(120):
        late = second(at - 20, [at % 3], 500) if at % 7 == 0 and at > 30 else []
        workload.push(late + second(at, range(4), at))
    assert sorted(workload.kinds) == ["interval", "running"]
    assert workload.checked > 100


def test_the_choice_survives_groups_that_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups get other codes when a dictionary is compacted."""
    monkeypatch.setattr(basic_interval, "LEAST_COMPACTED", 8)
    workload, sizes = Workload(), []
    workload.ask([(text.replace("48 sec", "12 sec"), "running") for text, _ in lengths(1)])
    for at in range(100):
        workload.push(second(at, range(at, at + 5), at))
        (group,) = workload.feed.runtime.groups.values()
        sizes.append(group.panes.groups)
    assert max(sizes) < 60 and any(b < a for a, b in pairwise(sizes))
    assert workload.checked > 80


def test_the_choice_survives_a_finer_query() -> None:
    """Panes of four seconds become panes of one and again of four: what is stored serves the long window."""
    workload, kinds = Workload(), []
    long = ("SELECT k, SUM(v) AS t FROM s [WINDOW 120 sec SLIDE 4 sec] GROUP BY k", None)
    fine = ("SELECT k, SUM(v) AS t FROM s [WINDOW 3 sec SLIDE 1 sec] GROUP BY k", None)
    for at in range(600):
        workload.ask([long, fine] if 180 <= at < 240 else [long])
        workload.push(second(at, range(3), at))
        kinds.append(workload.kinds)
    assert kinds[179] == ["running"] and kinds[-1] == ["running"]
    # Every answer of the long window from its first full one on, whatever the panes were.
    assert workload.checked > (400 - 120) // 4 + 50


def test_a_choice_is_not_made_anew_for_a_few_groups_more() -> None:
    """Only when there are more than a quarter more than when it was made."""
    workload, choices = Workload(), []
    workload.ask([("SELECT k, SUM(v) AS t FROM s [WINDOW 30 sec SLIDE 1 sec] GROUP BY k", None)])
    for at in range(120):
        groups = 20 if at < 60 else 24 if at < 90 else 40
        workload.push(second(at, range(groups), at))
        choices.append(workload.choices[0])
    settled, few_more, many_more = choices[55], choices[85], choices[-1]
    assert few_more is settled and many_more is not settled


@pytest.mark.parametrize("kind", ["basic", "interval", "landmark"])
def test_a_longer_pane_that_is_open_when_a_finer_query_comes(kind: str) -> None:
    """It closes later, among the finer ones, and has tuples on both sides of their windows' edges."""
    workload = Workload()
    coarse = ("SELECT k, AVG(v) AS a FROM s [WINDOW 8 sec SLIDE 4 sec] GROUP BY k", None)
    fine = ("SELECT k, MIN(v) AS m, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY k", kind)
    workload.ask([coarse])
    # The pane (0, 4] of the coarse query has this tuple, and nothing says where in it.
    workload.push([(START + SECOND // 2, 1, None, 9, None, None)])
    workload.ask([coarse, fine])
    found = []
    for at in range(1, 10):
        answers = workload.push([(START + at * SECOND - 1, 1, None, at, None, None)])
        found += [a.table.to_pylist() for a in answers if a.query.startswith(kind)]
    # The query's data begin with the pane that ends at 2; from 3 on it has those of two panes.
    assert found == [[], [{"k": 1, "m": 2, "n": 1}], *([{"k": 1, "m": at - 1, "n": 2}] for at in range(3, 9))]


@pytest.mark.parametrize("kind", ["basic", "interval", "landmark"])
def test_a_longer_pane_fails_no_query_that_came_after_it(kind: str) -> None:
    """Its tuples were counted before anyone wanted their minimum."""
    workload = Workload()
    coarse = ("SELECT k, AVG(v) AS a FROM s [WINDOW 8 sec SLIDE 4 sec] GROUP BY k", None)
    fine = ("SELECT k, MIN(v) AS m FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY k", kind)
    workload.ask([coarse])
    workload.push([(START + SECOND // 2, 1, None, 9, None, None)])
    workload.ask([coarse, fine])
    # The feed asserts that no query fails.
    workload.push([(START + SECOND - 1, 1, None, 1, None, None)])
    workload.push([(START + 2 * SECOND + SECOND // 2, 1, None, 3, None, None)])
    answers = workload.push([(START + 8 * SECOND, 1, None, 8, None, None)])
    assert [a.table.to_pylist() for a in answers if a.query.startswith(kind)][:2] == [[{"k": 1, "m": 3}]] * 2


POOL: list[tuple[str, str | None]] = [
    ("SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 12 sec SLIDE 1 sec] GROUP BY k", None),
    ("SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 12 sec SLIDE 3 sec] WHERE v > 3 GROUP BY k", "running"),
    ("SELECT k, MAX(v) AS m FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k", "interval"),
    ("SELECT k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec LAG 4 sec] GROUP BY k", "landmark"),
    ("SELECT k, AVG(v) AS m FROM s [WINDOW 8 sec SLIDE 4 sec] GROUP BY k", None),
    ("SELECT k, MIN(v) AS m FROM s [WINDOW 2 sec SLIDE 6 sec] GROUP BY k", "landmark"),
    ("SELECT k, COUNT(*) AS n, MAX(v) AS m FROM s [UNBOUNDED SLIDE 3 sec] GROUP BY k", None),
    ("SELECT k, COUNT(DISTINCT v) AS d FROM s [WINDOW 9 sec SLIDE 3 sec] GROUP BY k", "running"),
    ("SELECT COUNT(*) AS n FROM s [WINDOW 7 sec SLIDE 1 sec]", "running"),
]
TUPLES = st.lists(st.tuples(st.integers(-8_000_000, 0), st.integers(0, 30), st.integers(0, 9)), max_size=8)
STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(range(len(POOL)))), st.sampled_from([0.4, 1, 1, 2.5, 6, 40]), TUPLES),
    min_size=3,
    max_size=14,
)


@settings(max_examples=examples(20))
@given(STEPS, st.booleans())
def test_complete_answers_are_right_whatever_comes_and_goes(
    steps: list[tuple[set[int], float, list[tuple[int, int, int]]]], revised: bool
) -> None:
    """Queries come and go, panes are cut finer, groups vanish, closed panes are revised."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(basic_interval, "LEAST_COMPACTED", 8)
        patch.setattr(module, "LEAST_SAVING", 0.0)
        workload, now = Workload(late_revise=True), START
        for chosen, step, tuples in steps:
            workload.ask([POOL[i] for i in sorted(chosen)])
            now += round(step * SECOND)
            # Without late tuples, those of a micro-batch lie in the time that has passed since the last one.
            back = 8_000_000 if revised else round(step * SECOND) - 1
            workload.push([(now + max(late, -back), k, None, v, None, None) for late, k, v in [*tuples, (0, 1, 1)]])
