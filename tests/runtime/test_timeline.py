"""The schedule as its user sees it: who ran together, early or late, and what other policies would cost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.errors import SashError
from sash.core.time import SECOND, to_micros
from sash.isolation import isolation
from sash.runtime.continuous.join_group import JoinGroup
from sash.runtime.continuous.join_runtime import JoinRuntime
from sash.runtime.explaining.report import schedule_report
from sash.runtime.settings import Settings
from sash.runtime.statistics import EARLY, LATE, ON_TIME
from sash.schedule import POLICIES
from sash.schedule import policy as policy_named
from tests.runtime.test_join_group import begins, epochs, query_of
from tests.runtime.test_policies import Hurry, texts
from tests.support.checks import check_answers
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.streams import START, Registered, batches, query_sets, stream, to_table
from tests.support.without_spark import Sparkless, World

# A multiple of every SLIDE.
BEGIN = START - START % (30 * SECOND)
# The windows and slides of the thesis' example in section 8.4.3, in seconds for minutes.
SEVEN = {2: (10, 5, 6), 3: (15, 8), 5: (30, 20)}
QUERIES = {
    f"w{window}": f"SELECT MAX(v) AS m FROM s [WINDOW {window} sec SLIDE {slide} sec] WHERE v > {window}"
    for slide, windows in SEVEN.items()
    for window in windows
}


def seconds(n: int) -> pa.Table:
    return to_table([(BEGIN + i * SECOND, 1, "a", i % 50, i, 0.0) for i in range(n)])


def ran(feed: Feed) -> dict[int, dict[str, str]]:
    """By second: the state of each SLIDE that was executed, by its length."""
    (group,) = feed.runtime.groups.values()
    found: dict[int, dict[str, str]] = {}
    for executed in group.timeline.executed(group):
        states = found.setdefault((to_micros(executed.as_of) - BEGIN) // SECOND, {})
        states |= {turn.slide: turn.state for turn in executed.turns}
    return found


def fed(policy: str) -> Feed:
    feed = Feed(stream(), Settings(policy))
    feed.runtime.synchronise(compiled({name: text.split(" WHERE")[0] for name, text in QUERIES.items()}, feed.declared))
    feed.push(seconds(40))
    return feed


def test_conservative_tasks_meet_at_common_multiples() -> None:
    shown = ran(fed("conservative"))
    assert shown[2] == {"2 sec": ON_TIME} and shown[3] == {"3 sec": ON_TIME}
    assert shown[6] == {"2 sec": ON_TIME, "3 sec": ON_TIME}
    assert shown[30] == {"2 sec": ON_TIME, "3 sec": ON_TIME, "5 sec": ON_TIME}
    assert 7 not in shown


def test_aggressive_tasks_are_early() -> None:
    shown = ran(fed("aggressive"))
    assert shown[2] == {"2 sec": ON_TIME, "3 sec": EARLY, "5 sec": EARLY}
    assert shown[6] == {"2 sec": ON_TIME, "3 sec": ON_TIME, "5 sec": EARLY}


def test_an_execution_names_all_its_queries() -> None:
    feed = fed("conservative")
    (group,) = feed.runtime.groups.values()
    everybody = [each for each in group.timeline.executed(group) if len(each.turns) == 3]
    assert sorted(name for turn in everybody[0].turns for name in turn.queries) == sorted(QUERIES)
    assert all(each.pane_table == group.label and each.seconds > 0 for each in everybody)


def test_late_tasks_are_called_late() -> None:
    feed = Feed(stream(), Settings("conservative"))
    feed.runtime.synchronise(compiled(QUERIES, feed.declared))
    feed.push(seconds(40), Hurry([0.0, 0.0, 0.3, 0.3]))
    states = {state for group in feed.runtime.groups.values() for each in group.timeline.executed(group)
              for state in (turn.state for turn in each.turns)}  # fmt: skip
    assert LATE in states


@settings(max_examples=examples(40))
@given(query_sets(), batches())
def test_predicted_costs(queries: list[Registered], parts: list[pa.Table]) -> None:
    """Hybrid is the cheapest, sharing never costs more than none, and a late variant costs as much as its base."""
    feed = Feed(stream(), Settings("conservative"))
    feed.runtime.synchronise(compiled(texts(queries), feed.declared))
    for part in parts:
        feed.push(part)
    running: Any = SimpleNamespace(stream=feed.declared, runtime=feed.runtime)
    costs = schedule_report({"s": running}, [], isolation("serial"))["predicted_cost"]
    assert list(costs) == list(POLICIES)
    slack = 1e-9 * costs["no-sharing"]
    assert costs["hybrid"] <= min(costs["conservative"], costs["aggressive"]) + slack
    assert costs["conservative"] <= costs["no-sharing"] + slack
    assert costs["hybrid"] == costs["hybrid-late"] == costs["hybrid-late-pending"]


def test_identical_queries_are_counted_only_where_nothing_is_shared() -> None:
    text = "SELECT MAX(v) AS m FROM s [WINDOW 10 sec SLIDE {slide} sec]"
    costs = []
    for slides in ((2,), (2, 4)):
        feed = Feed(stream(), Settings("no-sharing"))
        feed.runtime.synchronise(compiled({f"q{s}": text.format(slide=s) for s in slides}, feed.declared))
        feed.push(seconds(20))
        (group,) = feed.runtime.groups.values()
        costs.append(group.schedule.predicted([policy_named("no-sharing"), policy_named("conservative")]))
    assert costs[0][1] == costs[1][1] and costs[0][0] < costs[1][0]


@settings(max_examples=examples(25))
@given(query_sets(), batches(), st.lists(st.sampled_from(sorted(POLICIES)), min_size=6, max_size=6))
def test_policies_change_while_a_stream_runs(
    queries: list[Registered], parts: list[pa.Table], chosen: list[str]
) -> None:
    feed = Feed(stream(), Settings(chosen[0]))
    feed.runtime.synchronise(compiled(texts(queries), feed.declared))
    answers = []
    for part, name in zip(parts, chosen, strict=False):
        feed.runtime.use(Settings(name))
        answers += feed.push(part)
    answers += feed.finish()
    check_answers(queries, answers, parts, feed.declared)


@pytest.mark.parametrize("crash_after", [1, 2, 3])
def test_a_restart_repeats_what_other_policies_did(tmp_path: Path, crash_after: int) -> None:
    """`World.tell` compares repeated answers; later answers are compared with those of a run without a restart."""
    parts = [to_table([(START + (i * 10 + j) * SECOND, 1, "a", j, j, 0.0) for j in range(10)]) for i in range(5)]
    policies = ["conservative", "aggressive", "hybrid", "no-sharing", "conservative"]

    def push(process: Sparkless, world: World, epochs: range) -> None:
        for epoch in epochs:
            process.running.use(Settings(policies[epoch]))
            process.run([(QUERIES if not i else {}, [], part) for i, part in enumerate(parts[: epoch + 1])], ends=False)

    worlds = [World(tmp_path / "whole"), World(tmp_path / "broken")]
    for world, breaks in zip(worlds, (5, crash_after), strict=True):
        world.checkpoint.mkdir()
        process = Sparkless(stream(), world)
        push(process, world, range(breaks))
        process.vanish()
        if breaks < 5:
            process = Sparkless(stream(), world)
            push(process, world, range(breaks, 5))
            process.vanish()
    assert worlds[0].told == worlds[1].told and len(worlds[0].told) > 50


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(SashError, match="unknown policy 'hybird'; did you mean 'hybrid'"):
        Settings("hybird")


def test_a_join_takes_a_policy_before_queries_come_and_go() -> None:
    """As recovery does: who enters under another policy is due at other times."""
    calls: list[str] = []
    runtime: Any = object.__new__(JoinRuntime)
    runtime._is_whole, runtime._place = True, SimpleNamespace(policy="hybrid")
    runtime._group = SimpleNamespace(fold="fold")
    runtime._use, runtime._synchronise = calls.append, lambda: calls.append("come and go")
    assert runtime._fold() == "fold"
    assert calls == ["hybrid", "come and go"]


def over_a_join(first: int, second: int, slide: int) -> str:
    windows = f"s [RANGE {first} sec SLIDE {slide} sec], t [RANGE {second} sec SLIDE {slide} sec]"
    return f"SELECT COUNT(*) AS n FROM {windows} WHERE s.a = t.a"


def joined_group(chosen: str) -> JoinGroup:
    """Two queries every two seconds and one every three, over a join with a result every second."""
    texts = {"two": over_a_join(3, 4, 2), "also": over_a_join(2, 2, 2), "three": over_a_join(3, 3, 3)}
    group = JoinGroup({name: query_of(text) for name, text in texts.items()}, policy=policy_named(chosen))
    row = {"a": 1, "b": 2, "c": "x", "d": 0.5, "e": 3}
    known = {name: [(second * SECOND, row) for second in range(1, 20)] for name in "st"}
    for changes, _, high in epochs(group.plan, known, [20 * SECOND]):
        group.absorb(group.rows(changes))
        assert list(group.advance(high - 1, begins(known, high)))
    return group


def test_aggregates_over_a_join_have_a_timeline() -> None:
    shown: dict[int, dict[str, str]] = {}
    group = joined_group("conservative")
    for each in group.timeline.executed(group):
        assert each.seconds > 0
        shown[to_micros(each.as_of) // SECOND] = {
            name: turn.state for turn in each.turns for name in turn.queries if turn.slide in ("2 sec", "3 sec")
        }
    assert shown[4] == {"two": ON_TIME, "also": ON_TIME} and shown[9] == {"three": ON_TIME}
    assert shown[12] == {"two": ON_TIME, "also": ON_TIME, "three": ON_TIME} and 11 not in shown
    group = joined_group("aggressive")
    states = {
        (to_micros(each.as_of) // SECOND, name): turn.state
        for each in group.timeline.executed(group)
        for turn in each.turns
        for name in turn.queries
    }
    assert states[4, "two"] == ON_TIME and states[4, "three"] == EARLY


def test_aggregates_over_a_join_have_a_predicted_cost() -> None:
    group = joined_group("conservative")
    costs = {name: group.predicted(policy_named(name)) for name in POLICIES}
    assert 0 < costs["hybrid"] <= min(costs["conservative"], costs["aggressive"]) <= costs["no-sharing"]
    group.leave("three")
    assert 0 < group.predicted(policy_named("no-sharing")) < costs["no-sharing"]
