"""Random plans in stages and buckets against the definition: the answer does not depend on how work is divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Bucket, Stage
from sash.changes.bucket_state import State
from sash.changes.deltas import net
from sash.changes.hashing import buckets_of
from sash.changes.operator import WHOLE, Share
from sash.changes.stage import exchanged, numbers_of_buckets, run_stages
from sash.core.changes import Changes, together
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import STRATEGIES, Aggregated, Distinct, GroupBy, Join, Negation, Node, windows
from sash.plan.lazy_joins import evaluation_of
from sash.plan.stages import EVERYWHERE, Target, stages
from tests.changes.test_plans_oracle import END, needed, restored
from tests.changes.test_plans_oracle import run as run_in_one_stage
from tests.support.examples import examples
from tests.support.plans import INT, TABLES, dense_tuples, outputs, plans, tuples, updates, versions, window
from tests.support.relational import Inputs, Row, Versions, answer, check_net, listed, view

Listed = list[tuple[int, int, int, Row]]


class InBuckets:
    """A plan in its stages; those that may be spread have `most` buckets, and those that may be divided `shares`."""

    def __init__(self, plan: Node, most: int, strategy: str, shares: int = 1) -> None:
        self._plan = plan
        self._stages = stages(plan)
        self._buckets = numbers_of_buckets(self._stages, most)
        self._running = [Stage(plan, 3, strategy, part=stage) for stage in self._stages]
        self._states: dict[tuple[int, int], State] = {}
        self._shares = [Share(number, shares) for number in range(shares)]
        self.divided = shares > 1 and any(stage.is_divisible for stage in self._running)

    def step(self, arrived: Mapping[int, Arrivals], low: int, high: int, tables: Versions) -> Changes:
        def step(place: int, bucket: Bucket, given_changes: Mapping[str, Changes]) -> Changes:
            mine = {
                window: self._of_bucket(arrived[window], target, bucket)
                for window, target in self._stages[place].windows.items()
            }
            lazy = evaluation_of(self._plan)
            first = low if lazy is None else lazy.aligned(low)
            for changes in given_changes.values():
                assert all(first <= ts < high for ts in changes.ts.tolist()) and changes.in_order() is changes
            state, running = self._states.get((place, bucket.number), State()), self._running[place]
            steps = [
                running.step(
                    state, mine, low, high, needed(tables, low, high),
                    exchanged=given_changes, bucket=bucket, share=share,
                )
                for share in (self._shares if running.is_divisible else [WHOLE])
            ]  # fmt: skip
            assert all(written(after) == written(steps[0][1]) for _, after in steps)
            self._states[place, bucket.number] = restored(steps[0][1].with_own(after.own for _, after in steps))
            return together(found for found, _ in steps)

        found = run_stages(self._stages, self._buckets, step)
        return net(found) if self.divided else found

    def _of_bucket(self, arrived: Arrivals, target: Target, bucket: Bucket) -> Arrivals:
        if not isinstance(target, str):
            assert target is EVERYWHERE or bucket.of == 1
            return arrived
        mine = buckets_of(arrived.rows[target], bucket.of) == bucket.number
        return Arrivals(arrived.rows.filter(pa.array(mine)), arrived.ts[mine])


def written(state: State) -> object:
    """What a state's files would hold."""
    buffers = {name: [(each.partition, each.to_table()) for each in state.chunks(name)] for name in state.buffers}
    return buffers, state.counters


def run(
    plan: Node, inputs: Inputs, cuts: list[int], buckets: int, *, late: int = 0, strategy: str = "upa",
    tables: Versions | None = None, shares: int = 1,
) -> Listed:  # fmt: skip
    """All changes up to END, as `test_plans_oracle` has them, but in stages."""
    running, found, low = InBuckets(plan, buckets, strategy, shares), Listed(), 0
    for high in [*sorted(set(cuts)), END]:
        arrived = {}
        for place, (each, given_tuples) in enumerate(zip(windows(plan), inputs, strict=True)):
            first, last = (low + late if low else 0), (high + late if high < END else END)
            batch = [(ts, row) for ts, row in given_tuples if first <= ts < last]
            columns = [pa.array([row[i] for _, row in batch], field.type) for i, field in enumerate(each.schema)]
            times = np.array([ts for ts, _ in batch], dtype=np.int64)
            arrived[place] = Arrivals(pa.table(columns, schema=each.schema), times)
        changes = running.step(arrived, low, high, tables or {})
        assert all(low <= ts < high for ts in changes.ts.tolist()) and changes.ids.shape[1] == 0
        found += listed(changes)
        low = high
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(100))
def test_stages_give_the_definitions_answer_at_every_instant(strategy: str, data: st.DataObject) -> None:
    plan = data.draw(plans(7), label="plan")
    inputs = [data.draw(tuples, label=window.alias) for window in windows(plan)]
    check(data, plan, inputs, None, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(60))
def test_stages_with_tables(strategy: str, data: st.DataObject) -> None:
    plan = data.draw(plans(4, tables=True), label="plan")
    inputs = [data.draw(tuples, label=window.alias) for window in windows(plan)]
    tables = {table.name: versions(data.draw(updates, label=table.name)) for table in TABLES.values()}
    check(data, plan, inputs, tables, strategy)


