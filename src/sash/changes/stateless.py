"""Operators that keep nothing: selection, projection, merge union, time-based windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.changes.bucket_state import WorkingState
from sash.changes.key_numbers import with_canonical
from sash.changes.operator import Epoch, Operator
from sash.core.changes import NEVER, Changes, together
from sash.expr.evaluate import evaluate
from sash.expr.value_codes import one_array
from sash.plan.expressions import Expression


@dataclass
class TimeWindowOp:
    """A tuple expires one window's length after it came; `length` is None without a bound."""

    schema: pa.Schema
    length: int | None
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        (arrived,) = inputs
        exp = np.full(len(arrived), NEVER) if self.length is None else arrived.ts + self.length
        return Changes(arrived.rows, arrived.ts, exp, arrived.sign, arrived.ids)


@dataclass
class SelectOp:
    """Tuples for which the condition is true."""

    schema: pa.Schema
    condition: Expression
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        (changes,) = inputs
        found = evaluate(self.condition, columns_of(changes.rows), len(changes))
        return changes.where(np.asarray(found.fill_null(False), dtype=np.bool_))


@dataclass
class ProjectOp:
    """Columns computed from columns."""

    schema: pa.Schema
    outputs: Sequence[Expression]
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        (changes,) = inputs
        columns = columns_of(changes.rows)
        made = [evaluate(output, columns, len(changes)) for output in self.outputs]
        return changes.with_rows(pa.table(made, schema=self.schema))


class CanonicalKeysOp:
    """Wraps an operator: its first input gets one zero and one NaN in its keys. -0.0 and 0.0 are one group, and the
    order of arrival must not decide which of them is its key. Spark outputs 0.0."""

    def __init__(self, operator: Operator, keys: Sequence[str]) -> None:
        self.schema = operator.schema
        self.width = operator.width
        self._operator = operator
        self._keys = keys

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        first, *others = inputs
        return self._operator.step([first.with_rows(with_canonical(first.rows, self._keys)), *others], state, epoch)


@dataclass
class UnionOp:
    """All changes of all inputs, merged by time. Ids say which input a row came from."""

    schema: pa.Schema
    width: int

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        return together(self._branch(place, changes) for place, changes in enumerate(inputs))

    def _branch(self, place: int, changes: Changes) -> Changes:
        rows = changes.rows.rename_columns(self.schema.names)
        ids = np.zeros((len(changes), self.width), dtype=np.int64)
        if self.width:
            ids[:, 0] = place
            ids[:, 1 : 1 + changes.ids.shape[1]] = changes.ids
        return Changes(rows, changes.ts, changes.exp, changes.sign, ids)


def columns_of(rows: pa.Table) -> dict[str, pa.Array]:
    return {name: one_array(column) for name, column in zip(rows.schema.names, rows.columns, strict=True)}
