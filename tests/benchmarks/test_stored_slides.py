"""The benchmark of questions about a window that slides goes on running, and shows what needs no clock."""

from __future__ import annotations

from benchmarks.stored_slides import measure


def test_what_is_taken_back_is_not_begun_again() -> None:
    cells = measure(sub_windows=12, rows=20, burst=5, pause=0.001, questions=10)
    assert [(cell["level"], cell["way"]) for cell in cells] == [
        (level, way) for level in ("lws", "ttu") for way in ("taken back", "begun again")
    ]
    for cell in cells:
        assert cell["median_ms"] > 0 and cell["restarts" if cell["way"] == "taken back" else "undone"] == 0
