"""Executions in the cluster beside micro-batches, without Spark: the slides that do not wait, landings, recovery.

A gate holds executions for as long as a test wants: nothing depends on how fast anything is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, compile_query
from sash.runtime.periodic import stream_snapshot
from sash.runtime.periodic.advance import RepeatedPace
from sash.runtime.periodic.pace import UNHURRIED, Pace
from sash.runtime.records.journal import GroupService, SavedRuntime, ServiceStep
from sash.runtime.settings import Settings
from sash.sharing.choose import CLUSTER
from tests.runtime.test_policies import Hurry, fed, texts, times
from tests.support.checks import check_answers
from tests.support.examples import examples
from tests.support.feed import CONSERVATIVE, Feed, compiled
from tests.support.journal import reread
from tests.support.shelf import SHELVES, Shelf, panes_of
from tests.support.streams import START, Registered, batches, query_sets, stream, to_table

SUMS = "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE {slide} sec] GROUP BY k"
POLICIES = ["no-sharing", "conservative", "hybrid-late-pending"]


def live() -> Pace:
    """Time stands still: everything is served at its deadline."""
    return Hurry([])


def opened(queries: dict[str, str], declared: Stream | None = None, chosen: Settings = CONSERVATIVE) -> Feed:
    feed = Feed(declared or stream(), chosen, flies=True)
    feed.runtime.synchronise(compiled(queries, feed.declared, CLUSTER))
    return feed


def second(number: int) -> pa.Table:
    """Tuples that distinguish their second from all others."""
    return to_table([(START + number * SECOND, k, None, 2**number, None, None) for k in range(3)])


def told(answers: list[Answer]) -> list[tuple[int, list[str]]]:
    return [((to_micros(a.as_of) - START) // SECOND, sorted(map(repr, a.table.to_pylist()))) for a in answers]


def by_query(answers: list[Answer]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for answer in answers:
        facts = (answer.as_of, answer.complete, answer.scheduled, sorted(map(repr, answer.table.to_pylist())))
        found.setdefault(answer.query, []).append(facts)
    return found


def as_in_run(slide: int, count: int) -> dict[int, list[str]]:
    """The answers of `run()`, by their times."""
    feed = Feed(stream())
    feed.runtime.synchronise(compiled({"q": SUMS.format(slide=slide)}, feed.declared, CLUSTER))
    return dict(told([answer for number in range(count) for answer in feed.push(second(number))] + feed.finish()))


# -- slides that do not wait -------------------------------------------------------------------------------


def test_micro_batches_go_on_while_an_execution_is_held() -> None:
    """Its answer is as of its own time, though its panes would have gone; later deadlines wait for it, and are late."""
    feed, expected = opened({"q": SUMS.format(slide=1)}), as_in_run(1, 12)
    assert not any(feed.push(second(number), live()) for number in range(9))
    (group,) = feed.runtime.ordered()
    assert [flight.as_of for flight in group.flights] == [START]
    assert group.clock.position == START + 7 * SECOND and group.clock.retained_from == START - SECOND
    feed.gate.open()
    assert told(feed.push(second(9), live())) == [(0, expected[0])]
    feed.gate.open()
    landed = told(feed.push(second(10), live()))
    assert landed == [(time, expected[time]) for time in (7, 8)], "as of the newest pane when it departed, and the next"
    assert told(feed.finish()) == [(time, expected[time]) for time in (9, 10)]
    assert group.statistics.beside_slides == 2 and group.clock.retained_from == START + 6 * SECOND


@pytest.mark.parametrize("policy", POLICIES)
def test_every_due_time_of_a_micro_batch_has_its_answer(policy: str) -> None:
    """As in memory, while there is time: a job for each; the answers land in the order of time, each as it is ready."""
    texts = {f"q{slide}": SUMS.format(slide=slide).replace("4 sec", f"{3 + slide} sec") for slide in (1, 2)}
    part = pa.concat_tables([second(number) for number in range(7)])
    feed, near = opened(texts, chosen=Settings(policy)), Feed(stream(), Settings(policy))
    near.runtime.synchronise(compiled(texts, near.declared))
    assert not feed.push(part, live())
    due = near.push(part, live())
    feed.gate.open(2)
    answers = feed.push(second(7), live())
    assert len(feed.landed[-1]) == 2 and answers
    feed.gate.open()
    answers += feed.push(second(8), live())
    assert by_query(answers) == by_query(due) and len(due) > 6


class Interval(Hurry):
    """An execution in the cluster takes a part of the time until the next micro-batch."""

    def __init__(self, part: float) -> None:
        super().__init__([])
        self._takes = part

    def part(self, seconds: float) -> float:
        return self._takes if seconds else 0.0


@pytest.mark.parametrize(("part", "expected"), [(0.05, [3, 4, 5, 6, 7, 8, 9]), (0.4, [3, 4, 7]), (1.5, [3])])
def test_as_many_depart_as_there_is_time_for(part: float, expected: list[int]) -> None:
    """As if they took their time here: deadlines that pass meanwhile are late."""
    feed = opened({"q": SUMS.format(slide=1)})
    for number in range(3):
        feed.push(second(number), live())
    feed.gate.open()
    feed.push(second(3), live())
    feed.gate.open()
    (group,) = feed.runtime.ordered()
    assert group.flight_seconds > 0
    feed.push(pa.concat_tables([second(number) for number in range(4, 11)]), Interval(part))
    assert [(flight.as_of - START) // SECOND for flight in group.flights] == expected


def test_where_nothing_flies_slides_wait() -> None:
    feed = Feed(stream(), flies=False)
    feed.runtime.synchronise(compiled({"q": SUMS.format(slide=1)}, feed.declared, CLUSTER))
    answers = [answer for number in range(5) for answer in feed.push(second(number), live())]
    assert [time for time, _ in told(answers)] == [0, 1, 2, 3] and not feed.runtime.flights


def test_a_query_in_this_process_does_not_fly() -> None:
    """It reads one table in the cluster and one in this process; the other reads this process alone."""
    feed = Feed(stream(), flies=True)
    far = compiled({"far": "SELECT k, COUNT(DISTINCT v) AS d FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY k"},
                   feed.declared, CLUSTER)  # fmt: skip
    feed.runtime.synchronise([*far, *compiled({"near": SUMS.format(slide=1)}, feed.declared)])
    answers = [answer for number in range(5) for answer in feed.push(second(number), live())]
    assert {answer.query for answer in answers} == {"near"} and len(answers) == 4
    assert [list(flight.queries) for flight in feed.runtime.flights] == [["far"]]
    assert {answer.query for answer in feed.finish()} == {"near", "far"}


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(10), deadline=None)
@given(query_sets(5), st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=2, max_size=12))
def test_a_flight_that_lands_in_time_changes_no_answer(
    policy: str, queries: list[Registered], panes: list[list[int]]
) -> None:
    """One pane per micro-batch, each execution ready before the next: the answers of `run()`."""
    parts = [
        to_table([(START + i * SECOND, k, "abc"[k % 3], k * i, k * i, k / 4) for k in keys])
        for i, keys in enumerate(panes)
    ]
    feed, answers = opened(texts(queries), chosen=Settings(policy)), list[Answer]()
    for part in parts:
        answers += feed.push(part, live())
        feed.gate.open()
    calm = fed(queries, parts, Settings(policy), synopsis=CLUSTER)
    assert by_query(answers + feed.finish()) == by_query(calm.answers + calm.finish())


# -- whatever happens --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A micro-batch, the queries that it finds, how time passes in it, and how many executions end before it."""

    part: pa.Table
    wanted: list[CompiledQuery]
    hurry: list[float]
    opens: int


