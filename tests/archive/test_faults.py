"""A failure at every step of an update or a migration leaves the state before or the state after, and no rubbish."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.archive import Archive
from sash.archive.archive import OWN, remove_archive
from sash.archive.inbox import Inbox
from sash.archive.spec import Spec
from sash.core.errors import ArchiveError
from sash.core.faults import listening
from tests.archive.model import KINDS, Kind, Model, Record, assert_same_briefly, batches, described, make, table
from tests.support.examples import examples
from tests.support.faults import DAMAGES, Death, Killed, dying

OLD = [Record(n, n % 4, 90 + n % 10, 101 + n % 6) for n in range(40)]
NEW = [Record(100 + n, n % 4, 101 + n % 2, 104 + n % 12) for n in range(40)]
STEPS = ["write", "sync", "rename", "remove"]
MORE = [Record(200 + n, n % 4, 103 + n % 2, 108 + n % 5) for n in range(10)]


class Faults:
    """Counts the moments around what changes the disk, and fails at one of them: once, or from there on for good."""

    def __init__(self, at: int, error: BaseException, for_good: bool) -> None:
        self.at, self.error, self.for_good = at, error, for_good
        self.steps = 0
        self.seen: list[str] = []

    def __call__(self, moment: str, path: Path) -> None:
        self.seen.append(moment)
        self.steps += 1
        if self.steps == self.at or (self.for_good and self.steps > self.at):
            raise self.error

    def before(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def replaced(*args: Any, **options: Any) -> Any:
            self("within write", Path())
            return real(*args, **options)

        return replaced


@contextmanager
def failing(at: int, error: BaseException, for_good: bool) -> Iterator[Faults]:
    faults = Faults(at, error, for_good)
    with pytest.MonkeyPatch.context() as patch, listening(faults):
        # In the middle of a file, too.
        patch.setattr(pq.ParquetWriter, "write_table", faults.before(pq.ParquetWriter.write_table))
        yield faults


def prepared(directory: Path, kind: Kind) -> tuple[Archive, Model]:
    """Two updates, so that there are retired files, too."""
    archive, model = make(directory, kind, bucket_bytes=1 << 12), Model()
    for now, records in ((100, OLD[:20]), (102, OLD[20:])):
        archive.update(table(records), now)
        model.update(records, now)
    return archive, model


def update(archive: Archive) -> None:
    archive.update(table(NEW), 104, note={"epoch": 3})


def migrate(archive: Archive) -> None:
    archive.migrate(2, 3, layout="chronological", strategy="rebuild")


def expected(change: Callable[[Archive], None], before: Model) -> Model:
    after = before.copy()
    if change is update:
        after.update(NEW, 104)
    return after


def steps_of(directory: Path, kind: Kind, change: Callable[[Archive], None]) -> int:
    archive, _ = prepared(directory, kind)
    with failing(0, Killed(), False) as faults:
        change(archive)
    archive.close()
    assert {f"{when} {step}" for when in ("before", "after") for step in STEPS} <= set(faults.seen)
    return faults.steps


@pytest.mark.parametrize("change", [update, migrate])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1], KINDS[5]], ids=described)
def test_killed_at_any_step(tmp_path: Path, kind: Kind, change: Callable[[Archive], None]) -> None:
    steps = steps_of(tmp_path / "whole", kind, change)
    assert steps > 10
    for at in range(1, steps + 1):
        directory = tmp_path / str(at)
        archive, before = prepared(directory, kind)
        with failing(at, Killed(), True), pytest.raises(Killed):
            change(archive)
        assert archive.fence is not None
        archive.fence.drop()  # as the system does when a process dies
        with Archive.open(directory, write=True) as again:
            check_before_or_after(again, before, change)
            go_on(again)


@pytest.mark.parametrize("change", [update, migrate])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1]], ids=described)
def test_a_full_disk_at_any_step(tmp_path: Path, kind: Kind, change: Callable[[Archive], None]) -> None:
    """The same archive goes on when there is space again."""
    steps = steps_of(tmp_path / "whole", kind, change)
    for at in range(1, steps + 1):
        archive, before = prepared(tmp_path / str(at), kind)
        with failing(at, OSError("no space left on device"), False) as faults:
            try:
                change(archive)
            except OSError:
                assert faults.steps >= at
        check_before_or_after(archive, before, change)
        go_on(archive)
        archive.close()


@given(
    kind=st.sampled_from(KINDS),
    updates=batches(4),
    kills=st.lists(st.integers(0, 40), min_size=4, max_size=4),
)
@settings(max_examples=examples(40))
def test_killed_at_random_in_a_long_run(kind: Kind, updates: list[tuple[int, list[Record]]], kills: list[int]) -> None:
    """After each kill the next process does the update again, unless it finds it done."""
    with tempfile.TemporaryDirectory() as directory:
        archive, model = make(Path(directory), kind), Model()
        for (now, records), at in zip(updates, kills, strict=False):
            try:
                with failing(at, Killed(), True):
                    archive.update(table(records), now)
            except Killed:
                assert archive.fence is not None
                archive.fence.drop()
                archive = Archive.open(directory, write=True)
                if archive.facts().updated != now:
                    assert_same_briefly(archive, model)
                    archive.update(table(records), now)
            model.update(records, now)
            assert_same_briefly(archive, model)
        archive.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not tell which file is synced")
def test_everything_is_synced_before_the_manifest_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, _ = prepared(tmp_path, KINDS[1])
    events: list[tuple[str, Path]] = []
    replace = os.replace

    def synced(descriptor: int) -> None:
        events.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))

    def replaced(draft: Path, path: Path) -> None:
        events.append(("rename", path))
        assert ("sync", draft) in events
        replace(draft, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    update(archive)
    renamed = [path for kind, path in events if kind == "rename"]
    assert len(renamed) > 1 and renamed[-1] == tmp_path / "manifest.json"
    folder, last = ("sync", tmp_path / "data"), ("rename", renamed[-2])
    assert events.index(last) < events.index(folder) < events.index(("rename", renamed[-1]))
    assert events[-1] == ("sync", tmp_path)
    archive.close()


def test_killed_while_it_is_removed(tmp_path: Path) -> None:
    """Before the first step the archive is complete; after it there is no archive, and the rest can be removed."""
    for at in range(1, 100):
        directory = tmp_path / str(at)
        archive, before = prepared(directory, KINDS[0])
        Inbox(directory, archive.spec).put(0, table(NEW))
        archive.close()
        try:
            with dying(at) as death:
                remove_archive(directory)
        except Killed:
            pass
        else:
            break
        if death.seen == ["before remove manifest.json"]:
            assert_same_briefly(Archive.open(directory), before)
        else:
            with pytest.raises(ArchiveError, match="it has no manifest"):
                Archive.open(directory)
        remove_archive(directory)
        assert not directory.exists()
    removed = [moment.rpartition(" ")[2] for moment in death.seen if moment.startswith("after remove")]
    assert not directory.exists() and removed == [*OWN, directory.name]


@pytest.mark.parametrize("half", [False, True], ids=["whole", "by half"])
def test_killed_while_something_is_delivered(tmp_path: Path, half: bool) -> None:
    """What waited waits, with or without the delivery; which comes again and counts once."""
    with make(tmp_path / "archive", KINDS[0]) as archive:
        spec = archive.spec
    for at in range(1, 100):
        (directory := tmp_path / str(at)).mkdir()
        inbox = Inbox(directory, spec)
        inbox.put(0, table(OLD[:5]))
        try:
            with dying(at, half) as death:
                inbox.put(1, table(NEW[:5]))
        except Killed:
            pass
        else:
            break
        again = Inbox(directory, spec)
        assert waiting(again, spec) in ([each.id for each in OLD[:5]], [each.id for each in OLD[:5] + NEW[:5]])
        again.put(1, table(NEW[:5]))
        assert waiting(again, spec) == [each.id for each in OLD[:5] + NEW[:5]]
    assert [moment.rpartition(" ")[0] for moment in death.seen] == [
        f"{when} {step}" for step in ("write", "sync", "rename", "sync") for when in ("before", "after")
    ]


def test_killed_while_what_waits_is_let_go(tmp_path: Path) -> None:
    with make(tmp_path / "archive", KINDS[0]) as archive:
        spec = archive.spec
    inbox = Inbox(tmp_path, spec)
    for let_go in (inbox.clear, lambda: inbox.cut(0), lambda: inbox.forget(200)):
        for number in range(3):
            inbox.put(number, table(NEW[:5]))
        for at, left in ((1, 3), (2, 2), (3, 2)):
            with dying(at), pytest.raises(Killed):
                let_go()
            assert len(waiting(inbox, spec)) == 5 * left
            for number in range(3):
                inbox.put(number, table(NEW[:5]))
        with listening(death := Death(at=-1)):
            let_go()
        assert death.moments == 6 and not waiting(inbox, spec)


def waiting(inbox: Inbox, spec: Spec) -> list[int]:
    return sorted(inbox.waiting(None, 200).read(spec)["id"].to_pylist())


def check_before_or_after(archive: Archive, before: Model, change: Callable[[Archive], None]) -> None:
    facts = archive.facts()
    done = facts.number == 3
    assert done or facts.number == 2
    assert_same_briefly(archive, expected(change, before) if done else before)
    if change is update:
        assert facts.note == ({"epoch": 3} if done else {})
    on_disk = {path.name for path in (archive.directory / "data").iterdir()}
    with archive.hold() as state:
        assert {file.name for file in state.manifest.files} <= on_disk
    assert not [name for name in on_disk if name.endswith((".draft", ".piece"))]


def go_on(archive: Archive) -> None:
    """Whatever happened, the next update works."""
    before = set(archive.scan(now=106)["id"].to_pylist())
    archive.update(table(MORE), 106)
    assert set(archive.scan()["id"].to_pylist()) == before | {each.id for each in MORE if each.expires > 106}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed_when_it_is_opened_or_first_read(tmp_path: Path, damage: str) -> None:
    """And never written anew as if it were right."""
    archive, _ = prepared(tmp_path, KINDS[0])
    archive.close()
    path = Archive.open(tmp_path).files()[0]
    DAMAGES[damage](path)
    if damage != "flipped":
        with pytest.raises(ArchiveError, match="lost its file" if damage == "missing" else "damaged: it has .* bytes"):
            Archive.open(tmp_path, write=True)
        return
    with Archive.open(tmp_path, write=True) as again:
        for ask in (again.scan, lambda: list(again.scan_batches()), lambda: held(again)):
            with pytest.raises(ArchiveError, match=rf"{path.name} is damaged: its checksum is wrong"):
                ask()
        for change in (lambda: again.update(table(NEW), 104), lambda: again.migrate(3, 3)):
            with pytest.raises(ArchiveError, match="its checksum is wrong"):
                change()
        assert again.facts().number == 2


def held(archive: Archive) -> None:
    with archive.hold():
        pass


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """Damage in the data, in the footer, in the length: a file that is read as a whole is checked."""
    archive, _ = prepared(tmp_path, KINDS[0])
    archive.close()
    path = Archive.open(tmp_path).files()[0]
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 97)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ArchiveError, match="its checksum is wrong"):
            Archive.open(tmp_path).scan()
    path.write_bytes(whole)
    Archive.open(tmp_path).scan()


def test_a_file_that_is_damaged_or_lost_is_named(tmp_path: Path) -> None:
    archive, _ = prepared(tmp_path, KINDS[0])
    path = archive.files()[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
    for ask in (lambda: archive.probe([0, 1, 2, 3]), archive.scan):
        with pytest.raises(ArchiveError, match="cannot be read"):
            ask()
    for path in archive.files():
        path.unlink()
    for ask in (
        lambda: Archive.open(tmp_path).probe([0, 1, 2, 3]),
        archive.scan,
        lambda: archive.update(table(NEW), 104),
    ):
        with pytest.raises(ArchiveError, match="lost"):
            ask()
    archive.close()
