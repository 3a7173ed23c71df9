"""The view of a continuous query and its indexes, against the definition's answer at every instant."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.catalog import StoredIndex
from sash.core.changes import Changes
from sash.plan.continuous import STRATEGIES, windows
from sash.runtime.answers import change_view
from sash.runtime.answers.change_view import ChangeView
from sash.sql import ROW_KINDS
from tests.changes.test_plans_oracle import END, run
from tests.support.examples import examples
from tests.support.plans import plans, tuples
from tests.support.relational import Row, answer

Listed = list[tuple[int, int, int, Row]]


def as_changes(listed: Listed, schema: pa.Schema) -> Changes:
    ts, exp, sign = (np.array([change[i] for change in listed], dtype=np.int64) for i in range(3))
    columns = [pa.array([row[i] for *_, row in listed], field.type) for i, field in enumerate(schema)]
    ids = np.zeros((len(listed), 0), dtype=np.int64)
    return Changes(pa.table(columns, schema=schema), ts, exp, sign.astype(np.int8), ids)


def rows_of(changes: Changes) -> Counter[Row]:
    return Counter(zip(*(column.to_pylist() for column in changes.rows.columns), strict=True))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(60))
def test_rows_by_an_index_are_those_of_the_definition(strategy: str, data: st.DataObject) -> None:
    """Whatever the plan, its update pattern, the epochs, when the index came, and who looks at all rows meanwhile."""
    plan = data.draw(plans(3), label="plan")
    inputs = [data.draw(tuples, label=window.alias) for window in windows(plan)]
    listed = run(plan, inputs, [], strategy=strategy)
    kind = data.draw(st.sampled_from(ROW_KINDS), label="kind")
    indexes = [StoredIndex("q", name, kind, 1) for name in plan.schema.names[:2]]
    wanted = data.draw(st.lists(st.integers(-1, 6), min_size=1, max_size=3), label="wanted")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(change_view, "FEW", data.draw(st.integers(0, 8), label="few"))
        view, low = ChangeView(plan.schema), 0
        for high in [*sorted(set(data.draw(st.lists(st.integers(1, END - 1), max_size=12), label="cuts"))), END]:
            view.add(as_changes([change for change in listed if low <= change[0] < high], plan.schema), high - 1)
            expected = answer(plan, inputs, high - 1)
            for index in data.draw(st.lists(st.sampled_from(indexes), max_size=2), label="asked"):
                place = plan.schema.names.index(index.column)
                found = view.having(index, pa.array(wanted, plan.schema.field(place).type), high - 1)
                assert rows_of(found) == {row: n for row, n in expected.items() if row[place] in wanted}
            if data.draw(st.booleans(), label="looked at"):
                assert rows_of(view.rows(high - 1)) == expected
            assert view.count(high - 1) == expected.total()
            low = high


def selection(first: int, number: int, lifetime: int) -> Changes:
    """A tuple each instant, of ten values in turn."""
    listed = [(ts, ts + lifetime, 1, (ts % 10, ts)) for ts in range(first, first + number)]
    return as_changes(listed, pa.schema([("k", pa.int64()), ("v", pa.int64())]))


def test_an_index_is_there_while_a_query_has_it() -> None:
    view = ChangeView(selection(0, 0, 1).rows.schema)
    first, second = (StoredIndex("q", "k", "db", serial) for serial in (1, 2))
    made = view.index(first)
    view.add(selection(0, 30, 100), 29)
    assert view.index(second) is made and len(made.directory) == 10
    view.release(*view.indexes_of(1))
    assert view.index(second) is made
    view.release(second)
    assert view.index(second) is not made and view.indexes_of(1) == []


def test_values_that_have_left_are_forgotten() -> None:
    """First in, first out: parts leave the index one by one."""
    view = ChangeView(selection(0, 0, 1).rows.schema)
    index = StoredIndex("q", "v", "db", 1)
    view.index(index)
    for epoch in range(100):
        view.add(selection(10 * epoch, 10, 50), 10 * epoch + 9)
    assert len(view) == 50 and len(view.index(index).directory) <= 80
    assert view.having(index, pa.array([949, 960, 999, 1_000]), 999).rows["v"].to_pylist() == [960, 999]
    # The last row of a part, in its last instant.
    view.add(selection(1_000, 9, 50), 1_008)
    assert view.having(index, pa.array([958, 959]), 1_008).rows["v"].to_pylist() == [959]