def tell(feed: Feed, story: list[Step]) -> list[list[Answer]]:
    found = []
    for step in story:
        feed.gate.open(step.opens)
        feed.runtime.synchronise(step.wanted)
        found.append(feed.push(step.part, Hurry(step.hurry)))
    return [*found, feed.finish()]


@pytest.mark.parametrize(("comes_and_goes", "snapshot", "restarts"), list(product([False, True], repeat=3)))
@settings(max_examples=examples(30), deadline=None)
@given(query_sets(4), batches(most=40), st.data())
def test_however_time_passes(
    comes_and_goes: bool,
    snapshot: bool,
    restarts: bool,
    queries: list[Registered],
    parts: list[pa.Table],
    data: st.DataObject,
) -> None:
    """Answers are right as of their times and come in order, once; a crash at any moment changes none of them."""
    chosen = Settings(data.draw(st.sampled_from(POLICIES)), refresh_when_idle=data.draw(st.booleans()))
    steps = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.4, 1.0]), max_size=8)
    known = compiled(texts(queries), stream(), CLUSTER)
    some = st.lists(st.sampled_from(known), unique_by=id) if comes_and_goes else st.just(known)
    story = [Step(part, data.draw(some), data.draw(steps), data.draw(st.integers(0, 3))) for part in parts]
    crash = data.draw(st.integers(0, len(parts)))
    feed = Feed(stream(), chosen, flies=True, restarts=restarts)
    told = tell(feed, story)
    everything = [answer for some in told for answer in some]
    assert all(seen == sorted(set(seen)) for seen in (times(everything, query) for query in queries))
    if not comes_and_goes:
        check_answers(queries, everything, parts, feed.declared)
        calm = fed(queries, parts, Settings("no-sharing"), synopsis=CLUSTER)
        due = calm.answers + calm.finish()
        for query in (query for query in queries if "EXACTLY" in query.text):
            assert set(times(due, query)) <= set(times(everything, query))

    # How entries are repeated does not depend on the level of the session that reads them.
    again = Feed(stream(), chosen, flies=True, restarts=data.draw(st.booleans()))
    for step, services, landed in zip(story[:crash], feed.services, feed.landed, strict=False):
        again.runtime.synchronise(step.wanted)
        again.push(step.part, repeated(services), landed)
    again = restored(again) if snapshot else again
    again.runtime.restarts = restarts
    again.runtime.start_flights(again.gate.launch)
    after = tell(again, story[crash:])
    assert by_query([a for some in after for a in some]) == by_query([a for some in told[crash:] for a in some])


