"""Files of a stored window: there while the window or a reader has them, and not longer."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import CheckpointError, SashError
from sash.storage import files as seals
from sash.storage.window_files import WindowFiles
from tests.support.faults import DAMAGES


def write(files: WindowFiles, epoch: int, numbers: dict[int, int]) -> pa.Table:
    """An epoch's files: a number of rows for the sub-window with each end."""
    place = files.place(epoch)
    place.mkdir()
    for end, rows in numbers.items():
        (place / f"_pane={end}").mkdir()
        pq.write_table(pa.table({"v": list(range(rows))}), place / f"_pane={end}" / "part-0.parquet")
    (place / "_SUCCESS").touch()
    return files.found(place)


def on_disk(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*.parquet")}


def names(found: pa.Table) -> list[str]:
    return [str(name) for name in found["file"].to_pylist()]


@pytest.mark.parametrize("durable", [False, True])
def test_files_are_found_with_their_rows_and_ends(tmp_path: Path, durable: bool) -> None:
    found = write(WindowFiles(tmp_path / "w", durable), 7, {20: 3, 10: 2, -5: 1})
    sizes = [(tmp_path / "w" / name).stat().st_size for name in names(found)]
    checksums = [zlib.crc32((tmp_path / "w" / name).read_bytes()) for name in names(found)]
    assert found["bytes"].to_pylist() == sizes
    assert found["checksum"].to_pylist() == (checksums if durable else [None] * 3)
    assert found.select(["file", "rows", "end"]).to_pylist() == [
        {"file": "epoch-000000007/_pane=-5/part-0.parquet", "rows": 1, "end": -5},
        {"file": "epoch-000000007/_pane=10/part-0.parquet", "rows": 2, "end": 10},
        {"file": "epoch-000000007/_pane=20/part-0.parquet", "rows": 3, "end": 20},
    ]


def test_an_epoch_without_rows_has_no_files(tmp_path: Path) -> None:
    files = WindowFiles(tmp_path / "w")
    assert len(write(files, 0, {})) == 0
    assert len(files.found(files.place(1))) == 0


def test_a_second_attempt_replaces_the_first(tmp_path: Path) -> None:
    files = WindowFiles(tmp_path / "w")
    write(files, 1, {10: 5, 20: 5})
    assert names(write(files, 1, {20: 2})) == ["epoch-000000001/_pane=20/part-0.parquet"]
    assert len(on_disk(tmp_path)) == 1


def test_what_is_not_wanted_goes_at_once(tmp_path: Path) -> None:
    files = WindowFiles(tmp_path / "w")
    early, late = names(write(files, 1, {10: 1, 20: 1}))
    files.discard([early])
    files.hold([late])
    assert on_disk(tmp_path / "w") == {late}
    files.let_go(20)
    assert list((tmp_path / "w").iterdir()) == [], "an epoch goes with the last of its files"


Step = tuple[str, int]
STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3)),
    st.tuples(st.just("let go"), st.integers(0, 12)),
    st.tuples(st.just("begin"), st.just(0)),
    st.tuples(st.just("end"), st.integers(0, 3)),
)


@given(st.lists(STEPS, max_size=30))
def test_a_file_is_there_while_the_window_or_a_reader_has_it(steps: Iterable[Step]) -> None:
    with TemporaryDirectory() as directory:
        files = WindowFiles(Path(directory))
        window: set[str] = set()
        readers: list[tuple[ExitStack, set[str]]] = []
        for epoch, (what, number) in enumerate(steps):
            if what == "write":
                found = write(files, epoch, {epoch + 1: 1, epoch + 1 + number: 1})
                files.hold(names(found))
                window |= set(names(found))
            elif what == "let go":
                files.let_go(number)
                window = {name for name in window if int(name.split("=")[1].split("/")[0]) > number}
            elif what == "begin":
                reader = ExitStack()
                reader.enter_context(files.reading())
                readers.append((reader, set(window)))
            elif readers:
                readers.pop(number % len(readers))[0].close()
            needed = window.union(*(held for _, held in readers))
            assert needed <= on_disk(Path(directory))
            if not readers:
                assert on_disk(Path(directory)) == window
        for reader, _ in readers:
            reader.close()
        assert on_disk(Path(directory)) == window


def test_after_a_restart_only_what_is_named_stays(tmp_path: Path) -> None:
    before = WindowFiles(tmp_path / "w")
    found = write(before, 1, {10: 1, 20: 1})
    committed, dropped = names(found)
    write(before, 2, {20: 1, 30: 1})
    (tmp_path / "w" / "epoch-000000003" / "_temporary").mkdir(parents=True)
    again = WindowFiles(tmp_path / "w")
    again.keep_only([committed])
    assert on_disk(tmp_path / "w") == {committed}
    assert [path.name for path in (tmp_path / "w").iterdir()] == ["epoch-000000001"]
    again.let_go(10)
    assert list((tmp_path / "w").iterdir()) == []
    with pytest.raises(CheckpointError, match="is missing"):
        WindowFiles(tmp_path / "w").keep_only([dropped])


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    """By its size at the start, by its checksum when it is read for the first time after it."""
    found = write(WindowFiles(tmp_path / "w", durable=True), 1, {10: 50, 20: 50})
    DAMAGES[damage](tmp_path / "w" / names(found)[1])
    again = WindowFiles(tmp_path / "w", durable=True)
    if damage != "flipped":
        with pytest.raises(CheckpointError, match=r"_pane=20/part-0\.parquet is (missing|damaged: it has .*)"):
            again.check_sizes(found)
        return
    again.check_sizes(found)
    again.check(found.slice(0, 1))
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"_pane=20/part-0\.parquet is damaged: its checksum is wrong"):
            again.check(found)


def test_a_file_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = WindowFiles(tmp_path / "w", durable=True)
    found = write(files, 1, {10: 5, 20: 5})
    again = WindowFiles(tmp_path / "w", durable=True)
    again.hold(names(found))
    looked: list[Path] = []
    monkeypatch.setattr(seals, "checksum_of", lambda path: looked.append(path) or zlib.crc32(path.read_bytes()))
    for _ in range(2):
        files.check(found)
        again.check(found)
    assert looked == [again.path(name) for name in names(found)]
    left, _ = names(found)
    data = again.path(left).read_bytes()
    again.let_go(10)
    again.path(left).parent.mkdir(parents=True)
    again.path(left).write_bytes(data)
    again.check(found)
    assert looked[2:] == [again.path(left)], "a file that left the window is forgotten"


def is_dropped(files: WindowFiles) -> bool:
    try:
        with files.reading():
            return False
    except SashError:
        return True


def test_a_window_is_dropped_when_nobody_reads_it(tmp_path: Path) -> None:
    files = WindowFiles(tmp_path / "w")
    files.hold(names(write(files, 1, {10: 1})))
    began, may_end, gone = (threading.Event() for _ in range(3))

    def read() -> None:
        with files.reading():
            began.set()
            may_end.wait(60)

    def drop() -> None:
        files.drop()
        gone.set()

    reader, dropper = threading.Thread(target=read), threading.Thread(target=drop)
    reader.start()
    assert began.wait(60)
    dropper.start()
    while not is_dropped(files):  # its lock is free again: the dropper waits
        pass
    assert len(on_disk(tmp_path)) == 1 and not gone.is_set()
    may_end.set()
    reader.join()
    assert gone.wait(60)
    dropper.join()
    assert on_disk(tmp_path) == set()
    with pytest.raises(SashError, match="dropped"), files.reading():
        pass
