"""Random continuous plans over streams and tables of small whole numbers, and random tuples and updates for them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import strategies as st

from sash.catalog import Table
from sash.core.changes import NEVER
from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import (
    Aggregated,
    BaseWindow,
    Column,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    LeftNrrJoin,
    LeftRelationJoin,
    Map,
    Negation,
    Node,
    NrrJoin,
    OuterJoin,
    RelationJoin,
    Union,
    inputs,
)
from sash.plan.expressions import Call, Field, Literal, RowExpression
from sash.plan.outputs import DSTREAM, ISTREAM, Deltas, ResultWindow, Sampled

INT = pa.int64()


def window(name: str, kind: TimeWindow | RowWindow, partition: tuple[str, ...] = ()) -> BaseWindow:
    columns = tuple(Column(f"{name}.{column}", RowExpression(column, INT, (column,))) for column in ("a", "b"))
    return BaseWindow(name, name, kind, columns, partition=tuple(f"{name}.{column}" for column in partition))


def named(node: Node, prefix: str, one: str | None = None, other: str | None = None) -> Map:
    """Two columns of a node under names of their own: `prefix.a` and `prefix.b`."""
    first, second = one or node.schema.names[0], other or node.schema.names[1]
    return Map(node, ((f"{prefix}.a", Field(first, INT)), (f"{prefix}.b", Field(second, INT))))


TABLES = {
    kind: Table(name, pa.schema([("id", INT), ("v", INT)]), ("id",), retroactive=kind is RelationJoin)
    for kind, name in ((NrrJoin, "nrr"), (RelationJoin, "relation"))
}


def with_table(
    kind: type[NrrJoin] | type[RelationJoin], node: Node, key: str, alias: str, *, keeps: bool = False
) -> Node:
    made = {NrrJoin: LeftNrrJoin, RelationJoin: LeftRelationJoin}[kind] if keeps else kind
    return made(node, TABLES[kind], ((key, f"{alias}.id"),), ((f"{alias}.id", "id"), (f"{alias}.v", "v")))


def less(name: str, bound: int) -> Call:
    return Call("lt", (Field(name, INT), Literal(bound, INT)), pa.bool_())


time_windows = st.integers(1, 7).map(TimeWindow)
row_windows = st.integers(1, 4).map(RowWindow)


class Plans:
    """Draws plans of at most this many operators; every window and every sub-plan has names of its own."""

    def __init__(self, draw: st.DrawFn, *, rows: bool = True, tables: bool = False) -> None:
        self._draw = draw
        self._rows = rows
        self._tables = tables
        self._number = 0
        self._windowed = not rows

    def plan(self, operators: int) -> Node:
        if operators <= 0:
            return self._leaf()
        forms = ["filter", "distinct", "group", "map", "join", "outer", "union", "negation", "intersection"]
        form = self._draw(st.sampled_from(forms if self._windowed else [*forms, "results"]))
        if form == "results":
            return self._results(self.plan(operators - 1))
        if form in ("filter", "distinct", "group", "map"):
            return self._unary(form, self.plan(operators - 1))
        left = self._draw(st.integers(0, operators - 1))
        return self._binary(form, self.plan(left), self.plan(operators - 1 - left))

    def _name(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def _leaf(self) -> Node:
        if self._tables and self._draw(st.sampled_from([True, True, False])):
            return self.looked_up()
        kind = self._draw(st.sampled_from(["time", "time", "rows", "partition"]) if self._rows else st.just("time"))
        if kind == "time":
            return window(self._name(), self._draw(time_windows))
        return window(self._name(), self._draw(row_windows), ("a",) if kind == "partition" else ())

    def looked_up(self) -> Node:
        """A join with a table, of something that has no negative tuples."""
        node: Node = window(self._name(), self._draw(time_windows))
        for form in self._draw(st.lists(st.sampled_from(["filter", "map", "join", "nrr"]), max_size=2)):
            if form == "join":
                node = self._binary("join", node, window(self._name(), self._draw(time_windows)))
            elif form == "nrr":
                node = self._looked_up(NrrJoin, node)
            else:
                node = self._unary(form, node)
        return self._looked_up(self._draw(st.sampled_from([NrrJoin, RelationJoin])), node)

    def _looked_up(self, kind: type[NrrJoin] | type[RelationJoin], node: Node) -> Node:
        key, alias = node.schema.names[self._draw(st.integers(0, 1))], self._name()
        joined = with_table(kind, node, key, alias, keeps=self._draw(st.booleans()))
        return named(joined, self._name(), key, f"{alias}.v")

    def _unary(self, form: str, node: Node) -> Node:
        first, second = node.schema.names[:2]
        if form == "filter":
            return Filter(node, less(self._draw(st.sampled_from([first, second])), 2))
        if form == "map":
            return named(node, self._name(), second, first)
        if form == "distinct":
            return Distinct(node)
        function = self._draw(st.sampled_from(["count", "sum", "min", "max"]))
        call = Aggregated(f"{self._name()}.value", function, second, INT)
        return GroupBy(node, (first,), (call,))

    def _results(self, node: Node) -> Node:
        """A window on the stream of a relation's changes; one in a plan, for the definition goes through all time."""
        if self._windowed:
            return node
        self._windowed = True
        deltas = Deltas(node, self._draw(st.sampled_from([ISTREAM, DSTREAM])))
        return ResultWindow(deltas, self._draw(st.one_of(time_windows, row_windows)))

    def _binary(self, form: str, left: Node, right: Node) -> Node:
        ones, others = left.schema.names, right.schema.names
        if form == "join":
            place = self._draw(st.integers(0, 1))
            joined = Join(left, right, ((ones[0], others[place]),))
            return named(joined, self._name(), ones[0], others[1])
        if form == "outer":
            keeps = self._draw(st.sampled_from([(True, False), (False, True), (True, True)]))
            outer = OuterJoin(left, right, ((ones[0], others[self._draw(st.integers(0, 1))]),), *keeps)
            return named(outer, self._name(), ones[self._draw(st.integers(0, 1))], others[1])
        if form == "union":
            return named(Union((left, right)), self._name())
        kind = Negation if form == "negation" else Intersection
        if self._draw(st.booleans()):
            return kind(left, right, ((ones[0], others[0]),), whole=True, null_safe=self._draw(st.booleans()))
        # Which of several tuples of a key stay is a choice; with all columns as the key they are all alike.
        return kind(left, right, tuple(zip(ones, others, strict=True)), null_safe=True)


