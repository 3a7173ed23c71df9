"""State in files, and in the memory of whichever process has a bucket: files are the truth, and little is written."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import Arrivals, Stage, bucket_state
from sash.changes.bucket_state import Manifest, State, WarmState
from sash.changes.buffers import Chunk
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import STRATEGIES, Aggregated, Distinct, GroupBy, Join, Node, windows
from sash.plan.outputs import ISTREAM, Deltas
from tests.changes.test_buffers import tuples as lived
from tests.changes.test_plans_oracle import END
from tests.changes.test_plans_oracle import run as run_at_once
from tests.support.examples import examples
from tests.support.plans import INT, dense_tuples, plans, tuples, window
from tests.support.relational import Inputs, listed

# What a process remembers.
Memory = dict[tuple[str, int], WarmState]


def arrivals(stage: Stage, inputs: Inputs, low: int, high: int) -> dict[int, Arrivals]:
    found = {}
    for place, (schema, each) in enumerate(zip(stage.schemas, inputs, strict=True)):
        batch = [(ts, row) for ts, row in each if low <= ts < high]
        columns = [pa.array([row[i] for _, row in batch], field.type) for i, field in enumerate(schema)]
        found[place] = Arrivals(pa.table(columns, schema=schema), np.array([ts for ts, _ in batch], dtype=np.int64))
    return found


def attempt(
    worker: Memory, stage: Stage, inputs: Inputs, low: int, high: int, directory: Path, file: str, manifest: Any
) -> tuple[list[Any], Manifest]:
    """An epoch in a process that remembers something."""
    with patch.object(bucket_state, "_KNOWN", worker):
        state = bucket_state.load(directory, 0, manifest)
        changes, after = stage.step(state, arrivals(stage, inputs, low, high), low, high)
        _, written = bucket_state.store(directory, 0, file, after, durable=False)
    return listed(changes), json.loads(json.dumps(written))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(st.data())
@settings(max_examples=examples(150))
def test_an_epoch_does_the_same_in_any_process(strategy: str, data: st.DataObject) -> None:
    """Up to date, outdated, new, after an attempt that was given up: the same changes, the same bytes."""
    plan = data.draw(plans(), label="plan")
    inputs = [data.draw(st.one_of(dense_tuples, tuples), label=each.alias) for each in windows(plan)]
    cuts = sorted(data.draw(st.sets(st.integers(1, END - 1), max_size=12), label="cuts"))
    stage, workers = Stage(plan, 3, strategy), list[Memory]([{}, {}])
    found, manifest, low = list[Any](), None, 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for number, high in enumerate([*cuts, END]):
            file = f"{number}.arrow"
            if data.draw(st.integers(0, 4)) == 0:
                # It went further, and was never committed.
                attempt(workers[0], stage, inputs, low, min(high + 3, END), directory, file, manifest)
            if data.draw(st.integers(0, 4)) == 0:
                workers[1].clear()
            attempts = [
                attempt(workers[each], stage, inputs, low, high, directory, file, manifest)
                for each in data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=3), label="workers")
            ]
            assert all(each == attempts[0] for each in attempts)
            changes, manifest = attempts[0]
            found += changes
            low = high
            for path in directory.iterdir():
                if path.name not in bucket_state.files_of(manifest):
                    path.unlink()
    assert sorted(found, key=repr) == sorted(run_at_once(plan, inputs, [], strategy=strategy), key=repr)


def values(number: int, start: int, keys: int) -> list[tuple[int, tuple[int, int]]]:
    """A tuple an instant; a key comes once in as many instants as there are keys."""
    return [(start + at, ((start + at) * 7_919 % keys, (start + at) % 5)) for at in range(number)]


def written_bytes(plan: Node, strategy: str, stored: int) -> int:
    """The bytes of 40 epochs of 50 tuples for each window, after many tuples."""
    stage, manifest, low, total, worker = Stage(plan, strategy=strategy), None, 0, 0, Memory()
    with tempfile.TemporaryDirectory() as name:
        for number, size in enumerate([stored, *[50] * 40]):
            inputs = [values(size, low, stored) for _ in windows(plan)]
            file = Path(name) / f"{number}.arrow"
            _, manifest = attempt(worker, stage, inputs, low, low + size, Path(name), file.name, manifest)
            low += size
            if number and file.exists():
                total += file.stat().st_size
    return total


COUNT = (Aggregated("n", "count", None, INT),)


def deltas(stored: int) -> dict[str, tuple[Node, str]]:
    """Plans that have many tuples, and whose windows are full: with each tuple another one leaves."""
    s, t = (window(name, TimeWindow(stored)) for name in "ST")
    last, all_time = window("S", RowWindow(stored)), window("S", TimeWindow(FOREVER))
    join = Join(s, t, (("S.a", "T.a"),))
    return {
        "distinct": (Distinct(s), "upa"),
        "join": (join, "upa"),
        "join_by_negative_tuples": (join, "nt"),
        "rows": (last, "upa"),
        "groups": (GroupBy(s, ("S.a",), COUNT), "upa"),
        "growing_groups": (GroupBy(all_time, ("S.a",), COUNT), "upa"),
        "counted_distinct": (Distinct(last), "upa"),
        "new_groups": (Deltas(GroupBy(last, ("S.a",), COUNT), ISTREAM), "upa"),
        "named_groups": (Distinct(GroupBy(last, ("S.a",), COUNT)), "upa"),
    }


@pytest.mark.parametrize("name", deltas(1))
def test_an_epoch_writes_what_has_changed(name: str) -> None:
    """As many bytes for 50 tuples, whether 2,000 tuples are stored or 16,000."""
    few, many = (written_bytes(*deltas(stored)[name], stored) for stored in (2_000, 16_000))
    assert many < 1.5 * few


def test_a_chunk_that_loses_tuples_is_written_again_when_half_of_it_is_gone(tmp_path: Path) -> None:
    state = State({"left": (Chunk(lived(*((0, 9, each) for each in range(100)))),)})
    sizes, left, memory = [], list(range(100)), Memory()
    for number in range(60):
        with patch.object(bucket_state, "_KNOWN", memory):
            _, manifest = bucket_state.store(tmp_path, 0, f"{number}.arrow", state, durable=False)
        path = tmp_path / f"{number}.arrow"
        sizes.append(path.stat().st_size if path.exists() else 0)
        with patch.object(bucket_state, "_KNOWN", {}):
            cold = bucket_state.load(tmp_path, 0, json.loads(json.dumps(manifest)))
        (chunk,) = cold.chunks("left")
        assert chunk.tuples.ids[:, 0].tolist() == left and len(chunk.dropped.parts) <= 7
        gone = np.zeros(len(chunk), dtype=np.bool_)
        gone[number * 37 % len(chunk)] = True
        state, left = (
            State({"left": (chunk.without(gone),)}),
            [each for each, hit in zip(left, gone, strict=True) if not hit],
        )
    whole = [number for number, size in enumerate(sizes) if size > 500]
    assert whole == [0, 51] and sum(sizes[1:51]) < 2_000


def test_a_process_remembers_no_more_than_its_share_of_memory(tmp_path: Path) -> None:
    state = State({"left": (Chunk(lived(*((0, 9, each) for each in range(1_000)))),)})
    (chunk,) = state.chunks("left")
    memory = Memory()
    with patch.object(bucket_state, "_KNOWN", memory), patch.object(bucket_state, "MOST_BYTES", 3 * chunk.nbytes):
        manifests = [bucket_state.store(tmp_path, each, f"{each}.arrow", state, durable=False)[1] for each in range(9)]
        assert [bucket for _, bucket in memory] == [6, 7, 8]
        assert bucket_state.load(tmp_path, 0, manifests[0]).tuples == 1_000
        assert [bucket for _, bucket in memory] == [7, 8, 0]
    with patch.object(bucket_state, "_KNOWN", memory), patch.object(bucket_state, "MOST_BYTES", 1):
        # The bucket that is worked on is remembered, however large it is.
        bucket_state.load(tmp_path, 5, manifests[5])
        assert [bucket for _, bucket in memory] == [5]


def test_chunks_of_earlier_versions_have_lost_nothing(tmp_path: Path) -> None:
    state = State({"left": (Chunk(lived((0, 9, 0), (0, 9, 1))),)})
    _, manifest = bucket_state.store(tmp_path, 0, "1.arrow", state, durable=False)
    assert [len(entry) for entry in manifest["buffers"]["left"]] == [5]
    bucket_state.forget(tmp_path)
    assert bucket_state.load(tmp_path, 0, manifest).tuples == 2
