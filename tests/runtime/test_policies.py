"""Every policy, unhurried and hurried: answers equal recomputation, SLIDE bounds the updates between two of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.advance import RepeatedPace
from sash.runtime.periodic.pace import UNHURRIED, Pace
from sash.runtime.records.journal import GroupService
from sash.runtime.settings import Settings
from sash.schedule import POLICIES
from tests.support.checks import check_answers
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.journal import reread
from tests.support.oracle import same_rows
from tests.support.streams import START, Registered, batches, query_sets, stream, to_table

# Policies that execute some queries more often than they ask for.
MOVING = [name for name in POLICIES if name == "aggressive" or name.startswith("hybrid")]


class Hurry:
    """A clock that goes on by the given parts whenever it is looked at, then stands still."""

    hurries = True
    services = None

    def __init__(self, steps: list[float]) -> None:
        self._steps: Iterator[float] = iter(steps)
        self._passed = 0.0

    def passed(self) -> float:
        self._passed += next(self._steps, 0.0)
        return self._passed

    def part(self, seconds: float) -> float:
        return 0.0


def texts(queries: list[Registered]) -> dict[str, str]:
    return {query.name: query.text for query in queries}


def fed(
    queries: list[Registered],
    parts: list[pa.Table],
    chosen: Settings,
    paces: list[Pace] | None = None,
    synopsis: str | None = None,
) -> Feed:
    feed = Feed(stream(), chosen)
    feed.runtime.synchronise(compiled(texts(queries), feed.declared, synopsis))
    feed.answers = [
        answer
        for i, part in enumerate(parts)
        for answer in (feed.push(part) if paces is None else feed.push(part, paces[i]))
    ]
    return feed


def times(answers: list[Answer], query: Registered) -> list[int]:
    return [to_micros(answer.as_of) for answer in answers if answer.query == query.name]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(8))
@given(query_sets(), batches())
def test_unhurried(policy: str, queries: list[Registered], parts: list[pa.Table]) -> None:
    feed = fed(queries, parts, Settings(policy))
    answers = feed.answers + feed.finish()
    check_answers(queries, answers, parts, feed.declared)
    stamps = sorted(pa.concat_tables(parts)["_us"].to_pylist())
    for query in queries:
        seen = times(answers, query)
        assert all(a < b for a, b in pairwise(seen))
        if "EXACTLY" in query.text:
            assert all(t % query.slide == 0 for t in seen)
        for before, after in pairwise(seen):
            # A query that is moved may find its window empty before its SLIDE is over, and rest.
            first = before + (SECOND if policy in MOVING else query.slide)
            newest = [time - query.lag for time in range(first, before + query.slide + 1, SECOND)]
            empty = any(not any(end - query.length < t <= end for t in stamps) for end in newest)
            assert after - before <= query.slide or empty, (query.text, before, after)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(4))
@given(query_sets(4), batches(most=40))
def test_shared_and_unshared_answers_are_equal(policy: str, queries: list[Registered], parts: list[pa.Table]) -> None:
    shared, alone = (fed(queries, parts, Settings(each)).answers for each in (policy, "no-sharing"))
    known = {(answer.query, answer.as_of): answer for answer in alone}
    for answer in shared:
        other = known.get((answer.query, answer.as_of))
        if other is not None:
            assert same_rows(answer.table.to_pylist(), other.table.to_pylist(), "LIMIT" in texts(queries)[answer.query])


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(8))
@given(query_sets(), batches(most=40), st.data())
def test_hurried(policy: str, queries: list[Registered], parts: list[pa.Table], data: st.DataObject) -> None:
    """However time passes: answers are right, multiples of EXACTLY are all answered, and it can be done once more."""
    steps = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.4, 1.0]), max_size=12)
    chosen = Settings(policy, refresh_when_idle=data.draw(st.booleans()))
    feed = fed(queries, parts, chosen, [Hurry(data.draw(steps)) for _ in parts])
    answers = feed.answers
    rest = feed.finish()
    check_answers(queries, answers + rest, parts, feed.declared)
    for query in (query for query in queries if "EXACTLY" in query.text):
        calm = fed(queries, parts, Settings("no-sharing"))
        seen = times(answers + rest, query)
        assert seen == sorted(seen)
        assert set(times(calm.answers + calm.finish(), query)) <= set(seen)
    again = fed(queries, parts, chosen, [_repeated(services) for services in feed.services])
    assert _told(again.answers) == _told(answers)
    assert _told(again.finish()) == _told(rest)
    assert _schedules(again) == _schedules(feed)


def _repeated(services: list[list[GroupService]] | None) -> Pace:
    if services is None:
        return UNHURRIED
    stored = json.loads(json.dumps(services))
    return RepeatedPace([[GroupService(*each) for each in part] for part in stored])


def _told(answers: list[Answer]) -> list[tuple[str, int, bool]]:
    return sorted((answer.query, to_micros(answer.as_of), answer.complete) for answer in answers)


def _schedules(feed: Feed) -> list[object]:
    return [group.schedule.local.snapshot() for group in feed.runtime.ordered()]


def test_late_queries_are_answered_as_of_the_newest_pane_and_lateness_is_told() -> None:
    query = Registered("q", "SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec]", 4 * SECOND, SECOND)
    feed = Feed(stream(), Settings("conservative"))
    feed.runtime.synchronise(compiled(texts([query]), feed.declared))
    rows = [(START + i * SECOND // 2, 1, None, 1, None, None) for i in range(22)]
    told = [feed.push(to_table(rows[:9])), feed.push(to_table(rows[9:20]), Hurry([0.0, 0.0, 1.0]))]
    told.append(feed.push(to_table(rows[20:])))
    seconds = [[(to_micros(answer.as_of) - START) // SECOND for answer in answers] for answers in told]
    assert seconds == [[0, 1, 2, 3], [4], [9, 10]], "out of time after 4; then late, as of the newest pane"
    assert feed.runtime.active["q"].lateness == 4


# Heavy enough that hybrid moves sub-groups: a scan costs more than the answers.
HEAVY = [
    Registered(f"q{slide}", f"SELECT k, MAX(v) AS m FROM s [WINDOW {length} sec SLIDE {slide} sec] GROUP BY k", 0, 0)
    for length, slide in ((10, 2), (15, 3), (30, 5), (28, 7))
]


def heavy(groups: int = 3_000, panes: int = 60) -> pa.Table:
    rows = [
        (START + t * SECOND + 1 + g, g, None, (g * 7 + t) % 100, None, None)
        for t in range(panes)
        for g in range(groups)
    ]
    return to_table(rows)


def scanned(parts: list[pa.Table], chosen: Settings) -> Feed:
    """Looked up, windows would share nothing."""
    return fed(HEAVY, parts, chosen, synopsis="basic")


def as_of(answers: list[Answer]) -> list[tuple[str, int]]:
    return sorted((answer.query, (to_micros(answer.as_of) - START) // SECOND) for answer in answers)


def test_hybrid_moves_queries_when_it_pays() -> None:
    feed = scanned([heavy()], Settings("hybrid"))
    (group,) = feed.runtime.groups.values()
    periods = {task.key.slide // SECOND: task.period // SECOND for task in group.schedule.local.tasks()}
    assert set(periods) == {2, 3, 5, 7} and any(period < slide for slide, period in periods.items())
    assert as_of(feed.answers) != as_of(scanned([heavy()], Settings("conservative")).answers)


@pytest.mark.parametrize("base", ["conservative", "hybrid"])
def test_unhurried_the_late_variants_are_their_base(base: str) -> None:
    data = heavy(1_000)
    plain, late, pending = (
        as_of(scanned([data], Settings(base + end)).answers) for end in ("", "-late", "-late-pending")
    )
    assert plain == late == pending


@pytest.mark.parametrize("policy", POLICIES)
def test_where_micro_batches_end_makes_no_difference(policy: str) -> None:
    data = heavy(1_500, 40)
    cuts = [0, 1_000, 1_501, 20_000, 20_001, 33_333, 47_000, len(data)]
    parts = [data.slice(a, b - a) for a, b in pairwise(cuts)]
    assert as_of(scanned(parts, Settings(policy)).answers) == as_of(scanned([data], Settings(policy)).answers)


def test_measured_prices_change_the_plan_and_run_goes_by_the_model() -> None:
    feed = scanned([heavy()], Settings("hybrid"))
    (group,) = feed.runtime.groups.values()

    def moved() -> int:
        return sum(task.period != task.key.slide for task in group.schedule.local.tasks())

    before = moved()
    assert before > 0
    for i in range(1_000):
        # Answers take a thousand times longer than the model thinks: nobody should be refreshed needlessly.
        group.calibration.observe((1e6, 1e6 * (1 + i % 5)), 1.0 + 1_000.0 * (1 + i % 5))
    feed.runtime.reprice(feed.runtime.drifted_prices())
    assert moved() == 0
    feed.runtime.reprice(feed.runtime.model_prices())
    assert moved() == before


@pytest.mark.parametrize("before", ["no-sharing", "conservative", "hybrid"])
@pytest.mark.parametrize("after", ["no-sharing", "aggressive", "hybrid-late-pending"])
def test_another_policy_after_a_restart(before: str, after: str) -> None:
    """Every query is answered once, also those that read another's output under one policy only."""
    clause = "SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE {} sec]"
    queries = [Registered(f"q{slide}", clause.format(slide), 4 * SECOND, slide * SECOND) for slide in (1, 2, 3)]
    rows = [(START + i * SECOND // 2, 1, None, 1, None, None) for i in range(40)]
    feed = fed(queries, [to_table(rows[:20])], Settings(before))
    saved = stream_snapshot.save(feed.runtime)
    fresh = Feed(stream(), Settings(after))
    fresh.runtime.synchronise(compiled(texts(queries), fresh.declared))
    stream_snapshot.load(fresh.runtime, reread(saved))
    answers = fresh.push(to_table(rows[20:]))
    for query in queries:
        seen = [times(feed.answers, query)[-1], *times(answers, query)]
        assert all(0 < b - a <= query.slide for a, b in pairwise(seen)), (query.name, seen)
        assert seen[-1] + query.slide > START + 19 * SECOND
    check_answers(queries, answers, [to_table(rows)], feed.declared)
