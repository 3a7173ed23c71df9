"""An aggregate of a program's own functions (see `core.user_aggregate`), with the interface of all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sash.core.user_aggregate import UserAggregate
from sash.panes.aggregates.exact import MergedPartials, components, counts
from sash.panes.partials import Partial
from sash.plan.expressions import RowExpression


@dataclass(frozen=True)
class UserDefined:
    """NULL over no values."""

    user: UserAggregate

    def result_type(self, argument: pa.DataType | None) -> pa.DataType:
        return self.user.returns

    def lift(self, argument: RowExpression | None, predicate: RowExpression | None) -> tuple[Partial, ...]:
        return (Partial(self.user.name, argument, predicate, self.user), Partial("count", argument, predicate))

    def lower(self, partials: tuple[Partial, ...], merged: MergedPartials) -> pa.Array:
        own, count = partials
        valid = counts(merged, count) > 0
        lowered = self.user.lowered(own.signature, np.stack(components(merged, own))[:, valid])
        if valid.all():
            return lowered
        return lowered.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