@st.composite
def table_plans(draw: st.DrawFn) -> Node:
    """A join with a table, of something simple."""
    return Plans(draw, tables=True).looked_up()


@st.composite
def plans(draw: st.DrawFn, most: int = 5, *, rows: bool = True, tables: bool = False) -> Node:
    return Plans(draw, rows=rows, tables=tables).plan(draw(st.integers(1, most)))


@st.composite
def outputs(draw: st.DrawFn) -> Node:
    """A plan whose answer is a stream, or is given at multiples."""
    plan = draw(plans(3))
    form = draw(st.sampled_from(["deltas", "sampled", "new", "restored"]))
    kind, slide = draw(st.sampled_from([ISTREAM, DSTREAM])), draw(st.integers(1, 6))
    offset = draw(st.integers(0, slide - 1))
    if form == "deltas":
        return Deltas(plan, kind)
    if form == "sampled":
        return Sampled(plan, slide, offset)
    return Deltas(Sampled(plan, slide, offset), kind) if form == "new" else Sampled(Deltas(plan, kind), slide, offset)


values = st.one_of(st.integers(0, 3), st.none())
tuples = st.lists(st.tuples(st.integers(1, 20), st.tuples(values, values)), max_size=14)
updates = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 3), values), max_size=14)
# Few keys and few instants: tuples and updates of one key at one instant are frequent.
_few = st.integers(0, 1)
dense_tuples = st.lists(st.tuples(st.integers(1, 8), st.tuples(_few, _few)), min_size=8, max_size=16)
dense_updates = st.lists(st.tuples(st.integers(0, 9), _few, values), min_size=6, max_size=14)


def versions(changes: list[tuple[int, int, int | None]]) -> list[tuple[int, int, tuple[int, int]]]:
    """What (time, key, value) updates make of a table; a row whose value is None is deleted."""
    found: list[tuple[int, int, tuple[int, int]]] = []
    current: dict[int, tuple[int, int]] = {}
    for at, key, value in sorted(changes, key=lambda change: change[0]):
        if key in current:
            begin, old = current.pop(key)
            found.append((begin, at, (key, old)))
        if value is not None:
            current[key] = (at, value)
    found += [(begin, NEVER, (key, value)) for key, (begin, value) in current.items()]
    return [version for version in found if version[0] < version[1]]


def explain(plan: Node, depth: int = 0) -> Iterator[str]:
    """The plan from the answer down, each node with the pattern of the edge above it."""
    yield f"{'  ' * depth}{plan.describe()}  -> {plan.pattern.label}"
    for node in inputs(plan):
        yield from explain(node, depth + 1)
