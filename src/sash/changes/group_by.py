"""Group-by with aggregates over a window: a group's new row replaces its old one (thesis 2.2.2, 3.2.2).

    needs   aggregates whose partials combine; any update pattern
    time    per arrival and expiry, one combination per level of the group's tree
    space   keys and arguments of the live tuples (of MIN and MAX, see ExtremesGroupByOp), and a row per group

Every arrival and expiry may change a group's row: the output is the old row taken back and the new row, once per
instant and only if they differ. A group without tuples has no row. An aggregate without GROUP BY has a row from its
first tuple on; under SLIDE from the first tuple of the streams on, since the next multiple has a row over no tuples.

A group's tuples are the leaves of one complete tree of partials. A change touches the path to the root. Nothing is ever
subtracted: extremes need no inverse, and sums of floats do not keep the rounding errors of tuples that left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numba import njit
from numpy.typing import NDArray

from sash.changes.bucket_state import WorkingState
from sash.changes.buffers import Fifo
from sash.changes.key_numbers import dense_codes
from sash.changes.lifetimes import Identities, Lifetimes, in_sequence, lifetimes
from sash.changes.operator import Epoch, StoredInput
from sash.changes.stateless import columns_of
from sash.core.changes import NEVER, Changes
from sash.panes.aggregates import AGGREGATES, MergedPartials
from sash.panes.partials import Combine, Partial
from sash.plan.continuous import Aggregated, GroupBy
from sash.plan.expressions import RowExpression

Int64s = NDArray[np.int64]
ADD, MIN, MAX = range(3)


@njit(cache=True, inline="always")
def _combined(kind: int, one: Any, other: Any) -> Any:
    # NaN is the greatest number, and the identity of a minimum.
    if kind == ADD:
        return one + other
    if kind == MIN:
        return other if other < one or one != one else one
    return other if other > one or other != other else one


@njit(cache=True)
def kernel_replay(
    kind: int, values: Any, identity: Any, roots: Int64s, leaves: Int64s, active: Any,
    switched: Int64s, on: Any, ends: Int64s, groups: Int64s,
) -> Any:  # fmt: skip
    """The root of a group's tree after each instant.

    Group g's tree lies from roots[g] on, its root at roots[g] + 1. A tuple's leaf is leaves[i]. The changes `switched`
    (tuples) and `on` are in order of (group, time); instant m is over before change ends[m], in group groups[m].
    """
    tree = np.empty(roots[-1], values.dtype)
    tree[:] = identity
    for i in range(len(leaves)):
        if active[i]:
            tree[leaves[i]] = values[i]
    for group in range(len(roots) - 1):
        first = roots[group]
        for node in range((roots[group + 1] - first) // 2 - 1, 0, -1):
            tree[first + node] = _combined(kind, tree[first + 2 * node], tree[first + 2 * node + 1])
    out = np.empty(len(ends), values.dtype)
    change = 0
    for instant in range(len(ends)):
        first = roots[groups[instant]]
        while change < ends[instant]:
            i = switched[change]
            tree[leaves[i]] = values[i] if on[change] else identity
            node = (leaves[i] - first) // 2
            while node > 0:
                tree[first + node] = _combined(kind, tree[first + 2 * node], tree[first + 2 * node + 1])
                node //= 2
            change += 1
        out[instant] = tree[first + 1]
    return out


@njit(cache=True)
def kernel_replay_moments(
    means: Any, squares: Any, roots: Int64s, leaves: Int64s, active: Any, counts: Int64s,
    switched: Int64s, on: Any, ends: Int64s, groups: Int64s,
) -> tuple[Any, Any]:  # fmt: skip
    """The same for (count, mean, sum of squared deviations), combined as Chan et al. do."""
    n, mean, square = np.zeros(roots[-1], np.int64), np.zeros(roots[-1]), np.zeros(roots[-1])
    for i in range(len(leaves)):
        if active[i]:
            n[leaves[i]], mean[leaves[i]], square[leaves[i]] = counts[i], means[i], squares[i]
    for group in range(len(roots) - 1):
        first = roots[group]
        for node in range((roots[group + 1] - first) // 2 - 1, 0, -1):
            _combine_moments(n, mean, square, first + node, first + 2 * node)
    found_mean, found_square = np.empty(len(ends)), np.empty(len(ends))
    change = 0
    for instant in range(len(ends)):
        first = roots[groups[instant]]
        while change < ends[instant]:
            i = switched[change]
            n[leaves[i]] = counts[i] if on[change] else 0
            mean[leaves[i]], square[leaves[i]] = means[i], squares[i]
            node = (leaves[i] - first) // 2
            while node > 0:
                _combine_moments(n, mean, square, first + node, first + 2 * node)
                node //= 2
            change += 1
        found_mean[instant], found_square[instant] = mean[first + 1], square[first + 1]
    return found_mean, found_square


@njit(cache=True, inline="always")
def _combine_moments(n: Any, mean: Any, square: Any, to: int, one: int) -> None:
    other = one + 1
    if n[one] == 0 or n[other] == 0:
        full = other if n[one] == 0 else one
        n[to], mean[to], square[to] = n[full], mean[full], square[full]
    else:
        total = n[one] + n[other]
        delta = mean[other] - mean[one]
        step = delta / total
        n[to] = total
        mean[to] = mean[one] + step * n[other]
        square[to] = square[one] + square[other] + delta * step * n[one] * n[other]


def partials_of(call: Aggregated, schema: pa.Schema) -> tuple[Partial, ...]:
    argument = None
    if call.argument is not None:
        argument = RowExpression(call.argument, schema.field(call.argument).type, (call.argument,))
    return AGGREGATES[call.function].lift(argument, None)


def lifted(partial: Partial, column: pa.Array | None, number: int) -> list[NDArray[Any]]:
    """The components of a partial, one entry per tuple; ranked extremes as places among the sorted values."""
    if column is None:
        return [np.ones(number, dtype=np.int64)]
    valid = np.asarray(column.is_valid(), dtype=np.int64)
    if partial.kind == "count":
        return [valid]
    if partial.ranked:
        return [ranks(partial, column)]
    return partial.store(_columns(partial, column), valid)


def _columns(partial: Partial, column: pa.Array) -> list[pa.Array]:
    if partial.kind == "moments":
        return [column.cast(pa.float64()), pa.array(np.zeros(len(column)))]
    if partial.kind == "sum" and pt.is_decimal(column.type):
        return [column.cast(pa.decimal128(38, column.type.scale))]
    if partial.kind == "sum" and pt.is_int64(column.type):
        return [pc.bit_wise_and(column, 0xFFFFFFFF), pc.shift_right(column, 32)]
    return [column]


def ranks(partial: Partial, column: pa.Array) -> NDArray[np.int64]:
    """Each value's place among the sorted ones; a missing one as the partial's identity."""
    places = pc.index_in(column, value_set=ranked_values(column))
    absent = int(partial.identity())
    return np.asarray(places.cast(pa.int64()).fill_null(absent), dtype=np.int64)


def ranked_values(column: pa.Array) -> pa.Array:
    """The values of a column, each once and in order."""
    values = column.drop_null().unique()
    return values.take(pc.array_sort_indices(values))


_KINDS = {Combine.ADD: ADD, Combine.MIN: MIN, Combine.MAX: MAX}


@dataclass(frozen=True)
class Instants:
    """The events of groups in an epoch, in order of (group, time): see `kernel_replay`."""

    codes: Int64s
    roots: Int64s
    leaves: Int64s
    active: NDArray[np.bool_]
    switched: Int64s
    on: NDArray[np.bool_]
    ends: Int64s
    groups: Int64s
    times: Int64s


class TreeLeaves(Protocol):
    """The contents of the leaves of the groups' trees."""

    def components(self, partial: Partial) -> list[NDArray[Any]]:
        """A partial's components, leaf by leaf."""
        ...

    def values(self, partial: Partial) -> pa.Array:
        """The values among which a ranked extreme is found."""
        ...


