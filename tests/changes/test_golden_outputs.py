"""Relation-to-stream operators, internal windows, windows on results and restore semantics on the golden traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State
from sash.core.changes import NEVER
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import Aggregated, BaseWindow, Column, GroupBy, Join, Node
from sash.plan.expressions import RowExpression
from sash.plan.lazy_joins import lazily
from sash.plan.outputs import DSTREAM, ISTREAM, Deltas, Outliving, ResultWindow, Sampled, Snapshots, Stamped
from tests.changes.test_golden_traces import CUTS, END, EXAMPLES, trace, window

GIVEN = EXAMPLES["trace.join"]["inputs"]
JOIN = Join(window("S1", GIVEN["S1"]["window"]), window("S2", GIVEN["S2"]["window"]), (("S1.v", "S2.v"),))
TUPLES = [GIVEN[name]["tuples_ts_value"] for name in ("S1", "S2")]


def pairs(found: Iterable[dict[str, Any]]) -> list[list[int]]:
    return sorted([each["S1.t"], each["S2.t"]] for each in found)


def by_time(found: list[dict[str, Any]]) -> dict[str, list[list[int]]]:
    times = dict.fromkeys(each["at"] for each in found)
    return {str(time): pairs(each for each in found if each["at"] == time) for time in times}


def alive(found: list[dict[str, Any]], now: int) -> list[dict[str, Any]]:
    assert all(each["sign"] > 0 for each in found)
    return [each for each in found if each["at"] <= now < each["exp"]]


@pytest.mark.parametrize("cuts", CUTS)
def test_istream_dstream_rstream(cuts: list[int]) -> None:
    expected = EXAMPLES["trace.istream_dstream_rstream"]["expected"]
    for kind in (ISTREAM, DSTREAM):
        found = trace(Deltas(JOIN, kind), *TUPLES, cuts=cuts)
        assert by_time(found) == {time: sorted(rows) for time, rows in expected[kind].items()}
        assert {(each["sign"], each["exp"]) for each in found} == {(1, NEVER)}
    relation = trace(JOIN, *TUPLES, cuts=cuts)
    for now, rows in expected["rstream"].items():
        assert pairs(alive(relation, int(now))) == sorted(rows)


@pytest.mark.parametrize("cuts", CUTS)
def test_wstream(cuts: list[int]) -> None:
    example = EXAMPLES["trace.wstream"]
    results = Outliving(window("R", 1))
    given = example["inputs"]["results_generated"]
    rows = trace(ResultWindow(results, RowWindow(example["inputs"]["rows"])), given, cuts=cuts)
    ranged = trace(ResultWindow(results, TimeWindow(example["inputs"]["range"])), given, cuts=cuts)
    for now in example["inputs"]["at"]:
        shown = [each["R.v"] for each in rows if each["at"] <= now and each["sign"] > 0]
        gone = [each["R.v"] for each in rows if each["at"] <= now and each["sign"] < 0]
        assert [each for each in shown if each not in gone] == example["expected"]["rows_3"][str(now)]
        assert [each["R.v"] for each in alive(ranged, now)] == example["expected"]["range_8"][str(now)]


def test_a_window_on_the_output_holds_the_answer() -> None:
    example = EXAMPLES["wstream.superset"]
    output = trace(ResultWindow(Outliving(JOIN), TimeWindow(example["inputs"]["T"])), *TUPLES, cuts=[])
    relation = trace(JOIN, *TUPLES, cuts=[])
    for now, sizes in example["expected"]["sizes"].items():
        answer, windowed = (pairs(alive(found, int(now))) for found in (relation, output))
        assert {"answer": len(answer), "output_window": len(windowed)} == sizes
        assert all(each in windowed for each in answer)


@pytest.mark.parametrize("unbounded", [True, False])
def test_an_aggregate_over_internal_windows_keeps_its_values(unbounded: bool) -> None:
    """The internal half of figure 3.2."""
    example = EXAMPLES["aggregate.four_window_types"]
    kind = TimeWindow(FOREVER) if unbounded else RowWindow(example["inputs"]["count_based_window"])
    base = BaseWindow("S", "S", kind, (Column("S.v", RowExpression("v", pa.int64())),), internal=True)
    plan = Outliving(GroupBy(base, (), (Aggregated("total", "sum", "S.v", pa.int64()),)))
    values = example["inputs"]["values"]
    found, _ = Stage(plan).step(State(), {0: Arrivals(pa.table({"S.v": values}), np.arange(len(values)))}, 0, END)
    expected = example["expected"][f"internal_{'unbounded' if unbounded else 'sliding'}"]
    assert found.rows["total"].to_pylist() == expected["output"] == expected["result_set_at_end"]
    assert set(found.sign.tolist()) == {1} and set(found.exp.tolist()) == {NEVER}


@pytest.mark.parametrize("cuts", CUTS)
def test_a_result_ends_with_its_external_tuple(cuts: list[int]) -> None:
    example = EXAMPLES["classify.join_one_external"]
    given = example["inputs"]
    external = Stamped(window("S1", given["S1"]["window"]), "S1 exp")
    plan = Outliving(Join(external, window("S2", given["S2"]["window"]), (("S1.v", "S2.v"),)), ("S1 exp",))
    found = trace(plan, *(given[name]["tuples"] for name in ("S1", "S2")), cuts=cuts)
    listed = [
        {"value": e["S1.v"], "generated": e["at"], "expires": e["exp"], "lifetime": e["exp"] - e["at"]} for e in found
    ]
    assert listed == example["expected"]["results"]
    assert ([e["exp"] for e in found] == sorted(e["exp"] for e in found)) is example["expected"]["fifo"]
    assert plan.pattern.label == example["expected"]["class_by_definition"]


def mixed(external: int, number: int) -> Node:
    """A join of windows of which the first ones are external."""
    sides = [window(f"S{place}", 9) for place in range(number)]
    stamps = tuple(f"S{place} exp" for place in range(external))
    nodes: list[Node] = [Stamped(side, f"S{i} exp") if i < external else side for i, side in enumerate(sides)]
    joined = nodes[0]
    for place, node in enumerate(nodes[1:], 1):
        joined = Join(joined, node, (("S0.v", f"S{place}.v"),))
    return Outliving(joined, stamps)


def test_a_join_is_monotonic_only_without_external_windows() -> None:
    example = EXAMPLES["classify.join_external_count"]
    found = [mixed(external, example["inputs"]["n"]).pattern.label for external in example["inputs"]["external"]]
    assert found == example["expected"]["class_by_definition"]


@pytest.mark.parametrize("cuts", CUTS)
def test_restore_semantics(cuts: list[int]) -> None:
    example = EXAMPLES["trace.periodic_restore"]
    slide = example["inputs"]["delta"]
    plans = {"no_restore": Deltas(Sampled(JOIN, slide), ISTREAM), "restore": Sampled(Deltas(JOIN, ISTREAM), slide)}
    for name, plan in [*plans.items(), *((name, lazily(plan)) for name, plan in plans.items())]:
        assert plan is not None
        found = trace(plan, *TUPLES, cuts=cuts)
        assert len(found) == example["expected"]["total"][name]
        wanted = {str(each["tau"]): sorted(each[name]) for each in example["expected"]["evaluations"]}
        assert by_time(found) == wanted
    relation, restored = (trace(Sampled(JOIN, slide, restore=each), *TUPLES, cuts=cuts) for each in (False, True))
    for each in example["expected"]["evaluations"]:
        more = [pair for pair in pairs(alive(restored, each["tau"])) if pair not in pairs(alive(relation, each["tau"]))]
        assert more == each["short_lived"]


def test_figure_3_4() -> None:
    """Each result is the tuple of a window as long as its lifetime."""
    example = EXAMPLES["trace.figure_3_4"]
    (first, second), expected = (example["inputs"][name] for name in ("tau1", "tau2")), example["expected"]
    seen: dict[tuple[bool, int], list[str]] = {}
    for name, (start, exp) in example["inputs"]["lifetimes"].items():
        for restore in (False, True):
            plan = Sampled(window("R", exp - start), second - first, restore=restore)
            found = trace(plan, [(start, name)], cuts=[])
            for now in (first, second):
                seen.setdefault((restore, now), []).extend(each["R.v"] for each in alive(found, now))
    assert seen[False, first] == seen[True, first] == expected["answer_tau1"]
    assert seen[False, second] == expected["answer_tau2"]
    assert seen[True, expected["restored_at"]] == expected["answer_tau2"] + expected["missing_without_restore"]


@pytest.mark.parametrize("cuts", CUTS)
def test_the_sum_of_chunks(cuts: list[int]) -> None:
    """SELECT SUM(Wstream(SUM(a))[ROWS 10]) FROM S [RANGE 6 sec SLIDE 6 sec]; chunk p is (6 (p - 1), 6 p]."""
    example = EXAMPLES["wstream.sum_of_chunks"]
    slide, chunks = 6, example["inputs"]["values_per_6_second_chunk"]
    base = BaseWindow("S", "S", TimeWindow(slide, slide), (Column("S.v", RowExpression("v", pa.int64())),))
    inner = GroupBy(base, (), (Aggregated("x", "sum", "S.v", pa.int64()),))
    results = ResultWindow(Snapshots(inner, slide), RowWindow(10))
    plan = Sampled(GroupBy(results, (), (Aggregated("total", "sum", "x", pa.int64()),)), slide)
    given = [
        (slide * chunk + 1 + place, value) for chunk, each in enumerate(chunks) for place, value in enumerate(each)
    ]
    sums, totals = ({} for _ in range(2))
    for node, found in ((Snapshots(inner, slide), sums), (plan, totals)):
        stage, state, low = Stage(node), State(), 0
        for high in [*cuts, END]:
            batch = [(ts, value) for ts, value in given if low <= ts < high]
            rows = pa.table({"S.v": pa.array([value for _, value in batch], pa.int64())})
            arrived = {0: Arrivals(rows, np.array([ts for ts, _ in batch], dtype=np.int64))}
            changes, state = stage.step(state, arrived, low, high)
            for ts, sign, value in zip(
                changes.ts.tolist(), changes.sign.tolist(), changes.rows[0].to_pylist(), strict=True
            ):
                if sign > 0:
                    found[ts] = value
            low = high
    assert [sums[slide * (chunk + 1)] or 0 for chunk in range(len(chunks))] == example["expected"]["chunk_sums"]
    latest, after = 0, []
    for chunk in range(1, len(chunks) + 1):
        latest = totals.get(slide * chunk, latest)
        after.append(latest)
    wanted = [after[chunk - 1] for chunk in example["expected"]["after_chunk"]]
    assert wanted == example["expected"]["sum_over_60_seconds"]
