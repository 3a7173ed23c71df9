"""Update patterns of plans: the examples of the thesis, by its rules and with its errata."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sash.catalog import Table
from sash.core.changes import UpdatePattern
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import (
    Aggregated,
    BaseWindow,
    Column,
    Distinct,
    Filter,
    GroupBy,
    Intersection,
    Join,
    Map,
    Negation,
    Node,
    NrrJoin,
    RelationJoin,
    Union,
    edges,
)
from sash.plan.expressions import Field, Literal, RowExpression
from tests.support.plans import explain

GOLDEN = Path(__file__).parents[1] / "golden" / "update_patterns.json"
EXAMPLES = {
    example["id"].removeprefix("update_patterns."): example for example in json.loads(GOLDEN.read_text())["examples"]
}
TRUE = Literal(True, pa.bool_())


def window(name: str, kind: TimeWindow | RowWindow | None = None) -> BaseWindow:
    return BaseWindow(
        name, name, kind or TimeWindow(9), (Column(f"{name}.v", RowExpression("v", pa.string(), ("v",))),)
    )


TABLE = Table("names", pa.schema([("id", pa.string()), ("name", pa.string())]), ("id",))


def with_table(kind: type[NrrJoin] | type[RelationJoin], below: Node) -> Node:
    return kind(below, TABLE, ((below.schema.names[0], "n.id"),), (("n.id", "id"), ("n.name", "name")))


def keys(left: Node, right: Node) -> tuple[tuple[str, str], ...]:
    return ((left.schema.names[0], right.schema.names[0]),)


def plan(tree: dict[str, Any]) -> Node:
    """A plan as the golden file writes it."""
    if tree["op"] == "window":
        return window(tree["stream"], RowWindow(5) if tree["type"] == "count" else TimeWindow(9))
    below = [plan(part) for part in tree["in"]]
    if tree["op"] == "nrr_join":
        return with_table(NrrJoin, below[0])
    if tree["op"] == "selection":
        return Filter(below[0], TRUE)
    if tree["op"] == "projection":
        return Map(below[0], tuple((name, Field(name, pa.string())) for name in below[0].schema.names))
    if tree["op"] == "distinct":
        return Distinct(below[0])
    if tree["op"] == "union":
        return Union(
            (below[0], Map(below[1], ((below[0].schema.names[0], Field(below[1].schema.names[0], pa.string())),)))
        )
    kind = {"join": Join, "negation": Negation}[tree["op"]]
    return kind(below[0], below[1], keys(below[0], below[1]))


PLANS = [name for name, example in EXAMPLES.items() if "plan" in example["inputs"]]


@pytest.mark.parametrize("name", PLANS)
def test_every_edge_of_the_thesis_plans(name: str) -> None:
    example = EXAMPLES[name]
    found = plan(example["inputs"]["plan"])
    shown = {path: node.pattern.label for path, node in edges(found)}
    wanted = {path: label for path, _, label in example["expected"]["edges"]}
    assert {path: shown[path] for path in wanted} == wanted
    assert found.pattern.label == example["expected"]["output"]


# -- the rules of 3.5.1, as truth tables ------------------------------------------------------------------------

SUB_PLANS: dict[str, Node] = {
    "WKS": window("S"),
    "WK": Join(window("S"), window("T"), (("S.v", "T.v"),)),
    "STR": window("S", RowWindow(5)),
}
RULES = EXAMPLES["propagate.rules"]["expected"]


def test_leaves() -> None:
    assert window("S").pattern.label == RULES["leaf"]["time-based"]
    assert window("S", RowWindow(3)).pattern.label == RULES["leaf"]["count-based"]
    assert window("S", TimeWindow(FOREVER)).pattern is UpdatePattern.MONOTONIC


@pytest.mark.parametrize("label", SUB_PLANS)
def test_unary_rules(label: str) -> None:
    below = SUB_PLANS[label]
    assert Filter(below, TRUE).pattern.label == RULES["rule1_unary_weakest_and_nrr_join"][label]
    assert with_table(NrrJoin, below).pattern.label == RULES["rule1_unary_weakest_and_nrr_join"][label]
    assert with_table(RelationJoin, below).pattern.label == RULES["rule4_strict_and_relation_join"][label]
    assert Distinct(below).pattern.label == RULES["rule3_weak_unary"][label]
    counted = GroupBy(below, ("S.v",), (Aggregated("n", "count", None, pa.int64()),))
    assert counted.pattern.label == RULES["rule4_strict_and_relation_join"][label]


@pytest.mark.parametrize("labels", list(itertools.product(SUB_PLANS, SUB_PLANS)))
def test_binary_rules(labels: tuple[str, str]) -> None:
    left, right = (SUB_PLANS[label] for label in labels)
    both = ",".join(labels)
    assert Join(left, right, keys(left, right)).pattern.label == RULES["rule3_weak_binary"][both]
    assert Union((left, right)).pattern.label == RULES["rule2_binary_weakest"][both]
    assert Negation(left, right, keys(left, right)).pattern is UpdatePattern.STRICT
    assert Intersection(left, right, keys(left, right)).pattern is UpdatePattern.STRICT


def test_a_union_of_windows_of_different_lengths_is_weak() -> None:
    example = EXAMPLES["classify.union_unequal_windows"]
    one, other = (TimeWindow(length) for length in example["inputs"]["windows"])
    assert Union((window("S", one), window("T", other))).pattern.label == example["expected"]["class_by_definition"]
    assert Union((window("S", one), window("T", one))).pattern is UpdatePattern.WEAKEST


def test_a_join_of_streams_never_expires() -> None:
    streams = window("S", TimeWindow(FOREVER)), window("T", TimeWindow(FOREVER))
    assert Join(*streams, (("S.v", "T.v"),)).pattern is UpdatePattern.MONOTONIC
    assert Join(streams[0], window("T"), (("S.v", "T.v"),)).pattern is UpdatePattern.WEAK


def test_explain_shows_the_pattern_of_every_edge() -> None:
    shown = list(explain(plan(EXAMPLES["plan.figure_3_5_left"]["inputs"]["plan"])))
    assert shown[0].startswith("Negation on S1.v = S3.v") and shown[0].endswith("-> STR")
    assert shown[1].strip() == "Join on S1.v = S2.v  -> WK"
    assert [line.rpartition(" ")[2] for line in shown] == ["STR", "WK", "WKS", "WKS", "WKS", "WKS", "WKS"]


def two(name: str, kind: TimeWindow | RowWindow | None = None, partition: tuple[str, ...] = ()) -> BaseWindow:
    columns = tuple(Column(f"{name}.{c}", RowExpression(c, pa.int64(), (c,))) for c in "ab")
    return BaseWindow(name, name, kind or TimeWindow(9), columns, partition=partition)


def test_explain_names_the_table() -> None:
    shown = list(explain(with_table(NrrJoin, window("S"))))
    assert shown[0] == "Non-retroactive join with names on S.v = n.id  -> WKS"
