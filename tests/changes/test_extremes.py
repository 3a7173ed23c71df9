"""Groups with MIN and MAX alone drop tuples early, and change their rows as groups do that keep all of them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes.bucket_state import State, WorkingState
from sash.changes.group_by import ExtremesGroupByOp, GroupByOp, outlasting
from sash.changes.operator import Epoch, StoredInput
from sash.core.changes import Changes, UpdatePattern
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import DIRECT, NT, UPA, Aggregated, BaseWindow, Column, GroupBy, Join, drops_outdone
from sash.plan.expressions import RowExpression
from tests.changes.test_plans_oracle import restored
from tests.support.examples import examples
from tests.support.plans import INT, window

END = 40
VALUES = {
    pa.int64(): st.integers(-2, 3),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]),
    pa.string(): st.sampled_from(["", "a", "b", "ß"]),
}
CALLS = [(), ("max:S.a",), ("min:S.a",), ("max:S.a", "min:S.b"), ("min:S.b", "max:S.b", "max:S.a")]
arrivals = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 12), st.integers(0, 2)), max_size=30)


def groups(type: pa.DataType, keys: tuple[str, ...], calls: tuple[str, ...]) -> GroupBy:
    """The node; its input has columns k, a and b."""
    types = {"k": INT, "a": type, "b": type}
    columns = tuple(Column(f"S.{name}", RowExpression(name, each, (name,))) for name, each in types.items())
    found = (call.split(":") for call in calls)
    aggregates = tuple(Aggregated(f"{name} {column}", name, column, type) for name, column in found)
    return GroupBy(BaseWindow("S", "S", TimeWindow(5), columns), keys, aggregates)


def stepped(
    kind: type[GroupByOp], node: GroupBy, tuples: Changes, cuts: list[int]
) -> tuple[list[list[tuple[object, ...]]], list[int]]:
    """The changes of each epoch, and how many tuples are alive in the buffer after it."""
    operator, state = kind(node, StoredInput("0", UpdatePattern.WEAK, 10, 3), 0), State()
    found, sizes, low = list[list[tuple[object, ...]]](), list[int](), 0
    for high in [*sorted(set(cuts)), END]:
        working = WorkingState(state)
        came = tuples.where((tuples.ts >= low) & (tuples.ts < high))
        changes = operator.step([came], working, Epoch(low, high))
        rows = [tuple(map(shown, row.values())) for row in changes.rows.to_pylist()]
        found.append(sorted(zip(changes.ts.tolist(), changes.sign.tolist(), rows, strict=True)))
        state, low = restored(working.finished()), high
        sizes.append(sum(int((chunk.tuples.exp >= high).sum()) for chunk in state.chunks("0")))
    return found, sizes


def shown(value: object) -> str:
    """NaN equals NaN, and zero has no sign."""
    return "0.0" if value == 0.0 and isinstance(value, float) else repr(value)


@pytest.mark.parametrize("calls", CALLS, ids=lambda calls: " ".join(calls) or "no aggregate")
@pytest.mark.parametrize("type", VALUES, ids=str)
@given(st.data())
@settings(max_examples=examples(40))
def test_rows_change_as_if_all_tuples_were_kept(type: pa.DataType, calls: tuple[str, ...], data: st.DataObject) -> None:
    node = groups(type, data.draw(st.sampled_from([("S.k",), ()] if calls else [("S.k",)])), calls)
    came = sorted(data.draw(arrivals, label="ts, life, key"))
    values = st.lists(st.one_of(st.none(), VALUES[type]), min_size=len(came), max_size=len(came))
    ts, life, keys = (np.array([each[i] for each in came], dtype=np.int64) for i in range(3))
    columns = [pa.array(keys), *(pa.array(data.draw(values), type) for _ in range(2))]
    tuples = Changes(
        pa.table(columns, schema=node.input.schema), ts, ts + life, np.ones(len(ts), dtype=np.int8),
        np.zeros((len(ts), 0), dtype=np.int64),
    )  # fmt: skip
    cuts = data.draw(st.lists(st.integers(1, END - 1), max_size=8), label="cuts")
    expected, every = stepped(GroupByOp, node, tuples, cuts)
    found, kept = stepped(ExtremesGroupByOp, node, tuples, cuts)
    assert found == expected
    assert all(few <= many for few, many in zip(kept, every, strict=True))


lives = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5)), max_size=20)


@given(lives)
def test_what_stays_is_what_nothing_outlives_and_outdoes(tuples: list[tuple[int, int, int]]) -> None:
    codes, exp, nearness = (np.array([each[i] for each in tuples], dtype=np.int64) for i in range(3))
    stays = outlasting(codes, exp, nearness)
    for place, (code, until, near) in enumerate(tuples):
        others = [each for other, each in enumerate(tuples) if other != place and each[0] == code]
        beaten = any(each[1:] != (until, near) and each[1] >= until and each[2] >= near for each in others)
        alike = [other for other, each in enumerate(tuples) if each == (code, until, near)]
        # Of tuples that are alike in everything one stays.
        assert stays[alike].sum() == (not beaten)


def test_which_groups_drop_tuples() -> None:
    """The decision: MIN and MAX alone, tuples that expire, and none that is taken back."""
    extremes = tuple(Aggregated(name, name, "S.b", INT) for name in ("min", "max"))
    counted = (*extremes, Aggregated("n", "count", None, INT))
    s, t = (window(name, TimeWindow(5)) for name in "ST")
    over = {"window": s, "join": Join(s, t, (("S.a", "T.a"),)), "rows": window("S", RowWindow(5)),
            "everything": window("S", TimeWindow(FOREVER))}  # fmt: skip
    decided = {name: drops_outdone(GroupBy(node, ("S.a",), extremes), UPA) for name, node in over.items()}
    assert decided == {"window": True, "join": True, "rows": False, "everything": False}
    assert not drops_outdone(GroupBy(s, ("S.a",), counted), UPA)
    assert [drops_outdone(GroupBy(s, ("S.a",), extremes), strategy) for strategy in (NT, DIRECT)] == [False, False]