class TupleLeaves:
    """Every leaf is a tuple."""

    def __init__(self, rows: pa.Table) -> None:
        self._columns = columns_of(rows)
        self._number = rows.num_rows

    def components(self, partial: Partial) -> list[NDArray[Any]]:
        column = None if partial.argument is None else self._columns[partial.argument.sql]
        return lifted(partial, column, self._number)

    def values(self, partial: Partial) -> pa.Array:
        assert partial.argument is not None
        return self._columns[partial.argument.sql]


class GroupByOp:
    def __init__(self, node: GroupBy, storing: StoredInput, width: int) -> None:
        self.schema = node.schema
        self.width = width
        self._keys = list(node.keys)
        self._calls = node.calls
        arguments = [call.argument for call in node.calls if call.argument is not None]
        # A table must have a column, even if only its rows are counted.
        self._needed = list(dict.fromkeys([*node.keys, *arguments])) or node.input.schema.names[:1]
        self._partials = {call.name: partials_of(call, node.input.schema) for call in node.calls}
        self._storing = storing
        self._shown = f"{storing.name}.groups"
        self._identities = Identities(f"{storing.name}.names", node.schema, node.keys)

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        buffer = self._storing.open(state)
        arrived = inputs[0].with_rows(inputs[0].rows.select(self._needed))
        alive = lifetimes(buffer, arrived)
        shown, begun = self._standing(arrived, state, epoch)
        codes, standing = self._codes(alive.tuples.rows, shown.rows)
        happening = instants(codes, alive, epoch)
        found = begun
        if len(happening.ends):
            rows, present, _ = self._rows(happening, alive.tuples.rows, TupleLeaves(alive.tuples.rows))
            found = in_sequence([begun, self._replaced(happening, rows, present, shown, standing, state)])
        alive.settle(buffer, epoch.high - 1, self._superfluous(codes, alive))
        self._storing.close(state, buffer)
        return self._named(found, state)

    def _superfluous(self, codes: Int64s, alive: Lifetimes) -> NDArray[np.bool_] | None:
        """The tuples that no later row of their group depends on; None: there are none."""
        return None

    def _named(self, found: Changes, state: WorkingState) -> Changes:
        return self._identities.named(found, state) if self.width else found

    def _standing(self, arrived: Changes, state: WorkingState, epoch: Epoch) -> tuple[Changes, Changes]:
        """The rows that stand, and a row over no tuples if it appears in this epoch."""
        none = Changes.none(self.schema)
        shown = in_sequence([none, *Fifo(state.chunks(self._shown)).tuples()])
        if self._keys or len(shown) or epoch.begins is None:
            return shown, none
        at, first = max(epoch.begins + 1, epoch.low), int(arrived.ts.min(initial=epoch.high))
        if at >= first:
            return shown, none
        values = [pa.array([0 if call.function == "count" else None], call.type) for call in self._calls]
        begun = _changes(pa.table(values, schema=self.schema), np.array([at]), np.ones(1, dtype=np.int8))
        _replace_rows(state, self._shown, np.zeros(0, dtype=np.bool_), begun.rows)
        return begun, begun

    def _codes(self, rows: pa.Table, shown: pa.Table) -> tuple[Int64s, Int64s]:
        if not self._keys:
            return np.zeros(rows.num_rows, dtype=np.int64), np.zeros(shown.num_rows, dtype=np.int64)
        codes, standing = dense_codes((rows, shown), (self._keys, self._keys), null_safe=True)
        return codes, standing

    # -- the rows of groups ----------------------------------------------------------------------------

    def _replaced(
        self,
        happening: Instants,
        rows: pa.Table,
        present: NDArray[np.bool_],
        shown: Changes,
        standing: Int64s,
        state: WorkingState,
    ) -> Changes:
        """Old rows taken back and new ones; the rows that stand at the end are kept."""
        groups = happening.groups
        every = pa.concat_tables([shown.rows, rows])
        old = _previous(groups, standing, len(shown))
        had = old >= 0
        had[had] &= np.append(np.ones(len(shown), dtype=np.bool_), present)[old[had]]
        changed = ~had
        changed[had] = ~_same(rows.take(pa.array(np.flatnonzero(had))), every.take(pa.array(old[had])))
        back, new = had & (changed | ~present), present & changed
        places = np.concatenate([old[back], np.flatnonzero(new) + len(shown)])
        ts = np.concatenate([happening.times[back], happening.times[new]])
        sign = np.repeat(np.array([-1, 1], dtype=np.int8), [int(back.sum()), int(new.sum())])
        self._keep(every, groups, present, standing, len(shown), state)
        return _changes(every.take(pa.array(places)), ts, sign).in_order()

    def _rows(
        self, happening: Instants, keyed: pa.Table, leaves: TreeLeaves
    ) -> tuple[pa.Table, NDArray[np.bool_], MergedPartials]:
        """The row of each instant's group after it, whether the group has one, and the partials of the row."""
        one = happening.switched[happening.ends - 1]
        counted = self._replayed(happening, np.ones(keyed.num_rows, dtype=np.int64), ADD, 0)
        merged: dict[Partial, list[NDArray[np.int64]] | pa.Array] = {}
        made = [keyed[key].take(pa.array(one)) for key in self._keys]
        for call in self._calls:
            for partial in self._partials[call.name]:
                if partial not in merged:
                    merged[partial] = self._merged(partial, leaves, happening)
            made.append(self._lowered(call, merged))
        rows = pa.table(made, schema=self.schema)
        return rows, counted > 0 if self._keys else np.ones(len(counted), dtype=np.bool_), merged

    def _lowered(self, call: Aggregated, merged: MergedPartials) -> pa.Array:
        return AGGREGATES[call.function].lower(self._partials[call.name], merged).cast(call.type)

    def _merged(self, partial: Partial, leaves: TreeLeaves, happening: Instants) -> list[NDArray[np.int64]] | pa.Array:
        components = leaves.components(partial)
        if partial.combine is Combine.MOMENTS:
            counts = leaves.components(Partial("count", partial.argument))[0]
            means, squares = components
            h = happening
            found = kernel_replay_moments(
                means, squares, h.roots, h.leaves, h.active, counts, h.switched, h.on, h.ends, h.groups
            )
            return list(found)
        kind = _KINDS[partial.combine]
        merged = [self._replayed(happening, part, kind, partial.identity()) for part in components]
        if not partial.ranked:
            return merged
        absent = merged[0] == int(partial.identity())
        return ranked_values(leaves.values(partial)).take(pa.array(merged[0], mask=absent))

    def _replayed(self, happening: Instants, values: NDArray[np.int64], kind: int, identity: Any) -> Int64s:
        h = happening
        identity = values.dtype.type(identity)
        return kernel_replay(kind, values, identity, h.roots, h.leaves, h.active, h.switched, h.on, h.ends, h.groups)

    def _keep(
        self,
        every: pa.Table,
        groups: Int64s,
        present: NDArray[np.bool_],
        standing: Int64s,
        stored: int,
        state: WorkingState,
    ) -> None:
        last = np.append(groups[1:] != groups[:-1], True) & present
        rows = every.take(pa.array(np.flatnonzero(last) + stored))
        _replace_rows(state, self._shown, np.isin(standing, groups), rows)


