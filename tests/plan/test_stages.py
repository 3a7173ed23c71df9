"""Where a continuous plan is cut into stages, and by which columns each is spread over buckets."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given

from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import (
    Aggregated,
    BaseWindow,
    Column,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Map,
    Negation,
    Node,
    RelationJoin,
    Union,
    edges,
    inputs,
    path_below,
    windows,
)
from sash.plan.expressions import Call, Field, Literal, RowExpression
from sash.plan.outputs import ISTREAM, Deltas, Outliving, ResultWindow
from sash.plan.stages import Placement, StagePlan, Target, stages, ways
from tests.plan.test_update_patterns import two, with_table
from tests.support.plans import less, plans

INT = pa.int64()
JOIN = Join(two("S"), two("T"), (("S.a", "T.b"),))
JOINED = StagePlan("", {0: "S.a", 1: "T.b"})
COUNT = (Aggregated("n", "count", None, INT),)


def at(path: str, stage: StagePlan = JOINED) -> StagePlan:
    return StagePlan(path, stage.windows, stage.lower)


def test_a_common_column_makes_one_stage() -> None:
    assert stages(JOIN) == (JOINED,)
    # Through a projection, and with a group-by on the other side's key.
    grouped = GroupBy(Map(JOIN, (("x", Field("T.b", INT)),)), ("x",), ())
    assert stages(grouped) == (JOINED,)
    assert stages(Distinct(JOIN)) == stages(Deltas(JOIN, ISTREAM)) == (JOINED,)
    assert stages(two("S", RowWindow(3), ("S.b",))) == (StagePlan("", {0: "S.b"}),)


def test_joins_with_different_keys() -> None:
    chain = Join(JOIN, two("U"), (("T.a", "U.b"),))
    assert stages(chain) == (at("0"), StagePlan("", {2: "U.b"}, {"0": "T.a"}))
    longer = Join(chain, two("V"), (("U.a", "V.a"),))
    assert stages(longer) == (
        at("00"),
        StagePlan("0", {2: "U.b"}, {"00": "T.a"}),
        StagePlan("", {3: "V.a"}, {"0": "U.a"}),
    )


def test_two_stages_below_a_third() -> None:
    other = Join(two("U"), two("V"), (("U.a", "V.a"),))
    top = Join(JOIN, other, (("S.b", "V.b"),))
    below = at("0"), StagePlan("1", {2: "U.a", 3: "V.a"})
    assert stages(top) == (*below, StagePlan("", {}, {"0": "S.b", "1": "V.b"}))


def test_groups_of_another_column_are_exchanged_after_filters_and_projections() -> None:
    double = Call("add", (Field("S.b", INT), Field("S.b", INT)), INT)
    mapped = Filter(Map(JOIN, (("x", double),)), less("x", 3))
    assert stages(GroupBy(mapped, ("x",), COUNT)) == (at("0"), StagePlan("", {}, {"0": "x"}))


def test_what_takes_rows_singly_is_spread_by_a_column_that_it_leaves_out() -> None:
    constant = Map(two("S"), (("one", Literal(1, INT)),))
    assert stages(constant) == (StagePlan("", {0: "S.a"}),)
    assert stages(Union((constant, Map(JOIN, (("two", Literal(2, INT)),))))) == (
        StagePlan("", {0: "S.a", 1: "S.a", 2: "T.b"}),
    )


def test_operators_without_a_key_have_one_bucket() -> None:
    rows = two("S", RowWindow(3))
    assert stages(rows) == (StagePlan("", {0: None}),) and not stages(rows)[0].spread
    assert stages(GroupBy(two("S"), (), COUNT)) == (StagePlan("", {0: None}),)
    assert stages(Join(two("S"), two("T"), ())) == (StagePlan("", {0: None, 1: None}),)
    # What is below and above may be spread.
    assert stages(GroupBy(Filter(JOIN, less("S.b", 3)), (), COUNT)) == (at("0"), StagePlan("", {}, {"0": None}))
    assert stages(GroupBy(rows, ("S.b",), COUNT)) == (StagePlan("0", {0: None}), StagePlan("", {}, {"0": "S.b"}))


def test_the_single_row_of_an_aggregate_is_not_exchanged() -> None:
    total = GroupBy(two("S"), (), COUNT)
    assert stages(Deltas(Filter(total, less("n", 3)), ISTREAM)) == (StagePlan("", {0: None}),)


def test_a_union_is_spread_by_columns_at_the_same_place() -> None:
    both = Union((two("S"), two("T")))
    assert stages(Distinct(both)) == (StagePlan("", {0: "S.a", 1: "T.a"}),)
    negation = Negation(both, two("U"), (("S.b", "U.a"),))
    assert stages(negation) == (StagePlan("", {0: "S.b", 1: "T.b", 2: "U.a"}),)


def test_a_join_with_a_table_is_spread_as_its_input() -> None:
    joined = with_table(RelationJoin, JOIN)
    assert stages(joined) == (JOINED,)
    assert stages(GroupBy(joined, ("n.id",), ())) == (JOINED,)
    assert stages(GroupBy(joined, ("n.name",), ())) == (at("0"), StagePlan("", {}, {"0": "n.name"}))


def test_rows_of_results_are_counted_in_one_bucket() -> None:
    results = Outliving(JOIN)
    assert stages(ResultWindow(results, TimeWindow(3))) == (JOINED,)
    assert stages(ResultWindow(results, RowWindow(3), ("S.a",))) == (JOINED,)
    assert stages(ResultWindow(results, RowWindow(3))) == (at("0"), StagePlan("", {}, {"0": None}))


def test_results_of_groups_are_together_with_their_equals() -> None:
    """A group's row that is replaced by another group's equal one is no result."""
    counts = Map(GroupBy(two("S"), ("S.a",), COUNT), (("n", Field("n", INT)),))
    assert stages(Outliving(counts)) == (StagePlan("0", {0: "S.a"}), StagePlan("", {}, {"0": "n"}))
    assert stages(Outliving(two("S"))) == (StagePlan("", {0: "S.a"}),)


def test_values_without_a_common_hash_are_no_keys() -> None:
    def lists(name: str) -> BaseWindow:
        columns = (Column(f"{name}.l", RowExpression("l", pa.list_(INT), ("l",))), *two(name).columns)
        return BaseWindow(name, name, TimeWindow(9), columns)

    assert stages(Distinct(lists("S"))) == (StagePlan("", {0: "S.a"}),)
    only = Map(lists("S"), (("l", Field("S.l", pa.list_(INT))),))
    assert stages(Distinct(only)) == (StagePlan("", {0: None}),)
    # Equal numbers of different types have different hashes: they are exchanged where they have become one column.
    small = BaseWindow("T", "T", TimeWindow(9), (Column("T.a", RowExpression("a", pa.int32(), ("a",))),))
    mixed = Distinct(Union((Map(two("S"), (("x", Field("S.a", INT)),)), small)))
    assert stages(mixed) == (StagePlan("0", {0: "S.a", 1: "T.a"}), StagePlan("", {}, {"0": "x"}))


def test_inputs_past_the_ninth_have_paths_of_their_own() -> None:
    many = Union(tuple(Map(two(f"S{i}"), (("x", Field(f"S{i}.a", INT)),)) for i in range(12)))
    paths = [path for path, _ in edges(many)]
    assert len(set(paths)) == len(paths)


@given(plans(7, tables=True))
def test_every_operator_has_what_it_compares_in_one_bucket(plan: Node) -> None:
    """Followed from the leaves up: what spreads a node's inputs is one of the node's ways."""
    every = stages(plan)
    found, places = {stage.path: stage for stage in every}, iter(range(len(windows(plan))))
    assert sorted(place for stage in every for place in stage.windows) == list(range(len(windows(plan))))
    assert every[-1].path == "" and len(found) == len(every)

    def spread_by(node: Node, path: str, stage: StagePlan) -> set[object]:
        """Everything by which a node's results are spread within a stage."""
        if path in stage.lower and path != stage.path:
            spread_by(node, path, found[path])
            assert every.index(found[path]) < every.index(stage)
            return _by(stage.lower[path])
        if isinstance(node, BaseWindow):
            results = _by(stage.windows[next(places)])
            assert any(set(way.results) & results for way in ways(node))
            return results
        below = [spread_by(each, path_below(path, i), stage) for i, each in enumerate(inputs(node))]
        fitting = [way for way in ways(node) if all(one in its for one, its in zip(way.inputs, below, strict=True))]
        assert fitting
        return {result for way in fitting for result in way.results}

    spread_by(plan, "", every[-1])


def _by(target: Target) -> set[object]:
    if isinstance(target, str):
        return {target, Placement.SOMEHOW}
    return {Placement.TOGETHER} if target is None else {target}
