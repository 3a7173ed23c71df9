"""A stream that runs for long costs no more than at its beginning: calls, bytes and files of each micro-batch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sash.storage.epochs import SNAPSHOT_EVERY
from tests.work.counting import Calls, Disk, calls, disk
from tests.work.packets import PacketSession

# Three pane tables. All slides divide the number of micro-batches between two snapshots: with a second in each, what is
# due and what is written is the same in each such period.
QUERIES = {
    "talkers": "SELECT src, SUM(length) AS bytes, COUNT(*) AS n FROM packets [WINDOW 20 sec SLIDE 2 sec] GROUP BY src",
    "longest": "SELECT src, MAX(length) AS longest FROM packets [WINDOW 12 sec SLIDE 4 sec] GROUP BY src",
    "ports": "SELECT port, AVG(length) AS mean FROM packets [WINDOW 30 sec SLIDE 8 sec] GROUP BY port",
    "all": "SELECT COUNT(*) AS n FROM packets [WINDOW 8 sec SLIDE EXACTLY 1 sec]",
}
TABLES = 3
# The windows are full after two periods, and as many answers are remembered as may be.
WARM_UP, EPOCHS = 4 * SNAPSHOT_EVERY, 1_000
# Whole periods that are about a hundred micro-batches.
COUNTED = 6 * SNAPSHOT_EVERY


def run(session: PacketSession, epochs: int) -> None:
    for _ in range(epochs):
        session.go_on()


def counted(session: PacketSession) -> tuple[Calls, Disk, int]:
    before = session.answers
    with calls() as called, disk() as stepped:
        run(session, COUNTED)
    return called, stepped, session.answers - before


def test_the_last_hundred_of_a_thousand_epochs_cost_what_the_first_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Syncs are counted, and need not take their time.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    with PacketSession(checkpoint=tmp_path, keep_answers=2 * SNAPSHOT_EVERY) as session:
        for name, text in QUERIES.items():
            session.register(text, name)
        run(session, WARM_UP)
        first, first_steps, first_answers = counted(session)
        # So that the last micro-batches, too, are whole periods.
        run(session, (EPOCHS - COUNTED) // SNAPSHOT_EVERY * SNAPSHOT_EVERY - session.seconds)
        files = len(list(tmp_path.rglob("*")))
        last, last_steps, last_answers = counted(session)
        assert session.seconds > EPOCHS - 2 * SNAPSHOT_EVERY

        assert last_answers == first_answers == COUNTED * (1 / 2 + 1 / 4 + 1 / 8 + 1)
        # One in a thousand: now and then panes are moved to the front of their arrays.
        assert last.total <= 1.001 * first.total, last.dearest(first)
        # One in a hundred: numbers of epochs and of tuples get more digits.
        assert last_steps.bytes <= 1.01 * first_steps.bytes

        # Each micro-batch writes its intent, its entry and the manifest. A snapshot adds a file for each pane table, a
        # file of what to go back to, and the manifest once more. Each file is written, synced and renamed, and its name
        # is synced. A snapshot removes the entries before the last snapshot, that one's tables, and what to go back to.
        written = 3 * COUNTED + (TABLES + 2) * COUNTED // SNAPSHOT_EVERY
        removed = COUNTED + (TABLES + 1) * COUNTED // SNAPSHOT_EVERY
        steps = {"write": written, "sync": 2 * written, "rename": written, "remove": removed}
        assert first_steps.steps == last_steps.steps == steps

        # On disk are one snapshot, the one before it with the entries between them, and a few files of the checkpoint.
        assert files == len(list(tmp_path.rglob("*"))) <= SNAPSHOT_EVERY + 2 * TABLES + 12
