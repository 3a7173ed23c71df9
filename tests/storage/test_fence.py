"""One owner per checkpoint, with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.storage import fence
from sash.storage.fence import Fence, process_start
from tests.support.faults import FullDisk

OWNER = """
import sys
from pathlib import Path
from sash.storage.fence import Fence
held = Fence(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def stand_in() -> subprocess.Popen[str]:
    """Stands for the JVM of a killed session, which lives on for a moment."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, text=True)


def leave_record(directory: Path, jvm: int, started: str | None, pid: int = 1) -> None:
    """What a killed session leaves behind."""
    (directory / "owner.lock").write_text(json.dumps({"pid": pid, "jvm": jvm, "jvm_started": started}))


def record(directory: Path) -> dict[str, object]:
    owner = json.loads((directory / "owner.lock").read_text())
    assert isinstance(owner, dict)
    return owner


def test_another_process_is_refused_until_it_dies(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None and owner.stdout.readline() == "held\n"
        with pytest.raises(CheckpointError, match="in use by another session"):
            Fence(tmp_path)
        assert record(tmp_path) == {"pid": owner.pid}, "a refused session leaves the owner's record alone"
    finally:
        kill(owner)
    Fence(tmp_path).release()


def test_a_second_session_of_one_process_is_refused(tmp_path: Path) -> None:
    held = Fence(tmp_path)
    with pytest.raises(CheckpointError, match="in use"):
        Fence(tmp_path)
    held.release()
    Fence(tmp_path).release()


def test_release(tmp_path: Path) -> None:
    held = Fence(tmp_path / "new" / "directory")
    assert record(tmp_path / "new" / "directory") == {"pid": os.getpid()}
    held.release()
    held.release()
    assert record(tmp_path / "new" / "directory") == {}


def test_the_next_owner_waits_for_a_dying_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = stand_in()
    started = process_start(dying.pid)
    assert started is not None
    leave_record(tmp_path, dying.pid, started)
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            kill(dying)

    monkeypatch.setattr(fence.time, "sleep", nap)
    held = Fence(tmp_path)
    assert len(naps) == 3
    held.record_jvm(os.getpid())
    assert record(tmp_path) == {"pid": os.getpid(), "jvm": os.getpid(), "jvm_started": process_start(os.getpid())}
    held.release()


def test_patience_ends_and_the_record_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "PATIENCE_SECONDS", 0.0)
    stubborn = stand_in()
    leave_record(tmp_path, stubborn.pid, process_start(stubborn.pid))
    try:
        for _ in range(2):
            with pytest.raises(CheckpointError, match=f"process {stubborn.pid} still writes"):
                Fence(tmp_path)
    finally:
        kill(stubborn)
    Fence(tmp_path).release()


def test_nobody_waits_for_another_process_with_the_same_number(tmp_path: Path) -> None:
    leave_record(tmp_path, os.getppid(), "1")
    Fence(tmp_path).release()


def test_a_session_does_not_wait_for_its_own_jvm(tmp_path: Path) -> None:
    held = Fence(tmp_path)
    held.record_jvm(os.getppid())
    held.drop()  # as if the session had been lost without a word
    Fence(tmp_path).release()


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"jvm": null}'])
def test_a_damaged_record_stops_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "owner.lock").write_text(text)
    Fence(tmp_path).release()


def test_process_start() -> None:
    assert process_start(os.getpid()) == process_start(os.getpid()) is not None
    assert process_start(2**22 + 1) is None
    ended = stand_in()
    assert process_start(ended.pid) is not None
    kill(ended)
    assert process_start(ended.pid) is None


def test_a_full_disk_does_not_keep_the_checkpoint_locked(tmp_path: Path) -> None:
    held = Fence(tmp_path)
    with listening(FullDisk(1)), pytest.raises(CheckpointError, match=r"owner\.lock cannot be written"):
        held.release()
    Fence(tmp_path).release()
