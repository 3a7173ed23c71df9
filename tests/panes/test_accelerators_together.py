"""Two users insist on two synopses for one window: both are looked up, each for its own partials."""

from __future__ import annotations

from typing import Any

import pytest

from sash.core.time import SECOND
from sash.panes.accelerator import Accelerator
from tests.support.feed import Feed, compiled
from tests.support.streams import START, stream, to_table


def test_one_window_from_two_synopses(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    lookup = Accelerator.lookup

    def counting(self: Accelerator, *arguments: Any) -> Any:
        asked.append(self.kind)
        return lookup(self, *arguments)

    monkeypatch.setattr(Accelerator, "lookup", counting)
    feed = Feed(stream())
    window = "[WINDOW 12 sec SLIDE 1 sec]"
    sums = compiled({"t": f"SELECT SUM(v) AS t FROM s {window}"}, feed.declared, "running")
    extremes = compiled({"m": f"SELECT MAX(v) AS m, MIN(v) AS l FROM s {window}"}, feed.declared, "interval")
    feed.runtime.synchronise([*sums, *extremes])
    answers = []
    for at in range(40):
        answers += feed.push(to_table([(START + at * SECOND - 1, 1, None, at, None, None)]))
    for answer in answers:
        (row,) = answer.table.to_pylist()
        last = round(answer.as_of.timestamp()) - START // SECOND
        inside = range(max(0, last - 11), last + 1)
        assert row == ({"t": sum(inside)} if answer.query == "t" else {"m": inside[-1], "l": inside[0]})
    assert asked.count("running") == asked.count("interval") > 30
