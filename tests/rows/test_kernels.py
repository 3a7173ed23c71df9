"""Each kernel against a plain version of it, and the directories against sorted lists."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.rows import ChainedDirectory, Directory, TreeDirectory, chained_directory, rings, set_index, tree_directory
from sash.rows.directory import PIECE, Ints
from sash.rows.value_groups import kernel_count_groups
from tests.support.examples import examples

MAKERS: dict[str, Any] = {
    "list": ChainedDirectory,
    "hash": lambda: ChainedDirectory(3),
    "unsorted": lambda: ChainedDirectory(3, ascending=False),
    "tree": TreeDirectory,
}
KEYS = st.one_of(st.integers(-20, 40), st.sampled_from([-(2**63), 2**63 - 1]))
LISTS = st.lists(KEYS, max_size=60)


def ints(values: Any) -> Any:
    return np.array(values, dtype=np.int64)


def check_balance(directory: Directory) -> None:
    """AVL: the sides of no node differ by more than one level, and heights are as stored."""
    if not isinstance(directory, TreeDirectory):
        return
    _, _, state, left, right, height = directory.arrays

    def levels(at: int) -> int:
        if at < 0:
            return 0
        sides = levels(int(left[at])), levels(int(right[at]))
        assert abs(sides[0] - sides[1]) <= 1
        assert height[at] == 1 + max(sides)
        return 1 + max(sides)

    levels(int(state[1]))


def reference_link(values: Ints, keys: Ints, free: Ints, state: Ints, found: Ints) -> None:
    """What each directory's kernel does to slots, whatever its structure is, for keys that start with none."""
    slots: dict[int, int] = {}
    for place, value in enumerate(values.tolist()):
        if value not in slots:
            state[0] -= 1
            slots[value] = int(free[state[0]])
            keys[slots[value]] = value
        found[place] = slots[value]


@pytest.mark.parametrize("name", MAKERS)
@given(values=LISTS)
def test_linking_gives_each_key_its_slot(name: str, values: list[int]) -> None:
    directory = MAKERS[name]()
    keys, free, state, *_ = (array.copy() for array in directory.arrays)
    expected = np.empty(len(values), dtype=np.int64)
    reference_link(ints(values), keys, free, state, expected)
    assert directory.link(ints(values)).tolist() == expected.tolist()
    assert directory.keys[directory.ordered()].tolist() == sorted(set(values))
    assert len(directory) == len(set(values))
    check_balance(directory)


@pytest.mark.parametrize("name", MAKERS)
@given(rounds=st.lists(st.tuples(LISTS, st.sets(KEYS)), max_size=5), asked=LISTS)
def test_entries_keep_their_slots_while_others_come_and_go(
    name: str, rounds: list[tuple[list[int], set[int]]], asked: list[int]
) -> None:
    directory, slots = MAKERS[name](), dict[int, int]()
    for values, removed in rounds:
        linked = directory.link(ints(values)).tolist()
        for value, slot in zip(values, linked, strict=True):
            assert slots.setdefault(value, slot) == slot
        alive = np.ones(directory.capacity, dtype=bool)
        for value in removed & set(slots):
            alive[slots.pop(value)] = False
        directory.keep(alive)
        assert directory.keys[directory.ordered()].tolist() == sorted(slots)
        assert directory.ordered().tolist() == [slots[value] for value in sorted(slots)]
        assert directory.find(ints(asked)).tolist() == [slots.get(value, -1) for value in asked]
        check_balance(directory)


@pytest.mark.parametrize("name", MAKERS)
@given(values=LISTS, shuffled=st.randoms(use_true_random=False))
@settings(max_examples=examples(50))
def test_keys_can_be_changed_all_at_once(name: str, values: list[int], shuffled: Any) -> None:
    directory = MAKERS[name]()
    directory.link(ints(values))
    entries = directory.ordered()
    keys = list(range(len(entries)))
    shuffled.shuffle(keys)
    directory.rekey(entries, ints(keys))
    assert directory.find(ints(keys)).tolist() == entries.tolist()
    assert directory.keys[directory.ordered()].tolist() == sorted(keys)
    assert directory.link(ints([*keys, -7]))[:-1].tolist() == entries.tolist()
    check_balance(directory)