def _replace_rows(state: WorkingState, name: str, gone: NDArray[np.bool_], rows: pa.Table) -> None:
    """Drop some stored rows, and add others."""
    buffer, number = Fifo(state.chunks(name)), rows.num_rows
    buffer.drop(gone)
    buffer.add(_changes(rows, np.zeros(number, dtype=np.int64), np.ones(number, dtype=np.int8)))
    state.store(name, buffer.chunks)


def _changes(rows: pa.Table, ts: Int64s, sign: NDArray[np.int8]) -> Changes:
    return Changes(rows, ts, np.full(len(ts), NEVER, dtype=np.int64), sign, np.zeros((len(ts), 0), dtype=np.int64))


def instants(codes: Int64s, alive: Lifetimes, epoch: Epoch) -> Instants:
    """Arrivals and departures of the epoch by group and time, departures first."""
    went, came = alive.departures(epoch), alive.arrivals()
    switched = np.concatenate([went, came])
    times = np.concatenate([alive.out[went], alive.tuples.ts[came]])
    on = np.repeat(np.array([False, True]), [len(went), len(came)])
    order = np.lexsort((on, times, codes[switched]))
    switched, times, on = switched[order], times[order], on[order]
    groups = codes[switched]
    ends = np.flatnonzero(np.append((groups[1:] != groups[:-1]) | (times[1:] != times[:-1]), len(times) > 0)) + 1
    roots, leaves = group_trees(codes)
    at = ends - 1
    return Instants(codes, roots, leaves, alive.before(epoch), switched, on, ends, groups[at], times[at])


