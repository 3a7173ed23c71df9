"""A running plan is replaced when its streams turn over: no change is missing, none comes twice, whatever breaks.

Without Spark, in two buckets, under faults of its own writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash.storage.epochs
from sash.catalog import Catalog, Stream
from sash.changes import Arrivals, bucket_state
from sash.core.changes import Changes
from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.core.time import SECOND, Micros, to_datetime
from sash.plan.choice import evaluated
from sash.plan.continuous import AUTO, Join, Negation, Node, edges, sampling_of, windows
from sash.plan.estimates import Statistics
from sash.plan.rewrites import optimise
from sash.runtime.compiler import as_select
from sash.runtime.continuous.continuous_queries import unmeasured
from sash.runtime.continuous.plan_reader import Sampler
from sash.runtime.continuous.plan_runtime import ContinuousQuery, EpochInstants, PlanParts, PlanRuntime
from sash.runtime.continuous.replanning import Replanner, has_changed
from sash.runtime.explaining.explain_continuous import explain_continuous
from sash.runtime.route import route_plan
from sash.runtime.spark_pass import Batch, BatchTimes
from sash.spark.buckets import BucketedPlan
from sash.sql import bind, plan_changes
from sash.storage.epochs import EpochLog
from tests.runtime.test_plan_faults import Reader, Told
from tests.support.faults import Death, FullDisk, survived
from tests.support.log import events

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("x", pa.int64())])
EPOCHS, BUCKETS = 18, 2
TURN = EPOCHS // 2
CATALOG = Catalog()
STREAMS = [Stream(name, SCHEMA, "ts") for name in "abc"]
for each in STREAMS:
    CATALOG.add_stream(each)


@dataclass(frozen=True)
class Workload:
    """A query, and how long its micro-batches are before the turn and after it."""

    text: str
    before: Micros = SECOND
    after: Micros = SECOND

    @cached_property
    def written(self) -> Node:
        return plan_changes(bind(as_select(self.text), CATALOG))

    @cached_property
    def plan(self) -> Node:
        return evaluated(optimise(self.written, Statistics(), "upa"), Statistics(), "upa")[0]

    def span(self, epoch: int) -> tuple[Micros, Micros]:
        begin = min(epoch, TURN) * self.before + max(epoch - TURN, 0) * self.after
        return begin, self.before if epoch < TURN else self.after


CHANGES = Workload(
    "SELECT a.k, a.x, b.x AS y FROM a [RANGE 4 sec], b [RANGE 4 sec] "
    "WHERE a.k = b.k AND NOT EXISTS (SELECT 1 FROM c [RANGE 2 sec] WHERE c.k = a.k)"
)
SLIDE = Workload(
    "SELECT a.k, a.x, b.x AS y FROM a [RANGE 4 sec SLIDE 3 sec], b [RANGE 4 sec SLIDE 3 sec] "
    "WHERE a.k = b.k AND NOT EXISTS (SELECT 1 FROM c [RANGE 2 sec SLIDE 3 sec] WHERE c.k = a.k)"
)
# Seldom micro-batches join their tuples at once, frequent ones let them wait for the multiple.
EVALUATION = Workload(
    "SELECT a.k, a.x, b.x AS y FROM a [RANGE 4 sec SLIDE 2 sec], b [RANGE 4 sec SLIDE 2 sec], "
    "c [RANGE 4 sec SLIDE 2 sec] WHERE a.k = b.k AND c.k = b.k",
    4 * SECOND,
    SECOND // 2,
)


def tuples(stream: str, epoch: int, workload: Workload) -> Arrivals:
    """Stream a has many tuples with different keys, then few with the same; of b it is the other way round."""
    turned, (begin, span) = epoch >= TURN, workload.span(epoch)
    number = {"a": 3 if turned else 24, "b": 24 if turned else 3, "c": 2}[stream]
    ts = begin + np.arange(number) * (span // number) + 1
    keys = np.arange(number) * 7 % (3 if turned else 20) if stream != "c" else np.array([epoch % 3, 9])
    rows = {f"{stream}.k": keys, f"{stream}.x": ts} if stream != "c" else {"c.k": keys}
    return Arrivals(pa.table(rows), ts)


class Directories:
    """Where a replanner finds its plans, without Spark."""

    def __init__(self, state: Path, wanted: bool) -> None:
        self.shared = SimpleNamespace(settings=SimpleNamespace(replace_plans=wanted), catalog=CATALOG)
        self._state = state

    def bucketed(self, plan: Node, _: str, strategy: str) -> BucketedPlan:
        session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=BUCKETS))
        return BucketedPlan(plan, session, self._state, BUCKETS, durable=True, strategy=strategy)


class Answers(Reader):
    """Gets the answers at the multiples of SLIDE, each as of its own time."""

    def __init__(self, told: Told, plan: Node) -> None:
        super().__init__(told)
        self._sampler, self.kept_result = Sampler(plan), None

    def take(self, changes: Changes, instants: EpochInstants) -> list[Any]:
        if instants.low is None:
            self._sampler.stand(changes, instants.now, instants.begins)
            return []
        answers = self._sampler.answers(changes, instants.low, instants.now, instants.begins)
        return [(self, (as_of, rows)) for as_of, rows in answers]

    def tell(self, answer: Any) -> None:
        as_of, table = answer
        rows = sorted(table.to_pylist(), key=repr)
        assert self._told.setdefault((as_of, as_of), rows) == rows


def opened(directory: Path, told: Told, workload: Workload = CHANGES, wanted: bool = True) -> PlanRuntime:
    """As another process would: nothing is remembered of the files."""
    state = directory / "state"
    bucket_state.forget(state)
    state.mkdir(parents=True, exist_ok=True)
    places: Any = Directories(state, wanted)
    plan = workload.plan
    replanner = Replanner(ContinuousQuery(plan=plan, written=workload.written, name="q", text=workload.text), places)
    parts = PlanParts(STREAMS, places.bucketed(plan, "", "upa"), state, EpochLog(directory / "log"))
    runtime = PlanRuntime(plan, parts, replanner)
    runtime.join(1, Reader(told) if sampling_of(plan) is None else Answers(told, plan))
    runtime.load()
    return runtime


def run(directory: Path, told: Told, workload: Workload = CHANGES, **how: Any) -> PlanRuntime:
    """Spark brings every micro-batch, in doubt again; the plan knows which ones it has taken."""
    runtime = opened(directory, told, workload, **how)
    for epoch in range(EPOCHS):
        for name in "abc":
            mine, rows = tuples(name, epoch, workload), Any
            here = {
                place: Arrivals(mine.rows.select(each.schema.names), mine.ts)
                for place, each in enumerate(windows(runtime.plan))
                if each.stream == name
            }
            latest = int(mine.ts.max())
            seen, given = BatchTimes(latest, int(mine.ts.min()), None), {runtime.leaves: runtime.leaves.table(here)}
            frame: Any = rows
            runtime.take(Batch(name, frame, len(mine.ts), epoch, seen, latest, given))
    for name in "abc":
        runtime.finish(name)
    return runtime


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 5)
        patch.setattr("os.fsync", lambda descriptor: None)
        patch.setattr("sash.runtime.continuous.plan_runtime.LOOK_EVERY", 6)
        # The prices of so few tuples differ by little.
        patch.setattr("sash.runtime.continuous.replanning.FACTOR", 1.01)
        yield


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, list[Any]]:
    """Of a plan that is never replaced."""
    told: Told = {}
    runtime = run(tmp_path_factory.mktemp("never"), told, wanted=False)
    assert runtime.replaced is None and runtime.plan == CHANGES.plan and len(told) >= EPOCHS
    return told, rows_of(runtime)


def rows_of(runtime: PlanRuntime) -> list[Any]:
    return sorted(map(repr, runtime.rows()[0].to_table().to_pylist()))


def sorted_rows(told: Told) -> Told:
    """Rows of one instant have no order."""
    return {key: sorted(rows, key=repr) for key, rows in told.items()}


def negates_first(plan: Node) -> bool:
    return any(isinstance(node, Join) and isinstance(node.left, Negation) for _, node in edges(plan))


def test_a_plan_is_replaced_when_its_streams_turn_over(
    expected: tuple[Told, list[Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: Told = {}
    with caplog.at_level("INFO", logger="sash"):
        runtime = run(tmp_path, told)
    assert sorted_rows(told) == sorted_rows(expected[0]) and rows_of(runtime) == expected[1]
    found = events(caplog)
    assert [each["event"] for each in found] == ["plan.replaced"] * 2 and found[0]["query"] == "q"
    assert runtime.replaced is not None and runtime.replaced.number == 2
    assert found[1]["as_of"] == to_datetime(runtime.replaced.at - 1)
    assert found[1]["before"] == runtime.replaced.before > runtime.replaced.after == found[1]["after"]
    measured = Statistics.of(runtime.replaced.measurements)
    assert negates_first(runtime.plan) and optimise(CHANGES.written, measured) == runtime.plan
    assert opened(tmp_path, {}).plan == runtime.plan


def test_a_state_that_belongs_on_the_executors_stays_there(
    expected: tuple[Told, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sash.runtime.continuous.plan_runtime.MOST_MOVED", 20)
    told: Told = {}
    runtime = run(tmp_path, told)
    assert runtime.replaced is None and sorted_rows(told) == sorted_rows(expected[0])
    explained = explain_continuous(unmeasured(route_plan(CHANGES.written, AUTO)).as_it_runs(runtime))
    assert re.search(r"Plan not replaced while it runs: its state has \d+ rows, and 20 at most are moved", explained)


@pytest.mark.parametrize(
    ("select", "window", "reason"),
    [
        ("a.x, b.x AS y", "[RANGE 4 sec]", "a join of two windows has one plan"),
        ("a.x, b.x AS y", "[RANGE 4 sec SLIDE 2 sec]", None),
        ("Istream(a.x)", "[RANGE 4 sec]", "its answer depends on earlier answers"),
    ],
)
def test_explain_says_why_a_plan_stays(select: str, window: str, reason: str | None) -> None:
    text = f"SELECT {select} FROM a {window}, b {window} WHERE a.k = b.k"
    written = plan_changes(bind(as_select(text), CATALOG))
    lines = explain_continuous(unmeasured(route_plan(written, AUTO))).splitlines()
    said = [line for line in lines if line.startswith("Plan not replaced")]
    assert said == ([] if reason is None else [f"Plan not replaced while it runs: {reason}"])


def test_rows_with_other_expiries_keep_the_plan(
    expected: tuple[Told, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sash.runtime.continuous.plan_runtime.are_same", lambda *rows: False)
    told: Told = {}
    with caplog.at_level("INFO", logger="sash"):
        runtime = run(tmp_path, told)
    assert runtime.replaced is None and sorted_rows(told) == sorted_rows(expected[0])
    assert {each["event"] for each in events(caplog)} == {"plan.kept"}
    check_files(runtime, tmp_path)


def test_a_version_that_makes_another_plan_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, {})
    monkeypatch.setattr("sash.runtime.continuous.replanning.cheapest", lambda plans, *known: plans[0])
    with pytest.raises(CheckpointError, match=r"was replaced by one that this version .* DROP QUERY q"):
        opened(tmp_path, {})


def check_files(runtime: PlanRuntime, place: Path) -> None:
    left = {path.name for path in (place / "state").iterdir()}
    needed = {file for each in runtime.manifests.values() for file in bucket_state.files_of(each)}
    assert left == needed, "no file is left over, none is missing"


def moments_of(workload: Workload, directory: Path) -> list[int]:
    """The moments of writing during the replacements."""
    spans, count, begun = list[int](), Death(at=-1), list[int]()
    with pytest.MonkeyPatch.context() as patch, listening(count):
        begin, take = BucketedPlan.begun, PlanRuntime.take

        def watched(self: BucketedPlan, *how: Any) -> Any:
            begun.append(count.moments)
            return begin(self, *how)

        def taken(self: PlanRuntime, batch: Batch) -> int:
            missed = take(self, batch)
            spans.extend(range(begun.pop() + 1, count.moments + 2) if begun else ())
            return missed

        patch.setattr(BucketedPlan, "begun", watched)
        patch.setattr(PlanRuntime, "take", taken)
        run(directory, {}, workload)
    assert len(spans) > 20
    return spans


@pytest.fixture(scope="module")
def replacing(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    return moments_of(CHANGES, tmp_path_factory.mktemp("watched"))


def check_moments(
    expected: tuple[Told, list[Any]], moments: list[int], directory: Path, workload: Workload = CHANGES
) -> set[int]:
    """How many replacements a process found that came after the fault."""
    found = set()
    for at in moments:
        for name, fault in {"dead": Death(at), "torn": Death(at, half=True), "full": FullDisk(at)}.items():
            told: Told = {}
            place = directory / f"{at}-{name}"
            with survived(fault):
                run(place, told, workload)
            replaced = opened(place, told, workload).replaced
            found.add(0 if replaced is None else replaced.number)
            runtime = run(place, told, workload)
            assert sorted_rows(told) == sorted_rows(expected[0]) and rows_of(runtime) == expected[1], (at, name)
            check_files(runtime, place)
    return found


def test_faults_at_some_moments_of_a_replacement(
    expected: tuple[Told, list[Any]], replacing: list[int], tmp_path: Path
) -> None:
    assert {0, 1} <= check_moments(expected, replacing[::37], tmp_path)


@pytest.mark.deep
def test_faults_at_every_moment_of_a_replacement(
    expected: tuple[Told, list[Any]], replacing: list[int], tmp_path: Path
) -> None:
    assert check_moments(expected, replacing, tmp_path) == {0, 1, 2}


@pytest.fixture(scope="module")
def unreplaced(tmp_path_factory: pytest.TempPathFactory) -> dict[Workload, tuple[Told, list[Any]]]:
    found = dict[Workload, tuple[Told, list[Any]]]()
    for workload in (SLIDE, EVALUATION):
        told: Told = {}
        runtime = run(tmp_path_factory.mktemp("unreplaced"), told, workload, wanted=False)
        found[workload] = told, rows_of(runtime)
        assert runtime.plan == workload.plan and len([rows for rows in told.values() if rows]) > 5
    return found


@pytest.mark.parametrize(("workload", "times"), [(SLIDE, 1), (EVALUATION, 2)], ids=["order", "evaluation"])
def test_a_plan_under_slide_is_replaced_at_a_multiple(
    workload: Workload, times: int, unreplaced: dict[Workload, tuple[Told, list[Any]]], tmp_path: Path
) -> None:
    told: Told = {}
    runtime = run(tmp_path, told, workload)
    assert (sorted_rows(told), rows_of(runtime)) == unreplaced[workload]
    assert runtime.replaced is not None and runtime.replaced.number == times
    assert opened(tmp_path, {}, workload).plan == runtime.plan
    sampling = sampling_of(runtime.plan)
    assert sampling is not None and sampling.aligned(runtime.replaced.at) == runtime.replaced.at


@pytest.mark.parametrize("workload", [SLIDE, EVALUATION], ids=["order", "evaluation"])
def test_faults_at_some_moments_of_a_replacement_under_slide(
    workload: Workload, unreplaced: dict[Workload, tuple[Told, list[Any]]], tmp_path: Path
) -> None:
    moments = moments_of(workload, tmp_path / "watched")
    assert {0, 1} <= check_moments(unreplaced[workload], moments[::37], tmp_path, workload)


@pytest.mark.deep
@pytest.mark.parametrize("workload", [SLIDE, EVALUATION], ids=["order", "evaluation"])
def test_faults_at_every_moment_of_a_replacement_under_slide(
    workload: Workload, unreplaced: dict[Workload, tuple[Told, list[Any]]], tmp_path: Path
) -> None:
    moments = moments_of(workload, tmp_path / "watched")
    assert {0, 1} <= check_moments(unreplaced[workload], moments, tmp_path, workload)


def test_only_a_number_that_has_changed_by_half_counts() -> None:
    before = Statistics({"s": 100.0}, {"s where k": 0.3}, {"s.k": 10.0}, epochs=1.0)
    assert not has_changed(before, Statistics({"s": 140.0}, {"s where k": 0.21}, {"s.k": 10.0}, epochs=1.0))
    assert has_changed(before, Statistics({"s": 60.0})) and has_changed(before, Statistics({"s": 100.0, "t": 1.0}))
