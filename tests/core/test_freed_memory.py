"""Memory that closed sessions have freed goes back to the system when the next session opens."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from sash.core.collection import give_back

PIECE, PIECES = 50_000, 2_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_freed_pieces_of_a_thread_that_lives_on() -> None:
    freed, end, kept = threading.Event(), threading.Event(), []

    def work() -> None:
        pieces = [np.ones(PIECE, dtype=np.int8) for _ in range(PIECES)]
        kept.append(np.ones(PIECE, dtype=np.int8))
        pieces.clear()
        freed.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    freed.wait()
    before = resident()
    give_back()
    assert before - resident() > PIECE * PIECES / 2
    end.set()
    thread.join()