def group_trees(codes: Int64s) -> tuple[Int64s, Int64s]:
    """Where each group's tree begins, and the leaf of each tuple."""
    number = int(codes.max(initial=-1)) + 1
    sizes = np.bincount(codes, minlength=number)
    capacity = 1 << np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    # A tree of one leaf would be its own root: the root is always node 1, above the leaves.
    capacity = np.maximum(capacity, 2)
    roots = np.concatenate([[0], np.cumsum(2 * capacity)])
    order = np.argsort(codes, kind="stable")
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    leaves = np.empty(len(codes), dtype=np.int64)
    leaves[order] = roots[codes[order]] + capacity[codes[order]] + np.arange(len(codes)) - firsts[codes[order]]
    return roots, leaves


def _previous(groups: Int64s, standing: Int64s, stored: int) -> Int64s:
    """For each instant the place of its group's row before it: a stored row, or an earlier instant's; -1: none."""
    first_place = np.full(int(max(groups.max(initial=-1), standing.max(initial=-1))) + 1, -1, dtype=np.int64)
    first_place[standing] = np.arange(stored)
    old = np.arange(len(groups)) - 1 + stored
    begins = np.append(True, groups[1:] != groups[:-1])
    old[begins] = first_place[groups[begins]]
    return old


def _same(rows: pa.Table, others: pa.Table) -> NDArray[np.bool_]:
    """Rows that are equal in every column; NULL equals NULL and NaN equals NaN."""
    same = np.ones(rows.num_rows, dtype=np.bool_)
    for one, other in zip(rows.columns, others.columns, strict=True):
        equal = np.asarray(pc.equal(one, other).fill_null(False), dtype=np.bool_)
        equal |= np.asarray(one.is_null(), dtype=np.bool_) & np.asarray(other.is_null(), dtype=np.bool_)
        if pt.is_floating(one.type):
            equal |= np.asarray(pc.and_(pc.is_nan(one), pc.is_nan(other)).fill_null(False), dtype=np.bool_)
        same &= equal
    return same


