"""Every state buffer keeps live tuples, drops expired ones, and rewrites no chunk without need."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.changes import bucket_state
from sash.changes.bucket_state import State, WorkingState
from sash.changes.buffers import MOST_CHUNKS, Buffer, CalendarQueue, Chunk, Fifo, HashedBuffer, buffer_for
from sash.core.changes import NEVER, Changes, UpdatePattern
from sash.core.errors import CheckpointError

SCHEMA = pa.schema([("v", pa.int64())])
GOLDEN = Path(__file__).parents[1] / "golden" / "update_patterns.json"
BUFFERS = {
    "fifo": lambda: Fifo(),
    "calendar": lambda: CalendarQueue(span=4, partitions=3),
    "hashed": lambda: HashedBuffer(slots=3),
}


def tuples(*lived: tuple[int, int, int]) -> Changes:
    """(ts, exp, id) as tuples whose value is their id."""
    ts, exp, ids = (
        np.array(column, dtype=np.int64) for column in (zip(*lived, strict=True) if lived else ((), (), ()))
    )
    rows = pa.table({"v": ids}, schema=SCHEMA)
    return Changes(rows, ts, exp, np.ones(len(ts), dtype=np.int8), ids.reshape(-1, 1))


def held(buffer: Buffer, now: int) -> list[int]:
    return sorted(int(value) for part in buffer.tuples() for value in part.ids[part.exp > now, 0])


@pytest.mark.parametrize("kind", BUFFERS)
@given(
    st.lists(st.tuples(st.lists(st.integers(1, 9), max_size=4), st.sets(st.integers(0, 30), max_size=3)), max_size=12)
)
def test_a_buffer_holds_what_lives(kind: str, epochs: list[tuple[list[int], set[int]]]) -> None:
    buffer, expected, number = BUFFERS[kind](), dict[int, int](), 0
    for now, (lifetimes, gone) in enumerate(epochs):
        # First in, first out is the FIFO's condition; others may live as long as they like.
        lived = [(now, now + (5 if kind == "fifo" else life), number + i) for i, life in enumerate(lifetimes)]
        number += len(lived)
        buffer.add(tuples(*lived))
        expected |= {id: exp for _, exp, id in lived}
        stored = np.concatenate([part.ids[:, 0] for part in buffer.tuples()] or [np.zeros(0, dtype=np.int64)])
        buffer.drop(np.isin(stored, sorted(gone)))
        buffer.expire(now)
        expected = {id: exp for id, exp in expected.items() if id not in gone and exp > now}
        assert held(buffer, now) == sorted(expected)
        assert all(chunk.latest > now for chunk in buffer.chunks) and len(buffer) <= 2 * len(expected)


@pytest.mark.parametrize("kind", BUFFERS)
def test_at_most_half_of_what_is_stored_is_dead(kind: str) -> None:
    """However often chunks are merged; and chunks that are mostly alive stay as they are."""
    buffer, number = BUFFERS[kind](), 0
    for now in range(300):
        lifetimes = (20,) if kind == "fifo" else (1, 5, 12)
        buffer.add(tuples(*((now, now + life, number + i) for i, life in enumerate(lifetimes))))
        number += len(lifetimes)
        buffer.expire(now)
        assert len(buffer) <= 2 * len(held(buffer, now))


def test_expiry_drops_whole_chunks_and_touches_no_other() -> None:
    buffer = CalendarQueue(span=10, partitions=5)
    buffer.add(tuples((0, 9, 0), (0, 12, 1), (0, 25, 2)))
    chunks = list(buffer.chunks)
    assert [chunk.partition for chunk in chunks] == [0, 1, 2]
    buffer.expire(12)
    assert buffer.chunks == chunks[2:]


def test_a_negative_tuple_makes_one_chunk_anew() -> None:
    buffer = HashedBuffer(slots=2)
    buffer.add(tuples((0, 9, 0), (0, 9, 1), (0, 9, 2), (0, 9, 3)))
    untouched = [chunk for chunk in buffer.chunks if chunk.partition == 1]
    buffer.drop(np.array([True, False, False, False]))
    assert held(buffer, 0) == [1, 2, 3]
    assert [chunk for chunk in buffer.chunks if chunk.partition == 1] == untouched


def test_the_calendar_queue_of_figure_3_6() -> None:
    examples = json.loads(GOLDEN.read_text())["examples"]
    example = next(each for each in examples if each["id"] == "update_patterns.calendar_queue.figure_3_6")
    given_, expected = example["inputs"], example["expected"]
    queue = CalendarQueue(span=given_["window"] // given_["partitions"], partitions=given_["partitions"])
    assert queue.span == given_["partition_span"]
    assert queue.partition_of_exp(np.array(given_["insert_exp"])).tolist() == expected["partition_of_exp"]
    assert queue.partition_of_exp(np.array(given_["later_insert_exp"])).tolist() == expected["later_partition_of_exp"]
    for ranges in (expected["ranges_at_50"], expected["ranges_at_60"]):
        for partition, (first, last) in enumerate(ranges):
            assert set(queue.partition_of_exp(np.arange(first, last + 1)).tolist()) == {partition}


def test_what_never_expires_keeps_no_partition_alive() -> None:
    buffer = CalendarQueue(span=10, partitions=5)
    buffer.add(tuples((0, NEVER, 0), (0, 9, 1)))
    buffer.expire(9)
    assert held(buffer, 9) == [0] and len(buffer) == 1


@pytest.mark.parametrize("kind", BUFFERS)
def test_many_small_chunks_become_few(kind: str) -> None:
    buffer = BUFFERS[kind]()
    for i in range(200):
        buffer.add(tuples((i, i + 1_000, i)))
    assert held(buffer, 0) == list(range(200))
    assert len(buffer.chunks) < 60


def test_a_partition_keeps_eight_chunks_and_no_more() -> None:
    buffer = HashedBuffer(slots=1)
    for i in range(MOST_CHUNKS):
        buffer.add(tuples((i, i + 1_000, i)))
    assert len(buffer.chunks) == MOST_CHUNKS == 8
    buffer.add(tuples((8, 1_008, 8)))
    assert sorted(map(len, buffer.chunks)) == [1] * 7 + [2] and held(buffer, 0) == list(range(9))


def test_first_in_first_out_keeps_four_times_as_many() -> None:
    """Two neighbours are merged when there is one more."""
    buffer = Fifo()
    for i in range(4 * MOST_CHUNKS):
        buffer.add(tuples((i, i + 1_000, i)))
    assert list(map(len, buffer.chunks)) == [1] * 32
    buffer.add(tuples((32, 1_032, 32)))
    assert sorted(map(len, buffer.chunks)) == [1] * 31 + [2] and held(buffer, 0) == list(range(33))


def test_the_pattern_chooses_the_buffer() -> None:
    kinds = {pattern: type(buffer_for(pattern, span=10)) for pattern in UpdatePattern}
    assert kinds == {
        UpdatePattern.MONOTONIC: Fifo,
        UpdatePattern.WEAKEST: Fifo,
        UpdatePattern.WEAK: CalendarQueue,
        UpdatePattern.STRICT: HashedBuffer,
    }
    # Its days, four of them, cover the lifetime.
    queue = buffer_for(UpdatePattern.WEAK, span=10, partitions=4)
    assert isinstance(queue, CalendarQueue) and (queue.span, queue.partitions) == (3, 4)


def test_an_epoch_that_does_nothing_leaves_the_state_as_it_was() -> None:
    state = State({"left": (Chunk(tuples((0, 9, 0))),)}, {"left": 1})
    after = WorkingState(state).finished()
    assert after == state and after.results == 0


# -- files ------------------------------------------------------------------------------------------------------


def test_an_epoch_writes_only_the_chunks_that_it_made(tmp_path: Path) -> None:
    first = State({"left": (Chunk(tuples((0, 9, 0))),)}, {"left": 1})
    stored, manifest = bucket_state.store(tmp_path, 0, "1.arrow", first, durable=False)
    grown = State({"left": (*stored.chunks("left"), Chunk(tuples((1, 9, 1)), 2))}, {"left": 2})
    _, after = bucket_state.store(tmp_path, 0, "2.arrow", grown, durable=True)
    assert bucket_state.files_of(manifest) == {"1.arrow"} and bucket_state.files_of(after) == {"1.arrow", "2.arrow"}
    bucket_state.forget(tmp_path)
    again = bucket_state.load(tmp_path, 0, json.loads(json.dumps(after)))
    assert [chunk.partition for chunk in again.chunks("left")] == [0, 2]
    assert [int(chunk.tuples.ids[0, 0]) for chunk in again.chunks("left")] == [0, 1]
    assert again.counters == {"left": 2} and again.tuples == 2
    same, unchanged = bucket_state.store(tmp_path, 0, "3.arrow", again, durable=True)
    assert unchanged == after and same.tuples == 2 and not (tmp_path / "3.arrow").exists()


def test_what_a_task_has_added_is_read_once_per_process(tmp_path: Path) -> None:
    state, manifest = bucket_state.store(
        tmp_path, 0, "1.arrow", State({"left": (Chunk(tuples((0, 9, 0))),)}), durable=False
    )
    added = replace(state, own={"left": (Chunk(tuples((1, 9, 1))),)})
    bucket_state.extend(manifest, bucket_state.store_own(tmp_path, 0, "2.arrow", added, durable=False))
    for file in bucket_state.files_of(manifest):
        (tmp_path / file).unlink()
    again = bucket_state.load(tmp_path, 0, manifest)
    assert [int(chunk.tuples.ids[0, 0]) for chunk in again.chunks("left")] == [0, 1]


def test_what_was_not_used_for_long_is_forgotten(tmp_path: Path) -> None:
    state = State({"left": (Chunk(tuples((0, 9, 0))),)})
    manifests = [
        bucket_state.store(tmp_path, bucket, f"{bucket}.arrow", state, durable=False)[1] for bucket in range(64)
    ]
    bucket_state.load(tmp_path, 0, manifests[0])
    bucket_state.store(tmp_path, 64, "64.arrow", state, durable=False)
    for file in tmp_path.iterdir():
        file.unlink()
    assert bucket_state.load(tmp_path, 0, manifests[0]).tuples == 1
    with pytest.raises(CheckpointError, match="cannot be read"):
        bucket_state.load(tmp_path, 1, manifests[1])


def test_a_damaged_state_file_is_refused(tmp_path: Path) -> None:
    _, manifest = bucket_state.store(tmp_path, 0, "1.arrow", State({"left": (Chunk(tuples((0, 9, 0))),)}), durable=True)
    bucket_state.forget(tmp_path)
    data = bytearray((tmp_path / "1.arrow").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "1.arrow").write_bytes(data)
    with pytest.raises(CheckpointError, match="its checksum is wrong"):
        bucket_state.load(tmp_path, 0, manifest)
    (tmp_path / "1.arrow").unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        bucket_state.load(tmp_path, 0, manifest)
