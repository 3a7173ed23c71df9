"""Comparisons and tests: NaN equals itself and is greater than any number, as in Spark; not so in IEEE."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_Compare = Callable[[pa.Array, pa.Array], pa.Array]


def plain(compute: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """Wrap a function that does not need the type of its result."""
    return lambda type, *values: compute(*values)


def _compare(compare: _Compare, type: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
    if pt.is_null(left.type):
        return pa.nulls(len(left), pa.bool_())
    if not pt.is_floating(left.type):
        return compare(left, right)
    # where one side is NaN, whether each is NaN decides
    ranks = [pc.is_nan(side).cast(pa.int8()) for side in (left, right)]
    return pc.if_else(pc.equal(pc.add(*ranks), 0), compare(left, right), compare(*ranks))


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    return _compare(pc.equal, pa.bool_(), left, right)


def _null_safe_eq(left: pa.Array, right: pa.Array) -> pa.Array:
    return pc.or_(pc.and_(left.is_null(), right.is_null()), equal(left, right).fill_null(False))


def _is_in(value: pa.Array, *items: pa.Array) -> pa.Array:
    return reduce(pc.or_kleene, [equal(value, item) for item in items])


def _extreme(better: _Compare, type: pa.DataType, *arguments: pa.Array) -> pa.Array:
    """GREATEST and LEAST skip NULLs."""

    def pick(left: pa.Array, right: pa.Array) -> pa.Array:
        kept = pc.or_(right.is_null(), _compare(better, pa.bool_(), left, right).fill_null(False))
        return pc.if_else(kept, left, right)

    return reduce(pick, arguments)


FUNCTIONS: dict[str, Callable[..., pa.Array]] = {
    "eq": partial(_compare, pc.equal),
    "ne": partial(_compare, pc.not_equal),
    "lt": partial(_compare, pc.less),
    "le": partial(_compare, pc.less_equal),
    "gt": partial(_compare, pc.greater),
    "ge": partial(_compare, pc.greater_equal),
    "null_safe_eq": plain(_null_safe_eq),
    "in": plain(_is_in),
    "is_nan": plain(lambda value: pc.is_nan(value).fill_null(False)),
    "is_null": plain(pc.is_null),
    "is_not_null": plain(pc.is_valid),
    "not": plain(pc.invert),
    "greatest": partial(_extreme, pc.greater),
    "least": partial(_extreme, pc.less),
}
