"""The thesis' operators, event by event, on the golden traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.catalog import Table
from sash.changes import Arrivals, Stage
from sash.changes.bucket_state import State, WorkingState
from sash.changes.distinct import CountingDistinctOp, DeltaStarOp
from sash.changes.matching import EXCEPT_ALL, shown
from sash.changes.operator import Epoch, StoredInput
from sash.core.changes import NEVER, Changes, UpdatePattern
from sash.core.versions import RowVersions
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import (
    Aggregated,
    BaseWindow,
    Column,
    Distinct,
    GroupBy,
    Join,
    Map,
    Negation,
    Node,
    NrrJoin,
    RelationJoin,
)
from sash.plan.expressions import Field, RowExpression

GOLDEN = Path(__file__).parents[1] / "golden" / "update_patterns.json"
EXAMPLES = {e["id"].removeprefix("update_patterns."): e for e in json.loads(GOLDEN.read_text())["examples"]}
END = 100
# Every trace gives the same output in one micro-batch, in one per instant, and in unequal ones.
CUTS = [[], list(range(1, END)), [7, 8, 20, 33]]


def window(name: str, length: int) -> BaseWindow:
    """A window over (value, timestamp) tuples: `t` tells results apart."""
    columns = (
        Column(f"{name}.v", RowExpression("v", pa.string())),
        Column(f"{name}.t", RowExpression("t", pa.int64())),
    )
    return BaseWindow(name, name, TimeWindow(length), columns)


def trace(
    plan: Node, *inputs: list[tuple[int, str]], cuts: list[int], table: RowVersions | None = None
) -> list[dict[str, Any]]:
    stage, state, low, found = Stage(plan), State(), 0, []
    for high in [*cuts, END]:
        arrived = {}
        for place, (schema, given) in enumerate(zip(stage.schemas, inputs, strict=True)):
            batch = [(ts, value) for ts, value in given if low <= ts < high]
            columns = [
                pa.array([value for _, value in batch], pa.string()),
                pa.array([ts for ts, _ in batch], pa.int64()),
            ]
            arrived[place] = Arrivals(
                pa.table(columns[: len(schema)], schema=schema), np.array([ts for ts, _ in batch])
            )
        tables = {} if table is None else {"companies": table}
        changes, state = stage.step(state, arrived, low, high, tables)
        rows = changes.rows.to_pylist()
        times = zip(changes.ts.tolist(), changes.exp.tolist(), changes.sign.tolist(), rows, strict=True)
        found += [{"at": ts, "exp": exp, "sign": sign, **row} for ts, exp, sign, row in times]
        low = high
    return found


@pytest.mark.parametrize("cuts", CUTS)
def test_join(cuts: list[int]) -> None:
    example = EXAMPLES["trace.join"]
    given = example["inputs"]
    plan = Join(window("S1", given["S1"]["window"]), window("S2", given["S2"]["window"]), (("S1.v", "S2.v"),))
    found = trace(plan, *(given[name]["tuples_ts_value"] for name in ("S1", "S2")), cuts=cuts)
    listed = [[each["at"], each["S1.v"], each["S1.t"], each["S2.t"], each["exp"]] for each in found]
    assert sorted(listed) == sorted(example["expected"]["output"])
    assert [each["at"] for each in found] == sorted(each["at"] for each in found)
    for now, size in example["expected"]["answer_sizes"].items():
        assert sum(each["at"] <= int(now) < each["exp"] for each in found) == size


@pytest.mark.parametrize("cuts", CUTS)
def test_negation(cuts: list[int]) -> None:
    example = EXAMPLES["trace.negation"]
    given = example["inputs"]
    plan = Negation(window("W1", given["W1"]["window"]), window("W2", given["W2"]["window"]), (("W1.v", "W2.v"),))
    found = trace(plan, *(given[name]["tuples_ts_value"] for name in ("W1", "W2")), cuts=cuts)
    listed = [
        [each["at"], "+-"[each["sign"] < 0], each["W1.v"], each["W1.t"], *([each["exp"]] if each["sign"] > 0 else [])]
        for each in found
    ]
    assert listed == example["expected"]["output"]


def test_the_equation_of_negation() -> None:
    pairs = EXAMPLES["negation.equation"]["inputs"]["v1_v2"]
    assert [shown(EXCEPT_ALL, *pair) for pair in pairs] == EXAMPLES["negation.equation"]["expected"]["v3"]


def test_the_rules_of_negation() -> None:
    """What an event must bring, from the counts before it."""
    steps = {
        "arrival on W1": (1, 0),
        "arrival on W2": (0, 1),
        "expiration from W2": (0, -1),
        "expiration from W1 of a tuple not in the answer": (-1, 0),
    }
    found = []
    for case in EXAMPLES["negation.rules"]["inputs"]["cases"]:
        v1, v2 = case["before"]["v1"], case["before"]["v2"]
        more = steps[case["event"]]
        change = shown(EXCEPT_ALL, v1 + more[0], v2 + more[1]) - shown(EXCEPT_ALL, v1, v2)
        found.append({1: "+", 0: "none", -1: "-"}[change])
    assert found == EXAMPLES["negation.rules"]["expected"]["output"]


@pytest.mark.parametrize("cuts", CUTS)
def test_delta_star(cuts: list[int]) -> None:
    example = EXAMPLES["trace.delta_star"]
    length = example["inputs"]["window"]
    plan = Distinct(Map(window("S", length), (("v", Field("S.v", pa.string())),)))
    found = trace(plan, example["inputs"]["tuples_ts_value"], cuts=cuts)
    # A result's source is the tuple that expires with it.
    assert [[e["at"], e["v"], e["exp"] - length, e["exp"]] for e in found] == example["expected"]["output"]
    assert [e["exp"] - e["at"] for e in found] == example["expected"]["output_lifetimes"]


def lived(tuples: list[tuple[int, str, int]]) -> Changes:
    ts, values, exp = zip(*tuples, strict=True)
    ones = np.ones(len(ts), dtype=np.int8)
    return Changes(pa.table({"v": values}), np.array(ts), np.array(exp), ones, np.zeros((len(ts), 0), dtype=np.int64))


def test_delta_star_keeps_the_duplicate_that_expires_last() -> None:
    example = EXAMPLES["trace.delta_star_weak_input"]
    changes = lived(example["inputs"]["tuples_ts_value_exp"])
    found = DeltaStarOp(changes.rows.schema, "", 0).step([changes], WorkingState(State()), Epoch(0, END))
    source = {exp: ts for ts, _, exp in example["inputs"]["tuples_ts_value_exp"]}
    listed = [
        [t, v, source[e], e]
        for t, v, e in zip(found.ts.tolist(), found.rows["v"].to_pylist(), found.exp.tolist(), strict=True)
    ]
    assert listed == example["expected"]["output_aux_latest_exp"]


def test_the_counting_duplicate_elimination() -> None:
    example = EXAMPLES["trace.distinct_strict"]
    length = example["inputs"]["window"]
    changes = lived([(ts, value, ts + length) for ts, value in example["inputs"]["tuples_ts_value"]])
    operator = CountingDistinctOp(changes.rows.schema, StoredInput("0", UpdatePattern.WEAKEST, length), 0)
    found = operator.step([changes], WorkingState(State()), Epoch(0, END))
    signs = ["+-"[sign < 0] for sign in found.sign.tolist()]
    assert [list(each) for each in zip(found.ts.tolist(), signs, found.rows["v"].to_pylist(), strict=True)] == example[
        "expected"
    ]["output"]
    assert set(found.exp.tolist()) == {NEVER}


@pytest.mark.parametrize("unbounded", [True, False])
def test_an_aggregate_over_external_windows_replaces_its_value(unbounded: bool) -> None:
    """The external half of figure 3.2: what is shown, and what is left at the end."""
    example = EXAMPLES["aggregate.four_window_types"]
    kind = TimeWindow(FOREVER) if unbounded else RowWindow(example["inputs"]["count_based_window"])
    base = BaseWindow("S", "S", kind, (Column("S.v", RowExpression("v", pa.int64())),))
    plan = GroupBy(base, (), (Aggregated("total", "sum", "S.v", pa.int64()),))
    values = example["inputs"]["values"]
    arrived = {0: Arrivals(pa.table({"S.v": values}), np.arange(len(values)))}
    found, _ = Stage(plan).step(State(), arrived, 0, END)
    expected = example["expected"][f"external_{'unbounded' if unbounded else 'sliding'}"]
    totals, signs = found.rows["total"].to_pylist(), found.sign.tolist()
    assert [total for total, sign in zip(totals, signs, strict=True) if sign > 0] == expected["output"]
    taken_back = [total for total, sign in zip(totals, signs, strict=True) if sign < 0]
    assert taken_back == expected["output"][:-1] and expected["output"][-1:] == expected["result_set_at_end"]


SCHEMA = pa.schema([("symbol", pa.string()), ("company", pa.string())])


def versions(initial: dict[str, str], updates: list[list[Any]]) -> RowVersions:
    """The rows of a table with when they begin and end."""
    found = {key: [key, value, 0, NEVER] for key, value in initial.items()}
    for at, kind, key, *value in updates:
        if kind == "insert":
            found[key] = [key, *value, at, NEVER]
        else:
            found[key][3] = at
    keys, values, begin, end = zip(*found.values(), strict=True)
    return RowVersions(pa.table([keys, values], schema=SCHEMA), np.array(begin), np.array(end), np.arange(len(keys)))


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("kind", [NrrJoin, RelationJoin])
def test_updates_of_a_table(kind: type[NrrJoin] | type[RelationJoin], cuts: list[int]) -> None:
    """With a non-retroactive relation a quote stays as it was; with a relation a deletion takes it back."""
    example = EXAMPLES["nrr.non_retroactive"]
    given = example["inputs"]
    table = versions(given["table_initial"], given["table_updates"])
    known = Table("companies", SCHEMA, ("symbol",), retroactive=kind is RelationJoin)
    columns = (("c.symbol", "symbol"), ("c.company", "company"))
    plan = kind(window("S", FOREVER), known, (("S.v", "c.symbol"),), columns)
    found = trace(plan, given["stream_ts_symbol"], cuts=cuts, table=table)
    if kind is NrrJoin:
        assert [[e["at"], e["c.symbol"], e["c.company"]] for e in found] == example["expected"]["nrr_join"]
        assert {e["sign"] for e in found} == {1}
    else:
        listed = [[e["at"], "+-"[e["sign"] < 0], e["S.t"], e["S.v"]] for e in found]
        assert listed == example["expected"]["relation_join"]


def test_a_tuple_is_gone_at_its_expiry() -> None:
    """Windows are half-open everywhere; chapter 5 of the thesis would join once more."""
    example = EXAMPLES["boundary.exp_inclusive"]
    old, new = example["inputs"]["u"], example["inputs"]["k"]
    plan = Join(window("S1", old["window"]), window("S2", old["window"]), (("S1.v", "S2.v"),))
    found = trace(plan, [(old["ts"], "x")], [(new["ts"], "x")], cuts=[])
    assert bool(found) is example["expected"]["joins_by_half_open_window"]