def test_recovery_under_another_level_begins_nothing_again() -> None:
    """Micro-batches in which nothing is served have no services: first flights are out, then one lands and time stands.

    Under `lws` the flight that is left would begin again, and the queries of the other one would be answered.
    """
    texts = {"q": SUMS.format(slide=1), "other": "SELECT v, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 1 sec] GROUP BY v"}
    parts, feed = [second(number) for number in (0, 1, 2, 2)], opened(texts)
    for opens, part in zip([0, 0, 0, 1], parts, strict=True):
        feed.gate.open(opens)
        feed.push(part, live())
    assert feed.services[2:] == [None, None] and feed.landed[3] == [0]
    again = opened(texts)
    again.runtime.restarts = True
    for part, services, landed in zip(parts, feed.services, feed.landed, strict=True):
        again.push(part, repeated(services), landed)
    again.runtime.restarts = False
    assert [flight.as_of for flight in again.runtime.flights] == [START]
    assert by_query(again.finish()) == by_query(feed.finish())


def repeated(services: list[list[GroupService]] | None) -> Pace:
    if services is None:
        return UNHURRIED
    stored = json.loads(json.dumps(services))
    return RepeatedPace([[GroupService(*each) for each in part] for part in stored])


def restored(feed: Feed, saved: SavedRuntime | None = None) -> Feed:
    """Another process, by a snapshot; the files are where they were."""
    other = Feed(feed.declared, feed.runtime.settings, flies=True)
    other.runtime.synchronise([active.compiled for active in feed.runtime.active.values()])
    stream_snapshot.load(other.runtime, reread(saved or stream_snapshot.save(feed.runtime)))
    other.pending = feed.pending
    for group, same in zip(other.runtime.ordered(), feed.runtime.ordered(), strict=True):
        if group.in_cluster:
            panes_of(group).cluster, SHELVES[group] = panes_of(same).cluster, SHELVES[same]
    return other


@pytest.mark.parametrize("policy", POLICIES)
def test_logs_and_snapshots_of_earlier_versions(policy: str) -> None:
    """There, one flight had all that departed, and a snapshot at most one flight of a group."""
    queries = {"q": SUMS.format(slide=1), "own": SUMS.format(slide="EXACTLY 2").replace("SUM", "MAX")}
    part = pa.concat_tables([second(0), second(1)])
    feed = opened(queries, chosen=Settings(policy))
    feed.push(part, repeated([[GroupService(0, START, step=ServiceStep.FLY)], []]), [])
    (flight,) = feed.runtime.flights
    assert flight.as_of == START and set(flight.queries) == {"q", "own"}
    saved = stream_snapshot.save(feed.runtime)
    groups = [replace(group, flight=group.flights[0], flights=[]) for group in saved.groups]
    again = restored(feed, replace(saved, groups=groups))
    again.runtime.start_flights(again.gate.launch)
    again.gate.open()
    assert {answer.query for answer in again.push(second(2), live())} == {"q", "own"}
    feed.push(second(2), live(), [0])
    assert not feed.runtime.flights or feed.runtime.flights[0].as_of > START


