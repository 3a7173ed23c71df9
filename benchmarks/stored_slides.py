"""Questions about a stored window that slides while they are computed: with taking back, and begun again instead.

slides       ┴┴┴┴┴┴         ┴┴┴┴┴┴         ┴┴┴┴┴┴      a micro-batch brings several sub-windows at once
questions   [ fold    - +    ]  [ fold    - +    ]     what has left is taken back, what is new is added
            [ fold ][ fold    ] [ fold ][ fold   ]     begun again

The same question both ways, by turns, under lws and ttu; a thread slides the window all the time. No Spark.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from statistics import fmean, median
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from sash.catalog import Catalog, Stream
from sash.core.time import SECOND
from sash.panes import row_folds
from sash.runtime.asking.in_process import answer_folded
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.runtime.stored.stored_indexes import TIME
from sash.runtime.stored.stored_window import StoredWindow
from sash.sql import bind

# Python hands its one interpreter over this often, in seconds: far more often than the window slides.
SWITCH = 0.0002
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("v", pa.int64())])
TEXT = "SELECT k, SUM(v) AS total, COUNT(*) AS n, AVG(v) AS mean FROM s [WINDOW {} sec] GROUP BY k"
WAYS = ("taken back", "begun again")
LEVELS = ("lws", "ttu")


class Slider:
    """A stored window, and the thread that slides it by a few sub-windows at a time."""

    def __init__(self, level: str, sub_windows: int, rows: int, burst: int, pause: float) -> None:
        self.kept = StoredWindow(Stream("s", SCHEMA, "ts", keep=sub_windows * SECOND), level)
        self._burst, self._pause = burst, pause
        self._seconds = count()
        # As of some second; all seconds have the same values.
        values = np.random.default_rng(7).integers(0, 1_000, rows)
        self._columns = (values.astype(np.int32), values * 1_000_003)
        self._offsets = np.linspace(1, SECOND, rows).astype(np.int64)
        self.slide(sub_windows)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def slide(self, times: int) -> None:
        seconds = np.array([next(self._seconds) for _ in range(times)], dtype=np.int64)
        stamps = (seconds[:, None] * SECOND + self._offsets).ravel()
        columns = [pa.array(stamps, SCHEMA.field("ts").type), *(np.tile(each, times) for each in self._columns), stamps]
        schema = SCHEMA.append(pa.field(TIME, pa.int64()))
        self.kept.take(pa.table(columns, schema=schema), int(seconds[-1] + 1) * SECOND + 1)

    def __enter__(self) -> Slider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            self.slide(self._burst)


def question(slider: Slider, sub_windows: int) -> CompiledQuery:
    catalog = Catalog()
    catalog.add_stream(slider.kept.stream)
    return compile_panes(bind(as_select(TEXT.format(sub_windows)), catalog), one_time=True)


def ask(slider: Slider, query: CompiledQuery, way: str) -> tuple[float, dict[str, int]]:
    """How long it took, and what happened to it."""
    before, begun = slider.kept.reads.counts(), perf_counter()
    if way == "taken back":
        answer_folded(query, slider.kept)
    else:
        with mock.patch.object(row_folds, "irreversible", return_value="as if nothing could be taken back"):
            answer_folded(query, slider.kept)
    took, after = perf_counter() - begun, slider.kept.reads.counts()
    return took, {name: after[name] - before[name] for name in after}


def measure(sub_windows: int, rows: int, burst: int, pause: float, questions: int) -> list[dict[str, Any]]:
    """Response times in milliseconds, and per question how often it was begun again and what it took back."""
    cells = []
    for level in LEVELS:
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        counts: dict[str, list[dict[str, int]]] = {way: [] for way in WAYS}
        with frequent_switches(), Slider(level, sub_windows, rows, burst, pause) as slider:
            query = question(slider, sub_windows)
            for number in range(-1, questions):
                for way in WAYS:
                    took, counted = ask(slider, query, way)
                    if number >= 0:
                        times[way].append(1_000 * took)
                        counts[way].append(counted)
        for way in WAYS:
            named = {name: fmean(each[f"read_{name}"] for each in counts[way]) for name in ("restarts", "undone")}
            cells.append({"level": level, "way": way, "median_ms": median(times[way]), **named})
    return cells


@contextmanager
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
