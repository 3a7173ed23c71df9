"""What waits for an update: deliveries that come twice, in another division, or half."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.archive import Spec, with_times
from sash.archive.inbox import Inbox

SPEC = Spec(pa.schema({"k": pa.int64()}), "k", lifetime=16, every=2, g=2, e=2, layout="round_robin", strategy="rebuild")


def records(times: list[int]) -> pa.Table:
    return with_times(pa.table({"k": pa.array(times, pa.int64())}), times, [time + 5 for time in times])


def waiting(inbox: Inbox, since: int | None, until: int) -> list[int]:
    return sorted(inbox.waiting(since, until).read(SPEC)["k"].to_pylist())


def test_records_between_two_times_wait(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, SPEC)
    assert waiting(inbox, None, 100) == []
    inbox.put(0, records([1, 2, 3]))
    inbox.put(1, records([2, 4, 9]))
    assert waiting(inbox, None, 3) == [1, 2, 2, 3]
    assert waiting(inbox, 2, 9) == [3, 4, 9]


def test_a_delivery_that_comes_again_replaces_itself(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, SPEC)
    inbox.put(-7, records([1, 2]))
    inbox.put(-7, records([1, 2]))
    assert waiting(inbox, None, 9) == [1, 2]


def test_deliveries_that_come_again_in_another_division(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, SPEC)
    for first, times in ((1, [1, 2]), (3, [3, 4]), (5, [5])):
        inbox.put(first, records(times))
    inbox.cut(3)
    inbox.put(3, records([3]))
    inbox.cut(4)
    inbox.put(4, records([4, 5]))
    assert waiting(inbox, None, 9) == [1, 2, 3, 4, 5]


def test_what_an_update_has_taken_goes(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, SPEC)
    inbox.put(0, records([1, 2]))
    inbox.put(1, records([2, 3]))
    inbox.forget(2)
    assert [path.name for path in sorted((tmp_path / "inbox").iterdir())] == [inbox.place(1).name]
    assert waiting(inbox, 2, 9) == [3]
    inbox.clear()
    assert waiting(inbox, None, 9) == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_directory_of_spark_counts_when_it_is_whole(tmp_path: Path, whole: bool) -> None:
    inbox = Inbox(tmp_path, SPEC)
    place = inbox.place(3)
    place.mkdir()
    pq.write_table(records([1, 2]), place / "part-00000.parquet")
    pq.write_table(records([3]), place / "part-00001.parquet")
    if whole:
        (place / "_SUCCESS").touch()
    assert waiting(inbox, None, 9) == ([1, 2, 3] if whole else [])
    inbox.forget(3)
    assert place.exists() is not whole


def test_a_draft_that_a_crash_left_is_not_read(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, SPEC)
    (tmp_path / "inbox" / f".{inbox.place(0).name}.draft").write_bytes(b"half")
    assert waiting(inbox, None, 9) == []


@given(st.lists(st.lists(st.integers(0, 40), max_size=5), max_size=6), st.integers(0, 40))
def test_nothing_is_lost_between_two_updates(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]], at: int
) -> None:
    inbox = Inbox(tmp_path_factory.mktemp("a"), SPEC)
    for number, times in enumerate(parts):
        inbox.put(number, records(times))
    taken = waiting(inbox, None, at)
    inbox.forget(at)
    assert sorted(taken + waiting(inbox, at, 40)) == sorted(time for times in parts for time in times)