def check(data: st.DataObject, plan: Node, inputs: Inputs, tables: Versions | None, strategy: str) -> None:
    """The definition's answer, and the same changes as in one stage, whatever the buckets and the cuts."""
    changes = check_against_one_stage(data, plan, inputs, tables, strategy)
    for now in range(END):
        assert view(changes, now) == answer(plan, inputs, now, tables), f"at {now}"


def check_against_one_stage(
    data: st.DataObject, plan: Node, inputs: Inputs, tables: Versions | None, strategy: str
) -> Listed:
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=6), label="cuts")
    late = data.draw(st.integers(0, 3), label="late")
    buckets = data.draw(st.integers(1, 3), label="buckets")
    changes = run(plan, inputs, cuts, buckets, late=late, strategy=strategy, tables=tables)
    check_net(changes)
    whole = Counter(run_in_one_stage(plan, inputs, [], strategy=strategy, tables=tables))
    assert Counter(changes) == whole
    for other in {1, 2, 3} - {buckets}:
        assert Counter(run(plan, inputs, [], other, strategy=strategy, tables=tables)) == whole
    return changes


# Plans that are surely cut, over tuples that surely meet.
S, T, U = (window(name, TimeWindow(4)) for name in "STU")
JOINED = Join(S, T, (("S.a", "T.a"),))
COUNT = (Aggregated("n", "count", None, INT),)
CUT = {
    "chain": Join(JOINED, U, (("T.b", "U.b"),)),
    "three": Join(Join(JOINED, U, (("T.b", "U.b"),)), window("V", RowWindow(3)), (("U.a", "V.b"),)),
    "groups": GroupBy(JOINED, ("T.b",), COUNT),
    "groups_of_groups": GroupBy(GroupBy(JOINED, ("S.a",), COUNT), ("n",), (Aggregated("m", "count", None, INT),)),
    "distinct": Distinct(GroupBy(window("S", RowWindow(3)), ("S.a",), COUNT)),
    "anti": Negation(JOINED, U, (("T.b", "U.b"),), whole=True),
    "bushy": Join(JOINED, Join(U, window("V", TimeWindow(3)), (("U.a", "V.a"),)), (("S.b", "V.b"),)),
    "above_negation": Join(Negation(S, T, (("S.a", "T.a"),), whole=True), U, (("S.b", "U.b"),)),
    "strict_below_negation": Negation(GroupBy(S, ("S.a",), COUNT), U, (("n", "U.b"),), whole=True),
}  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", CUT)
@given(st.data())
@settings(max_examples=examples(15))
def test_plans_that_are_cut(name: str, strategy: str, data: st.DataObject) -> None:
    plan = CUT[name]
    assert len(stages(plan)) > 1
    check(data, plan, [data.draw(dense_tuples, label=each.alias) for each in windows(plan)], None, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(30))
def test_an_aggregate_of_everything(strategy: str, data: st.DataObject) -> None:
    """Its row stays when nothing is left: no relational query says that, so one stage is the oracle."""
    plan = GroupBy(JOINED, (), (*COUNT, Aggregated("most", "max", "S.b", INT)))
    assert [stage.spread for stage in stages(plan)] == [True, False]
    inputs = [data.draw(dense_tuples, label=each.alias) for each in windows(plan)]
    check_against_one_stage(data, plan, inputs, None, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(40))
def test_outputs_in_stages(strategy: str, data: st.DataObject) -> None:
    """Istream, Dstream and SLIDE above plans that may be cut."""
    plan = data.draw(outputs(), label="plan")
    inputs = [data.draw(tuples, label=window.alias) for window in windows(plan)]
    check(data, plan, inputs, None, strategy)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.sampled_from([-1, 1])), max_size=20), st.data())
def test_an_exchange_loses_nothing_and_keeps_the_order(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    buckets = data.draw(st.integers(1, 4))
    ts, keys, sign = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    ids = np.arange(len(rows))[:, None]
    every = Changes(pa.table({"k": pa.array(keys, INT)}), ts, ts + 5, sign.astype(np.int8), ids).in_order()
    source = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))), dtype=np.int64)
    parts = exchanged([every.where(source == bucket) for bucket in range(3)], "k", buckets)
    assert sorted(i for part in parts for i in part.ids[:, 0].tolist()) == list(range(len(rows)))
    found = [set(part.rows["k"].to_pylist()) for part in parts]
    assert sum(map(len, found)) == len(set().union(*found))
    origin = dict(zip(every.ids[:, 0].tolist(), source.tolist(), strict=True))
    place = {number: at for at, number in enumerate(every.ids[:, 0].tolist())}
    for part in parts:
        columns = (part.ts.tolist(), part.sign.tolist(), part.ids[:, 0].tolist())
        order = [(at, sign, origin[i], place[i]) for at, sign, i in zip(*columns, strict=True)]
        assert order == sorted(order)
    assert len(together(parts)) == len(rows)