@pytest.mark.parametrize("name", MAKERS)
def test_more_keys_than_are_linked_at_a_time(name: str) -> None:
    directory, values = MAKERS[name](), np.random.default_rng(1).permutation(2 * PIECE + 7)
    slots = directory.link(values)
    assert directory.find(values).tolist() == slots.tolist()
    assert sorted(slots.tolist()) == list(range(len(values)))
    check_balance(directory)


def reference_find_chain(values: Any, keys: Any, following: Any, heads: Any, ascending: bool, found: Any) -> None:
    slots = reference_walk_chains(following, heads, len(keys))
    for place, value in enumerate(values):
        equal = slots[keys[slots] == value]
        found[place] = equal[0] if len(equal) else -1


def reference_walk_chains(following: Any, heads: Any, most: int) -> Any:
    found = []
    for head in heads.tolist():
        while head >= 0:
            found.append(head)
            head = int(following[head])
    assert len(found) <= most
    return np.array(found, dtype=np.int64)


def reference_unlink_chains(following: Any, heads: Any, alive: Any) -> None:
    for bucket in range(len(heads)):
        chain = reference_walk_chains(following, heads[bucket : bucket + 1], len(following))
        kept = [*chain[alive[chain]].tolist(), -1]
        heads[bucket] = kept[0]
        for slot, next_slot in pairwise(kept):
            following[slot] = next_slot


@given(values=LISTS, asked=LISTS, dead=st.sets(st.integers(0, 59)), ascending=st.booleans())
def test_kernels_of_chains(values: list[int], asked: list[int], dead: set[int], ascending: bool) -> None:
    directory = ChainedDirectory(3, ascending)
    directory.link(ints(values))
    keys, _, _, following, heads = directory.arrays
    alive = np.array([slot not in dead for slot in range(len(keys))])
    one, other = np.empty(len(asked), dtype=np.int64), np.empty(len(asked), dtype=np.int64)
    chained_directory.kernel_find_chain(ints(asked), keys, following, heads, ascending, one)
    reference_find_chain(ints(asked), keys, following, heads, ascending, other)
    assert one.tolist() == other.tolist()
    copies = following.copy(), heads.copy()
    chained_directory.kernel_unlink_chains(following, heads, alive)
    reference_unlink_chains(*copies, alive)
    walks = [
        chained_directory.kernel_walk_chains(following, heads, len(keys)),
        reference_walk_chains(*copies, len(keys)),
    ]
    assert walks[0].tolist() == walks[1].tolist()


def reference_find_tree(values: Any, keys: Any, state: Any, left: Any, right: Any, found: Any) -> None:
    slots = reference_walk_tree(state, left, right)
    for place, value in enumerate(values):
        equal = slots[keys[slots] == value]
        found[place] = equal[0] if len(equal) else -1


def reference_walk_tree(state: Any, left: Any, right: Any) -> Any:
    def walk(at: int) -> list[int]:
        return [*walk(int(left[at])), at, *walk(int(right[at]))] if at >= 0 else []

    return np.array(walk(int(state[1])), dtype=np.int64)


def reference_build_tree(ascending: Any, state: Any, left: Any, right: Any, height: Any) -> None:
    def build(low: int, high: int) -> int:
        if low >= high:
            return -1
        middle = (low + high) // 2
        top = int(ascending[middle])
        left[top], right[top] = build(low, middle), build(middle + 1, high)
        height[top] = (high - low).bit_length()
        return top

    state[1] = build(0, len(ascending))


@given(values=LISTS, asked=LISTS)
def test_kernels_of_the_tree(values: list[int], asked: list[int]) -> None:
    tree = TreeDirectory()
    tree.link(ints(values))
    keys, _, state, left, right, height = tree.arrays
    one, other = np.empty(len(asked), dtype=np.int64), np.empty(len(asked), dtype=np.int64)
    tree_directory.kernel_find_tree(ints(asked), keys, state, left, right, one)
    reference_find_tree(ints(asked), keys, state, left, right, other)
    assert one.tolist() == other.tolist()
    slots = tree_directory.kernel_walk_tree(state, left, right)
    assert slots.tolist() == reference_walk_tree(state, left, right).tolist()
    built = [array.copy() for array in (state, left, right, height)]
    tree_directory.kernel_build_tree(slots, state, left, right, height)
    reference_build_tree(slots, *built)
    assert [a.tolist() for a in (state, left, right, height)] == [a.tolist() for a in built]


PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=20)


def reference_apply(counts: Any, entries: Any, amounts: Any, sign: int) -> int:
    before = np.count_nonzero(counts > 0)
    np.add.at(counts, entries, sign * amounts)
    return int(np.count_nonzero(counts > 0) - before)


def reference_apply_ones(counts: Any, entries: Any, sign: int) -> int:
    return reference_apply(counts, entries, np.ones(len(entries), dtype=np.int64), sign)


@given(pairs=PAIRS, sign=st.sampled_from([1, -1]))
def test_kernels_of_counts(pairs: list[tuple[int, int]], sign: int) -> None:
    entries, amounts = ints([entry for entry, _ in pairs]), ints([amount for _, amount in pairs])
    one, other = ints([0, 9, 1, 0, 3, 200]), ints([0, 9, 1, 0, 3, 200])
    grown = set_index.kernel_apply(one, entries, amounts, sign)
    assert grown == reference_apply(other, entries, amounts, sign)
    assert one.tolist() == other.tolist()
    grown = set_index.kernel_apply_ones(one, entries, sign)
    assert grown == reference_apply_ones(other, entries, sign)
    assert one.tolist() == other.tolist()


def reference_count_groups(keys: Any, lows: Any, counts: Any) -> None:
    counts += np.bincount(np.searchsorted(lows, keys, side="right"), minlength=len(counts))


@given(values=LISTS, lows=st.sets(KEYS, min_size=1))
def test_kernel_of_groups(values: list[int], lows: set[int]) -> None:
    one, other = (np.zeros(len(lows) + 1, dtype=np.int64) for _ in range(2))
    kernel_count_groups(ints(values), ints(sorted(lows)), one)
    reference_count_groups(ints(values), ints(sorted(lows)), other)
    assert one.tolist() == other.tolist()


RING_SIZES = st.lists(st.integers(0, 6), min_size=1, max_size=4)


@given(sizes=RING_SIZES, order=st.randoms(use_true_random=False), asked=st.lists(st.integers(-1, 3), max_size=6))
def test_collecting_rings(sizes: list[int], order: Any, asked: list[int]) -> None:
    """Against lists: insertion both ways, then rings in any order, with and without a dirty end."""
    tuples = [entry for entry, size in enumerate(sizes) for _ in range(size)]
    order.shuffle(tuples)
    entries, nodes = ints(tuples), np.arange(len(tuples))
    asked = [entry for entry in asked if entry < len(sizes)]
    lists = [[100 + at for at, each in enumerate(tuples) if each == entry] for entry in range(len(sizes))]
    identity = np.arange(len(sizes))
    inserts: list[tuple[Any, bool]] = [
        (lambda *arrays: rings.kernel_append_each(entries, nodes, *arrays), False),
        (lambda *arrays: rings.kernel_append_local(entries, identity, nodes, *arrays), False),
        (lambda *arrays: rings.kernel_push(entries, identity, nodes, *arrays), True),
    ]
    for insert, newest_first in inserts:
        start, link = np.full(len(sizes), -1), np.full(len(tuples) + 1, -1)
        insert(start, link)
        for bit in (False, True):
            dirty = np.full(len(sizes), bit)
            rows, bounds = rings.kernel_collect(
                ints(asked), start, link, np.arange(100, 101 + len(tuples)), dirty, newest_first, order.randint(0, 9)
            )
            found = [rows[low:high].tolist() for low, high in pairwise(bounds)]
            # Readers leave out the last tuple of a dirty ring: the oldest one if rings go backward.
            whole = [lists[entry] if entry >= 0 else [] for entry in asked]
            cut = [rows[1:] if newest_first else rows[:-1] for rows in whole]
            assert found == (cut if bit else whole)