# -- what comes between ------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", [False, True])
def test_late_tuples_are_not_in_an_answer_that_was_under_way(snapshot: bool) -> None:
    feed = opened({"q": SUMS.format(slide=1)}, stream(late_revise=True))
    for number in range(4):
        feed.push(second(number), live())
    late = to_table([(START, 7, None, 5, None, None)])
    feed.push(late, live())
    if snapshot:
        feed = restored(feed)
        feed.runtime.start_flights(feed.gate.launch)
    feed.gate.open()
    expected = as_in_run(1, 6)
    assert told(feed.push(second(4), live())) == [(0, expected[0])]
    feed.gate.open()
    (time, rows), _ = told(feed.push(second(5), live()))
    assert time == 2 and rows == sorted([*expected[2], repr({"k": 7, "t": 5, "n": 1})]), "later answers have them"


def test_a_query_that_has_gone_gets_no_answer() -> None:
    """Neither it, nor its successor of the same name; the other query of the execution does."""
    feed = opened({"q": SUMS.format(slide=1), "other": SUMS.format(slide=1).replace("COUNT(*) AS n", "MAX(v) AS n")})
    for number in range(3):
        feed.push(second(number), live())
    assert len(feed.runtime.flights[0].queries) == 2
    (other,) = [active.compiled for name, active in feed.runtime.active.items() if name == "other"]
    feed.runtime.synchronise([other, *compiled({"q": SUMS.format(slide=1)}, feed.declared, CLUSTER)])
    feed.gate.open()
    answers = feed.push(second(3), live())
    assert [(a.query, time) for a, (time, _) in zip(answers, told(answers), strict=True)] == [("other", 0)]


def test_a_flight_of_dropped_queries_lands_without_answers() -> None:
    """Its table has gone, or has other readers; nothing of it is in a snapshot."""
    for left in ([], ["other"]):
        feed = opened({"q": SUMS.format(slide=1), "other": SUMS.format(slide=3).replace("COUNT(*)", "MAX(v)")})
        for number in range(2):
            feed.push(second(number), live())
        assert list(feed.runtime.flights[0].queries) == ["q"]
        feed.runtime.synchronise([feed.runtime.active[name].compiled for name in left])
        assert not any(group.flights for group in stream_snapshot.save(feed.runtime).groups)
        feed.gate.open()
        assert not feed.push(second(2), live()) and {answer.query for answer in feed.finish()} == set(left)


def test_a_lifetime_ends_when_the_last_answer_has_landed() -> None:
    catalog, feed = Catalog(), Feed(stream(), flies=True)
    catalog.add_stream(feed.declared)
    query = RegisteredQuery("q", SUMS.format(slide=1), "s", synopsis=CLUSTER, lifetime=2 * SECOND)
    feed.runtime.synchronise([compile_query(query, catalog)])
    for number in range(6):
        feed.push(second(number), live())
    assert list(feed.runtime.active) == ["q"], "it owes an answer"
    feed.gate.open()
    assert [time for time, _ in told(feed.push(second(6), live()))] == [0]
    assert not feed.runtime.active and not feed.finish()


# -- failures ----------------------------------------------------------------------------------------------


def test_a_query_that_fails_there_fails_when_it_lands() -> None:
    feed = opened({"bad": SUMS.format(slide=1).replace("SUM(v)", "SUM(w)"), "good": SUMS.format(slide=1)})
    large = [to_table([(START + t * SECOND, 1, None, 1, 2**62, None)] * 3) for t in range(4)]
    for part in large[:3]:
        feed.push(part, live())
    feed.gate.open()
    with pytest.raises(AssertionError, match="does not fit into BIGINT"):
        feed.push(large[3], live())
    assert list(feed.runtime.active) == ["good"]
    (group,) = feed.runtime.ordered()
    assert panes_of(group).noted_failure("bad", START) is not None, "for the log"
    assert {answer.query for answer in feed.finish()} == {"good"}


def test_a_job_that_fails_fails_the_epoch_of_its_landing(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*_: Any) -> Any:
        raise LookupError("the cluster has gone")

    feed = opened({"q": SUMS.format(slide=1)})
    monkeypatch.setattr(Shelf, "ask", ask)
    for number in range(4):
        assert not feed.push(second(number), live())
    feed.gate.open()
    with pytest.raises(LookupError, match="the cluster has gone"):
        feed.push(second(4), live())
