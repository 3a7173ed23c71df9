"""The report's examples, run as they are."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from papers.window_index import costs
from sash.rows import (
    Aggr,
    ChainedDirectory,
    Group,
    GroupIndex,
    Groups,
    Hash,
    RowIndex,
    SetIndex,
    SlidingWindow,
    TreeDirectory,
    rings,
)
from tests.rows.tables import of_values

EXAMPLES = {
    each["id"].removeprefix("window_index."): each
    for each in json.loads((Path(__file__).parents[1] / "golden" / "window_index.json").read_text())["examples"]
}
# Classifications of operators, of which nothing here computes anything.
NOT_RUN = {"modes", "incremental_classes"}


def example(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return EXAMPLES[name]["inputs"], EXAMPLES[name]["expected"]


def pairs(values: Any, counts: Any) -> list[list[int]]:
    return [list(pair) for pair in zip(values.to_pylist(), counts.tolist(), strict=True)]


def keyed(buckets: list[Any]) -> dict[str, Any]:
    return {str(number): [list(pair) for pair in bucket] for number, bucket in enumerate(buckets)}


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_sub_window_in_list_aggr_and_hash(one_by_one: bool) -> None:
    inputs, expected = example("basic_window.figure2")
    column = pa.chunked_array([inputs["values"]])
    aggr = Aggr(one_by_one).summarise(column)
    assert keyed(aggr.buckets())["0"] == expected["AGGR"]
    assert len(aggr.values) == expected["distinct_d"]
    assert keyed(Hash(inputs["hash_buckets"], one_by_one).summarise(column).buckets()) == expected["HASH"]
    window = SlidingWindow(1, pa.schema({"value": pa.int64()}))
    window.add(of_values(inputs["values"]))
    assert window.attach().rows["value"].to_pylist() == expected["LIST"]
    assert len(window) == expected["tuples_b"]


def test_a_sub_window_in_groups() -> None:
    inputs, expected = example("basic_window.group")
    groups = Groups(pa.int64(), [low for low, _ in inputs["groups"]], inputs["groups"][-1][1])
    counts = Group(groups).summarise(pa.chunked_array([inputs["values"]])).counts
    found = [
        [row["low"], row["high"], count]
        for row, count in zip(groups.ranges().to_pylist(), counts.tolist(), strict=True)
    ]
    # Two groups of ours hold what lies outside of all ranges: nothing here.
    assert found[1:-1] == expected["GROUP"]
    assert found[0][2] == found[-1][2] == 0
    index = GroupIndex(groups)
    index.add(0, pa.array(inputs["values"]))
    assert [list(row.values()) for row in index.histogram().to_pylist()] == [
        group for group in expected["GROUP"] if group[2]
    ]


def test_the_contents_of_the_indexes() -> None:
    inputs, expected = example("index.figure3")
    hashed = ChainedDirectory(inputs["hash_buckets"])
    indexes = {"L": SetIndex(pa.int64(), "list"), "T": SetIndex(pa.int64(), "tree"), "H": SetIndex(pa.int64(), hashed)}
    for index in indexes.values():
        for number, values in enumerate(inputs["basic_windows"]):
            index.add(number, pa.array(values))
        assert index.distinct() == expected["distinct_D"]
    assert pairs(*indexes["L"].items()) == expected["L_INDEX"]
    assert pairs(*indexes["T"].items()) == expected["T_INDEX_in_order"]
    assert pairs(*indexes["H"].items()) == expected["L_INDEX"]
    buckets = [[(key, indexes["H"].count(key)) for key in bucket.tolist()] for bucket in hashed.buckets()]
    assert keyed(buckets) == expected["H_INDEX"]


@pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
def test_the_shape_of_the_tree(order: str) -> None:
    inputs, expected = example("index.t_index_shape")
    tree = TreeDirectory()
    for value in inputs["insertion_orders"][order]:
        tree.link(np.array([value]))

    def as_lists(node: Any) -> Any:
        return [node[0], as_lists(node[1]), as_lists(node[2])] if node else None

    assert as_lists(tree.shape()) == expected["avl"][order]


def test_unsorted_buckets_have_the_newest_value_first() -> None:
    inputs, expected = example("index.uh_index")
    listed = [value for values in inputs["basic_windows"] for value in values]
    for order, reading in (
        (listed, "listed_order_insert_at_head"),
        (listed[::-1], "reverse_of_listed_order_insert_at_head"),
    ):
        directory = ChainedDirectory(inputs["hash_buckets"], ascending=False)
        directory.link(np.array(order))
        found = {str(number): bucket.tolist() for number, bucket in enumerate(directory.buckets())}
        assert found == expected["readings"][reading]
    assert "reverse_of_listed_order_insert_at_head" in expected["consistent_with_text"]
    assert found["0"] == expected["bucket_0"]
    assert found["3"][0] == expected["last_bucket_first_value"]


@pytest.mark.parametrize("directory", ["list", "tree", "hash", "unsorted"])
def test_a_slide_leaves_zero_counts_until_they_are_purged(directory: str) -> None:
    inputs, expected = example("index.slide")
    index = SetIndex(pa.int64(), directory)
    for number, values in enumerate(inputs["basic_windows_oldest_first"]):
        index.add(number, pa.array(values))
    index.add(2, pa.array(inputs["new_basic_window"]))
    index.evict(0)
    assert pairs(*index.items(zeros=True)) == expected["counts_with_zero_nodes"]
    index.purge()
    assert pairs(*index.items(zeros=True)) == expected["counts_after_purge"]


@pytest.mark.parametrize("directory", ["list", "tree", "hash", "unsorted"])
def test_two_windows_share_an_index_that_intersects_them(directory: str) -> None:
    inputs, expected = example("intersection")
    index = SetIndex(pa.int64(), directory, sides=2)
    index.add(0, pa.array(inputs["window_1"]), side=0)
    index.add(0, pa.array(inputs["window_2"]), side=1)
    assert index.intersection().to_pylist() == expected["intersection"]


@pytest.mark.parametrize("method", ["ring", "aux", "bw", "db"])
def test_deletion_from_a_ring(method: str) -> None:
    inputs, expected = example("ring.delete")
    value, windows = inputs["value"], inputs["basic_windows_oldest_first"]
    index = RowIndex(pa.int64(), method, "list")
    for number, values in enumerate(windows):
        index.add(number, 1 + 4 * number, pa.array(values))
    assert index.rows(value).tolist() == expected["ring_positions_before"]
    index.evict(0)
    assert index.rows(value).tolist() == [
        row for row in expected["ring_positions_before"] if row not in expected["expired_positions"]
    ]
    if method == "db":
        keys = index.directory.keys[index.directory.ordered()].tolist()
        bits = index.rings.nodes.dirty[index.directory.ordered()].astype(int).tolist()
        assert {str(key): bit for key, bit in zip(keys, bits, strict=True)} == expected["dirty_bits_DB"]
        assert expected["dirty_bits_DB"][str(value)] == expected["dirty_bit_DB"]
    index.add(3, 13, pa.array(inputs["new_basic_window"]))
    assert index.rows(value).tolist() == expected["ring_positions_after"]


def test_how_often_a_deletion_goes_round_the_ring() -> None:
    """One ring alone: each round follows the links of all nodes behind the leaving one."""
    _, expected = example("ring.delete")
    before, expired = expected["ring_positions_before"], expected["expired_positions"]
    entries, nodes = np.zeros(len(before), dtype=np.int64), np.arange(len(before))
    gone = nodes[: len(expired)]
    start, link = np.full(1, -1), np.full(len(before), -1)
    rings.kernel_append_each(entries, nodes, start, link)
    rounds = expected["ring_traversals"]["AUX_per_tuple"]
    assert rings.kernel_delete_oldest(gone, start, link) == sum(len(before) - 1 - place for place in range(rounds))
    start, link = np.full(1, -1), np.full(len(before), -1)
    rings.kernel_push(entries, entries[:1], nodes, start, link)
    stay = len(before) - len(expired)
    marks = np.zeros(len(before), dtype=bool)
    assert rings.kernel_delete_bulk(gone, start, link, marks) == expected["ring_traversals"][
        "BW_per_distinct_value"
    ] * (stay - 1)


def test_costs_of_set_indexes() -> None:
    inputs, expected = example("cost.table1")
    names = {"L": "list", "T": "tree", "H": "hash"}
    for storage, row in expected.items():
        for index, steps in row.items():
            assert costs.set_index(storage.lower(), names[index], **inputs) == steps


def test_costs_of_rings() -> None:
    inputs, expected = example("cost.ring")
    for case, row in zip(inputs["cases_N_D_b_d"], expected["per_tuple"], strict=True):
        for name, steps in row.items():
            assert costs.row_index(name.removesuffix("_insert_only").lower(), *case) == Fraction(steps)


def test_costs_of_sub_windows() -> None:
    inputs, expected = example("cost.basic_window")
    b, d, h, g = inputs["b"], inputs["d"], inputs["h"], inputs["g"]
    for storage, steps in expected["insert_per_tuple"].items():
        assert costs.insertion(storage.lower(), d, h, g) == Fraction(steps)
    for storage, entries in expected["space"].items():
        assert costs.space(storage.lower(), b, d, h, g) == entries


def test_bounds_of_the_delay() -> None:
    inputs, expected = example("delay_bounds")
    assert list(costs.delay(inputs["t_b"], inputs["d"], oldest=True)) == expected["oldest_tuple_of_basic_window"]
    assert list(costs.delay(inputs["t_b"], inputs["d"])) == expected["any_tuple"]


def test_every_example_is_run() -> None:
    text = Path(__file__).read_text()
    assert {name for name in EXAMPLES if f'example("{name}")' not in text} == NOT_RUN