# -- groups with extremes only ---------------------------------------------------------------------------


class ExtremesGroupByOp(GroupByOp):
    """Group-by with MIN and MAX alone: a tuple leaves early if another one outlives and outdoes it (2.2.2).

    A tuple stays while it may still become the extreme of one of the aggregates. The tuple of a group that expires last
    always stays, so a group has a row for as long as it has tuples.

    needs   an input without negative tuples: a tuple that outdoes others may not be taken back
    space   of n tuples of a group in random order, about ln n per aggregate
    """

    def _superfluous(self, codes: Int64s, alive: Lifetimes) -> NDArray[np.bool_] | None:
        if not len(alive.arrivals()):
            return None
        columns, number = columns_of(alive.tuples.rows), len(alive)
        nears = [_nearness(call, columns, self._partials[call.name]) for call in self._calls]
        stays = np.zeros(number, dtype=np.bool_)
        for nearness in nears or [np.zeros(number, dtype=np.int64)]:
            stays |= outlasting(codes, alive.tuples.exp, nearness)
        return ~stays


def _nearness(call: Aggregated, columns: Mapping[str, pa.Array], partials: Sequence[Partial]) -> Int64s:
    """How near each value is to the extreme, as a number from 0 on; a missing value is the farthest."""
    assert call.argument is not None
    extreme = next(partial for partial in partials if partial.kind == call.function)
    column = columns[call.argument]
    values, places = np.unique(lifted(extreme, column, len(column))[0], return_inverse=True)
    nearness = places + 1 if call.function == "max" else len(values) - places
    return np.where(np.asarray(column.is_valid(), dtype=np.bool_), nearness, 0)


def outlasting(codes: Int64s, exp: Int64s, nearness: Int64s) -> NDArray[np.bool_]:
    """The tuples that may become their group's extreme: all that expire later are farther from it.

    >>> outlasting(np.zeros(4, np.int64), np.array([1, 2, 3, 4]), np.array([5, 9, 2, 3])).tolist()
    [False, True, False, True]
    """
    # Group by group, the last expiry first; a group's numbers are above those of the groups before it.
    order = np.lexsort((nearness, exp, codes))[::-1]
    reached = (codes.max(initial=0) - codes[order]) * (nearness.max(initial=0) + 1) + nearness[order]
    best = np.maximum.accumulate(reached)
    stays = np.empty(len(codes), dtype=np.bool_)
    stays[order] = np.append(True, best[1:] > best[:-1])[: len(order)]
    return stays


# -- groups that never lose a tuple ----------------------------------------------------------------------


