"""Joins that differ in the lengths of their windows: one state, and the changes that each would have alone."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sash
import sash.changes.join
import sash.storage.epochs
from sash.changes import bucket_state
from sash.core.window import TimeWindow
from sash.plan.continuous import Filter, Join, Map, Node
from sash.plan.expressions import Field
from sash.plan.nested_joins import lengths_of, with_lengths
from sash.plan.rewrites import rewritten
from sash.runtime.continuous.nested_runtime import NestedJoinQuery, NestedJoinRuntime
from sash.runtime.continuous.plan_runtime import PlanParts, PlanRuntime
from sash.runtime.spark_pass import Batch, BatchTimes
from sash.sharing.rules import shares_longer_windows
from sash.spark.buckets import BucketedPlan
from sash.storage.epochs import EpochLog
from tests.runtime.test_continuous import declare, tuples, write
from tests.runtime.test_plan_faults import STREAMS, Reader, Told
from tests.support.examples import examples
from tests.support.faults import Death, FullDisk, survived
from tests.support.plans import INT, less, window
from tests.support.windows_in_duckdb import answer_of_changes

BUCKETS = 2
PAIRS: Node = Join(window("S", TimeWindow(1)), window("T", TimeWindow(1)), (("S.a", "T.a"),))
# Two pairs with the same row differ in nothing that a user sees.
PLAN: Node = Map(PAIRS, (("k", Field("S.a", INT)), ("b", Field("T.b", INT))))
# A micro-batch: for each stream, the distances between its tuples and their keys.
Part = tuple[list[tuple[int, int]], list[tuple[int, int]]]


@dataclass
class Life:
    """A query with windows of these lengths, registered before one micro-batch and dropped before another."""

    lengths: tuple[int, int]
    comes: int = 0
    goes: int = 99
    told: Told = field(default_factory=dict)

    def query(self, serial: int) -> NestedJoinQuery:
        plan = with_lengths(PLAN, self.lengths)
        return NestedJoinQuery(plan=plan, written=plan, serial=serial)


@pytest.fixture(scope="module", autouse=True)
def cheap_files() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sash.storage.epochs, "SNAPSHOT_EVERY", 3)
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


def bucketed(plan: Node, directory: Path) -> BucketedPlan:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=BUCKETS))
    return BucketedPlan(plan, session, directory / "state", BUCKETS, durable=True)


def parts_of(plan: Node, directory: Path) -> PlanParts:
    bucket_state.forget(directory / "state")
    (directory / "state").mkdir(parents=True, exist_ok=True)
    return PlanParts(STREAMS, bucketed(plan, directory), directory / "state", EpochLog(directory / "log"))


def alone(life: Life, directory: Path) -> PlanRuntime:
    """The query with a state of its own."""
    plan = with_lengths(PLAN, life.lengths)
    runtime = PlanRuntime(plan, parts_of(plan, directory))
    runtime.join(1, Reader(life.told))
    return runtime


def opened(members: dict[int, Life], directory: Path) -> NestedJoinRuntime:
    """As another process would."""
    serial, first = next(iter(members.items()))
    founder = first.query(serial)
    places: Any = SimpleNamespace(bucketed=lambda plan, state, execution: bucketed(plan, directory))
    runtime = NestedJoinRuntime(founder, parts_of(founder.plan, directory), places)
    for serial, life in members.items():
        runtime.join_as(life.query(serial), Reader(life.told))
    runtime.load()
    return runtime


def stored(runtime: PlanRuntime, directory: Path) -> int:
    states = [bucket_state.load(directory / "state", int(bucket), each) for bucket, each in runtime.manifests.items()]
    return sum(state.tuples for state in states)


class Feed:
    """The micro-batches of both streams, in turn."""

    def __init__(self) -> None:
        self.now = [0, 0]

    def give(self, part: Part, epoch: int, runtimes: Sequence[PlanRuntime]) -> None:
        for leaf, (name, some) in enumerate(zip("ST", part, strict=True)):
            times = np.cumsum([self.now[leaf], *(distance for distance, _ in some)])[1:]
            keys = [key for _, key in some]
            self.now[leaf] = int(times[-1]) if len(times) else self.now[leaf]
            table = pa.table(
                {
                    "_leaf": pa.array([leaf] * len(keys), pa.int32()),
                    "_t": pa.array(times, INT),
                    "_arrival": pa.array(range(len(keys)), INT),
                    "_bucket": pa.array([key % BUCKETS for key in keys], pa.int32()),
                    "s0": pa.array(keys, INT),
                    "s1": pa.array(times, INT),
                }
            )
            latest = int(times.max()) if len(times) else None
            seen = BatchTimes(latest, int(times.min()) if len(times) else None, None)
            frame: Any = SimpleNamespace()
            for runtime in runtimes:
                runtime.take(Batch(name, frame, len(keys), epoch, seen, latest, {runtime.leaves: table}))


def news(told: Told, since: int) -> dict[Any, list[str]]:
    """The changes of every epoch after a time."""
    return {key: [str(row) for row in rows] for key, rows in told.items() if key[0] is not None and key[0] > since}


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))


lengths = st.tuples(st.integers(1, 12), st.integers(1, 12))
some_tuples = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=5)


@given(
    lives=st.lists(st.builds(Life, lengths, st.sampled_from([0, 0, 2, 3]), st.integers(4, 9)), min_size=1, max_size=4),
    batches=st.lists(st.tuples(some_tuples, some_tuples), min_size=6, max_size=6),
    restarts=st.sets(st.integers(1, 5), max_size=2),
)
@example(
    lives=[Life((9, 9), 0, 4), Life((4, 4), 2), Life((9, 3), 3), Life((2, 2))],
    batches=[([(1, 0), (1, 1)], [(1, 0), (2, 1)])] * 6,
    restarts={3, 5},
)
@settings(max_examples=examples(60), deadline=None)
def test_each_query_has_the_changes_that_it_would_have_alone(
    lives: list[Life], batches: list[Part], restarts: set[int]
) -> None:
    """Whenever it comes and goes, and the process is restarted. A late one has its rows at once, where it shares."""
    for life in lives:
        life.told.clear()
    place = Path(tempfile.mkdtemp())
    members: dict[Path, dict[int, Life]] = {}
    shared: dict[Path, NestedJoinRuntime] = {}
    apart: dict[int, tuple[PlanRuntime, Life, int]] = {}
    feed = Feed()
    for epoch, part in enumerate(batches):
        if epoch in restarts:
            shared = {directory: opened(members[directory], directory) for directory in shared}
        for serial, life in enumerate(lives):
            if life.comes == epoch:
                query, free = life.query(serial), place / f"group-{serial}"
                home = next((directory for directory, each in shared.items() if each.admit(query)), free)
                members.setdefault(home, {})[serial] = life
                if home == free:
                    shared[home] = opened(members[home], home)
                else:
                    shared[home].join_as(query, Reader(life.told))
                # Alone it would know what the state that it shares knows.
                begun = min(lives[each].comes for each in members[home]) if home != free else epoch
                mine = Life(life.lengths, life.comes, life.goes)
                oracle = alone(mine, place / f"alone-{serial}")
                replay(oracle, batches[:epoch], begun)
                apart[serial] = oracle, mine, oracle.now
            if life.goes == epoch and serial in apart:
                home = next(directory for directory in members if serial in members[directory])
                del members[home][serial], apart[serial]
                if shared[home].leave(serial, lambda: None, last=not members[home]):
                    del shared[home], members[home]
        feed.give(part, epoch, [*shared.values(), *(oracle for oracle, *_ in apart.values())])
        for directory, runtime in shared.items():
            for serial, life in members[directory].items():
                oracle, mine, since = apart[serial]
                assert rows(runtime.answer(life.query(serial))) == rows(oracle.rows()[0].rows), (epoch, serial)
                assert runtime.count_of(serial) == len(oracle.rows()[0])
                assert news(life.told, since) == news(mine.told, since), (epoch, serial)
    shutil.rmtree(place)


def replay(runtime: PlanRuntime, batches: list[Part], begun: int) -> None:
    """Give the micro-batches so far, from one on; those before only pass."""
    feed = Feed()
    for epoch, part in enumerate(batches):
        feed.give(part, epoch, [runtime] if epoch >= begun else [])


PARTS: list[Part] = [([(1, key % 3) for key in range(9)], [(1, key % 3) for key in range(9)]) for _ in range(4)]


@pytest.mark.parametrize("other", [(9, 9), (12, 4), (20, 30)])
def test_one_state_and_one_probe_for_all(tmp_path: Path, other: tuple[int, int], monkeypatch: Any) -> None:
    """The state is that of the longest windows, and shrinks when the query with them leaves."""
    probes: list[int] = []
    probe = sash.changes.join.matched_pairs
    monkeypatch.setattr(
        sash.changes.join, "matched_pairs", lambda *given, **named: probes.append(1) or probe(*given, **named)
    )
    long, short = Life((20, 20)), Life(other)
    runtime = opened({1: long, 2: short}, tmp_path / "shared")
    longest = Life((max(20, other[0]), max(20, other[1])))
    whole, small = alone(longest, tmp_path / "whole"), alone(Life(other), tmp_path / "small")
    counted = []
    for each in (runtime, whole):
        probes.clear()
        feed = Feed()
        for epoch, part in enumerate(PARTS):
            feed.give(part, epoch, [each])
        counted.append(len(probes))
    assert counted[0] == counted[1], "no probe for the other query"
    assert stored(runtime, tmp_path / "shared") == stored(whole, tmp_path / "whole")
    replay(small, PARTS, 0)
    before = stored(runtime, tmp_path / "shared")
    runtime.leave(1, lambda: None, last=False)
    for each in (runtime, small):
        each.advance("S", each.now + 2)
        each.advance("T", each.now + 2)
    assert stored(runtime, tmp_path / "shared") == stored(small, tmp_path / "small") <= before
    assert rows(runtime.answer(short.query(2))) == rows(small.rows()[0].rows)


def test_faults_while_a_state_shrinks(tmp_path: Path) -> None:
    """Death or a full disk at any moment: the queries go on as if nothing had happened."""

    def run(directory: Path, told: dict[str, Told]) -> tuple[Counter[str], int]:
        lives = {1: Life((20, 20), told=told["long"]), 2: Life((9, 5), told=told["short"])}
        runtime = opened(lives, directory)
        feed = Feed()
        for epoch, part in enumerate(PARTS):
            if epoch == 2:
                runtime.leave(1, lambda: None, last=False)
            feed.give(part, epoch, [runtime])
        return rows(runtime.answer(lives[2].query(2))), stored(runtime, directory)

    expected: dict[str, Told] = {"long": {}, "short": {}}
    with sash.core.faults.listening(counting := Death(at=-1)):
        whole = run(tmp_path / "whole", expected)
    for at in range(1, counting.moments + 1, 7):
        for name, fault in {"dead": Death(at), "full": FullDisk(at)}.items():
            told: dict[str, Told] = {"long": {}, "short": {}}
            with survived(fault):
                run(tmp_path / f"{at}-{name}", told)
            found = run(tmp_path / f"{at}-{name}", told)
            assert found == whole and news(told["short"], -1) == news(expected["short"], -1), (at, name)


def test_which_joins_are_nested() -> None:
    assert lengths_of(with_lengths(PLAN, (7, 5))) == (7, 5)
    assert lengths_of(Filter(PLAN, less("k", 3))) == (1, 1)
    # The optimiser has no other plan of such a join, so none takes over while it runs.
    assert len(rewritten(PLAN)) == len(rewritten(Filter(PLAN, less("k", 3)))) == 1
    unbounded = Join(window("S", TimeWindow(sash.core.window.FOREVER)), window("T", TimeWindow(1)), (("S.a", "T.a"),))
    three = Join(PAIRS, window("U", TimeWindow(1)), (("S.a", "U.a"),))
    for plan in (window("S", TimeWindow(7)), unbounded, three, Map(PAIRS, (("_first_exp", Field("S.a", INT)),))):
        assert lengths_of(plan) is None


@pytest.mark.parametrize(
    ("kept", "asked", "has_expiries", "allowed"),
    [
        (None, (9, 1), False, True),
        ((9, 9), (9, 9), False, True),
        ((9, 9), (4, 4), False, True),
        ((9, 9), (4, 9), False, False),
        ((9, 9), (4, 9), True, True),
        ((9, 9), (4, 10), True, False),
    ],
)
def test_the_rule(kept: Any, asked: tuple[int, int], has_expiries: bool, allowed: bool) -> None:
    found = shares_longer_windows(kept, asked, has_expiries=has_expiries)
    assert (found.rule, found.allowed) == ("SS5", allowed) and found.reason


# -- in a session ------------------------------------------------------------------------------------------

TEXTS: dict[str, Callable[[int, int], str]] = {
    "pairs": lambda s, t: f"SELECT s.k, s.v, t.g FROM s [RANGE {s} sec], t [RANGE {t} sec] WHERE s.k = t.k",
    "self": lambda s, t: (
        f"SELECT a.v, b.v AS w FROM s [RANGE {s} sec] a, s [RANGE {t} sec] b WHERE a.k = b.k AND a.v < b.v"
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", TEXTS)
def test_queries_share_a_state_in_a_session(spark: Any, tmp_path: Path, kind: str) -> None:
    """Two from the start, one that comes later, one whose longer windows it cannot have; and across a restart."""
    parts = {"s": tuples(41, parts=6), "t": tuples(42, parts=6)}
    text = TEXTS[kind]
    names = {"long": text(4, 5), "even": text(2, 3), "uneven": text(3, 1), "late": text(1, 2), "longer": text(6, 6)}

    def life(directory: Path, chosen: Sequence[str]) -> dict[str, sash.Query]:
        queries = {}
        for first, last in ((0, 2), (2, 4), (4, 6)):
            for name, each in parts.items():
                write(each[first:last], tmp_path / directory / name, first)
            with sash.connect(spark=spark, checkpoint=tmp_path / directory / "checkpoint") as session:
                declare(session, tmp_path / directory)
                session.register("SELECT k FROM s [NOW] UNION ALL SELECT k FROM t [NOW]", name="other")
                for name in chosen:
                    is_there = first > 0 if name in ("late", "longer") else first < 4 or name != "long"
                    if is_there:
                        queries[name] = session.register(names[name], name=name)
                if first == 2 and len(chosen) > 1:
                    stats = session.stats()["queries"]
                    assert len({stats[name]["plan"] for name in ("long", "even", "uneven", "late")}) == 1
                    assert stats["longer"]["plan"] != stats["long"]["plan"]
                    assert "State shared with long, even, uneven, late: pairs in the windows of 4 sec and 5 sec" in (
                        session.explain(text(1, 1))
                    )
                    assert "State shared with longer: no tuple has come" in session.explain(text(7, 7))
                session.run()
                for name in ("even", "uneven") if first == 4 and len(chosen) > 1 else ():
                    key = session.queries[name].view().schema.names[0]
                    having = [row for row in session.queries[name].view().to_pylist() if row[key] == 2]
                    for statement in (f"SELECT * FROM {name} WHERE {key} = 2", f"CREATE INDEX ON {name} ({key})"):
                        session.sql(statement)
                        found = session.query(f"SELECT * FROM {name} WHERE {key} = 2").to_pylist()
                        assert Counter(map(str, found)) == Counter(map(str, having)), name
                if "longer" in session.queries and len(chosen) > 1:
                    assert "State not shared with longer: windows of 7 sec and 7 sec" in session.explain(text(7, 7))
                if first == 2 and len(chosen) > 1:
                    queries["long"].drop()
        return queries

    (tmp_path / "shared").mkdir()
    shared = life(Path("shared"), tuple(names))
    for name in ("even", "uneven", "late", "longer"):
        (tmp_path / name).mkdir()
        own = life(Path(name), (name,))[name]
        assert own.error is None and shared[name].error is None
        times = [*own.changes()["_ts"].cast(pa.int64()).to_pylist()]
        begin = min(times) if name in ("late", "longer") else 0
        for now in sorted({time for time in times if time > begin + 3_000_000})[::5]:
            assert answer_of_changes(shared[name].changes(), now) == answer_of_changes(own.changes(), now), (name, now)
