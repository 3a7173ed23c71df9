"""What a shared synopsis refuses, and in which words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sash.panes.intervals.running import RunningSynopsis
from sash.panes.intervals.synopsis import OPERATIONS, Activity, SharedSynopsis, identity
from sash.panes.partials import Combine, Partial
from sash.plan.expressions import RowExpression
from tests.panes.intervals.cases import DTYPES, PAIRS, SYNOPSES


def of_ten(name: str) -> SharedSynopsis:
    """Ten positions, of which it keeps four."""
    synopsis = SYNOPSES[name](4, 1, Combine.ADD, np.int64, widths=[2, 3, 4])
    synopsis.extend(np.arange(10).reshape(-1, 1))
    return synopsis


@pytest.mark.parametrize(
    ("combine", "dtype", "reason"),
    [
        (Combine.MAX, np.int64, "MAX is not subtractable: a running synopsis would have to take back a maximum"),
        (Combine.MIN, np.float64, "MIN is not subtractable: a running synopsis would have to take back a minimum"),
        (Combine.ADD, np.float64, "float sums are never taken by subtraction"),
    ],
)
def test_running_sums_only(combine: Combine, dtype: type, reason: str) -> None:
    assert RunningSynopsis.refuse(combine, dtype) == reason
    with pytest.raises(ValueError, match=reason):
        RunningSynopsis(4, 1, combine, dtype)


def test_running_sums_of_integers_are_taken() -> None:
    assert RunningSynopsis.refuse(Combine.ADD, np.int64) is None


@pytest.mark.parametrize("name", SYNOPSES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_number_per_group(name: str, dtype: type) -> None:
    """Moments are several components; whatever else can be combined is no machine number."""
    for combine in set(Combine) - set(OPERATIONS):
        with pytest.raises(ValueError, match="adds or compares one machine number per group"):
            SYNOPSES[name](4, 1, combine, dtype, [2])


@pytest.mark.parametrize("name", [name for name in SYNOPSES if name != "running"])
@pytest.mark.parametrize(("combine", "dtype"), PAIRS)
def test_the_others_take_all_pairs(name: str, combine: Combine, dtype: type) -> None:
    assert SYNOPSES[name].refuse(combine, dtype) is None


@pytest.mark.parametrize("name", SYNOPSES)
@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (6, 9, r"interval \(6, 9\) is not active: of 10 positions the synopsis keeps the last 4"),
        (9, 11, r"interval \(9, 11\) is not active: the stream has only 10 positions"),
        (10, 8, r"interval \(10, 8\) is not active: it ends before it begins"),
        (0, 2, r"interval \(0, 2\) is not active: positions begin at 1"),
    ],
)
def test_inactive_intervals(name: str, left: int, right: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        of_ten(name).lookup(left, right)
    with pytest.raises(ValueError, match=reason):
        of_ten(name).lookup_many([7, left], [8, right])


@pytest.mark.parametrize("name", SYNOPSES)
def test_positions_that_were_gone_before_it_grew(name: str) -> None:
    synopsis = of_ten(name)
    synopsis.grow(8)
    with pytest.raises(ValueError, match="when the synopsis was grown, positions before 7 were gone already"):
        synopsis.lookup(6, 8)
    assert synopsis.lookup(7, 9) == 6 + 7 + 8


def test_widths_that_have_no_landmarks() -> None:
    synopsis = SYNOPSES["landmark"](10, 1, Combine.ADD, np.int64, widths=[2, 3, 8])
    synopsis.extend(np.ones((20, 1)).astype(np.int64))
    for width in (1, 5, 9):
        with pytest.raises(ValueError, match=f"it is {width} wide, and the landmarks .* 2 to 3, 8 to 8"):
            synopsis.lookup(20 - width + 1, 20)


def test_landmarks_need_widths() -> None:
    with pytest.raises(ValueError, match="needs the widths of its windows"):
        SYNOPSES["landmark"](4, 1, Combine.ADD, np.int64)
    for wrong in (0, 5):
        with pytest.raises(ValueError, match="between 1 and the capacity of 4"):
            SYNOPSES["landmark"](4, 1, Combine.ADD, np.int64, [2, wrong])


@pytest.mark.parametrize("name", SYNOPSES)
def test_sizes(name: str) -> None:
    kind = SYNOPSES[name]
    with pytest.raises(ValueError, match="a capacity of 0"):
        kind(0, 1, Combine.ADD, np.int64) if name != "landmark" else Activity(0)
    with pytest.raises(ValueError, match="0 groups"):
        kind(4, 0, Combine.ADD, np.int64, [2])
    synopsis = kind(4, 2, Combine.ADD, np.int64, [2])
    with pytest.raises(ValueError, match="4 positions does not shrink to 3"):
        synopsis.grow(3)
    with pytest.raises(ValueError, match="2 groups does not shrink to 1"):
        synopsis.grow_groups(1)


@pytest.mark.parametrize("name", SYNOPSES)
def test_values_that_do_not_fit(name: str) -> None:
    synopsis = SYNOPSES[name](4, 2, Combine.ADD, np.int64, [2])
    with pytest.raises(ValueError, match=r"shape \(1, 3\) where"):
        synopsis.update([1, 2, 3])
    with pytest.raises(TypeError, match="float64 do not fit into int64"):
        synopsis.update([1.5, 2.5])
    with pytest.raises(ValueError, match="2 left ends and 1 right ends"):
        synopsis.lookup_many([1, 1], [1])
    assert synopsis.length == 0


@pytest.mark.parametrize("kind", ["sum", "min", "max"])
@pytest.mark.parametrize("type", [pa.int32(), pa.float64()])
def test_identities_are_those_of_partials(kind: str, type: pa.DataType) -> None:
    partial = Partial(kind, RowExpression("x", type, ("x",)))
    np.testing.assert_array_equal(identity(partial.combine, partial.dtypes[0]), partial.identity())