class GrowingGroupByOp(GroupByOp):
    """Group-by over a stream that never forgets: a group is one set of partials, however many tuples it had.

    The partials of a group are one leaf of its tree, and the tuples of the epoch are the others; at the end of the
    epoch the root takes the place of all of them.

    needs   an input without expiries and negative tuples (MONOTONIC)
    space   partials and a row per group
    """

    def step(self, inputs: Sequence[Changes], state: WorkingState, epoch: Epoch) -> Changes:
        name = f"{self._storing.name}.partials"
        new = inputs[0].with_rows(inputs[0].rows.select(self._needed))
        shown, begun = self._standing(new, state, epoch)
        if not len(new):
            self._close(name, state, epoch)
            return self._named(begun, state)
        parts = [part.rows for part in Fifo(state.chunks(name)).tuples()]
        kept = [pa.concat_tables(parts)] if parts else []
        partials = list(dict.fromkeys(p for call in self._calls for p in self._partials[call.name]))
        leaves = GrownLeaves(kept[0] if kept else None, new.rows, partials)
        keyed = self._keyed(kept, new.rows)
        alive = _alive(keyed, new, epoch)
        codes, standing = self._codes(keyed, shown.rows)
        happening = instants(codes, alive, epoch)
        rows, present, merged = self._rows(happening, keyed, leaves)
        found = in_sequence([begun, self._replaced(happening, rows, present, shown, standing, state)])
        self._store(name, keyed, codes, happening, _partial_columns(partials, merged), kept, state)
        found = self._named(found, state)
        self._close(name, state, epoch)
        return found

    def _close(self, partials: str, state: WorkingState, epoch: Epoch) -> None:
        """Forget the groups that are final by a promise: their rows stand for ever."""
        for name in (partials, self._shown, self._identities.name):
            buffer = Fifo(state.chunks(name))
            parts = [part.rows for part in buffer.tuples()]
            closed = self._storing.closed(pa.concat_tables(parts), state, epoch) if parts else None
            if closed is not None:
                buffer.drop(closed)
                state.store(name, buffer.chunks)

    def _keyed(self, kept: list[pa.Table], new: pa.Table) -> pa.Table:
        """The keys of all leaves; a table must have a column."""
        parts = [*kept, new]
        if not self._keys:
            return pa.table({"_": pa.nulls(sum(part.num_rows for part in parts), pa.int8())})
        return pa.concat_tables([part.select(self._keys) for part in parts])

    def _store(
        self,
        name: str,
        keyed: pa.Table,
        codes: NDArray[np.int64],
        happening: Instants,
        columns: dict[str, pa.Array],
        kept: list[pa.Table],
        state: WorkingState,
    ) -> None:
        """Store new partials for touched groups instead of their old ones."""
        groups = happening.groups
        last = np.flatnonzero(np.append(groups[1:] != groups[:-1], True))
        one = happening.switched[happening.ends - 1][last]
        keys = {key: keyed[key].take(pa.array(one)) for key in self._keys}
        touched = pa.table({**keys, **{name: array.take(pa.array(last)) for name, array in columns.items()}})
        stored = kept[0].num_rows if kept else 0
        _replace_rows(state, name, np.isin(codes[:stored], groups), touched)


class GrownLeaves:
    """The partials of groups, then the tuples of the epoch."""

    def __init__(self, kept: pa.Table | None, new: pa.Table, partials: list[Partial]) -> None:
        self._kept = {} if kept is None else columns_of(kept)
        self._new = TupleLeaves(new)
        self._places = {partial: place for place, partial in enumerate(partials)}

    def components(self, partial: Partial) -> list[NDArray[Any]]:
        if partial.ranked:
            return [ranks(partial, self.values(partial))]
        made = self._new.components(partial)
        if not self._kept:
            return made
        before = [np.asarray(self._kept[f"{self._places[partial]}.{i}"]) for i in range(len(made))]
        return [np.concatenate(pair) for pair in zip(before, made, strict=True)]

    def values(self, partial: Partial) -> pa.Array:
        new = self._new.values(partial)
        return pa.concat_arrays([self._kept[f"{self._places[partial]}.0"], new]) if self._kept else new


def _partial_columns(partials: list[Partial], merged: MergedPartials) -> dict[str, pa.Array]:
    """Partials as columns, instant by instant."""
    found = {}
    for place, partial in enumerate(partials):
        made = merged[partial]
        for i, component in enumerate([made] if isinstance(made, pa.Array) else made):
            found[f"{place}.{i}"] = component if isinstance(component, pa.Array) else pa.array(component)
    return found


def _alive(keyed: pa.Table, new: Changes, epoch: Epoch) -> Lifetimes:
    """All leaves as tuples that never leave; the stored ones came before the epoch."""
    stored = keyed.num_rows - len(new)
    never = np.full(keyed.num_rows, NEVER, dtype=np.int64)
    ts = np.concatenate([np.full(stored, epoch.low - 1, dtype=np.int64), new.ts])
    ids = np.zeros((keyed.num_rows, 0), dtype=np.int64)
    return Lifetimes(Changes(keyed, ts, never, np.ones(len(ts), dtype=np.int8), ids), never, stored)
