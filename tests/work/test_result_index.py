"""How many changes a question about a query's result looks at, by an index and without, and what the index takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.catalog import StoredIndex
from sash.core.changes import NEVER, Changes
from sash.rows import RowIndex
from sash.runtime.answers import change_view
from sash.runtime.answers.change_view import ChangeView

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
INDEX = StoredIndex("q", "k", "db", 1)
KEYS, EPOCH, EPOCHS = 1_000, 500, 200
# Twenty rows of each key.
WINDOW = 20 * KEYS


def arrivals(epoch: int) -> Changes:
    """First in, first out: a row each instant."""
    ts = np.arange(epoch * EPOCH, (epoch + 1) * EPOCH)
    return changes(ts % KEYS, ts, ts, ts + WINDOW, np.ones(EPOCH))


def replacements(epoch: int) -> Changes:
    """Strict: the row of a key is taken back and another one comes, as of a group."""
    ts = np.repeat(np.arange(epoch * EPOCH, (epoch + 1) * EPOCH), 2)
    before = np.tile([1, 0], EPOCH).astype(bool)
    old = ts - KEYS
    signs, values = np.where(before, -1, 1), np.where(before, old, ts)
    stays = ~before | (old >= 0)
    never = np.full(stays.sum(), NEVER)
    return changes((ts % KEYS)[stays], values[stays], ts[stays], never, signs[stays])


def changes(k: Any, v: Any, ts: Any, exp: Any, sign: Any) -> Changes:
    return Changes(pa.table([k, v], schema=SCHEMA), ts, exp, sign.astype(np.int8), np.zeros((len(ts), 0), np.int64))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The changes that are added up, and those that an index links."""
    counted, at, add = {"looked at": 0, "linked": 0}, change_view.rows_at, RowIndex.add

    def count_looks(parts: Sequence[Changes], now: int) -> Changes:
        counted["looked at"] += sum(map(len, parts))
        return at(list(parts), now)

    def count_links(self: RowIndex, number: int, first_row: int, column: Any) -> None:
        counted["linked"] += len(column)
        add(self, number, first_row, column)

    monkeypatch.setattr(change_view, "rows_at", count_looks)
    monkeypatch.setattr(RowIndex, "add", count_links)
    return counted


@pytest.mark.parametrize(("epoch_of", "rows", "most"), [(arrivals, 20, 41), (replacements, 1, 7)])
def test_an_index_looks_at_the_changes_of_its_value(epoch_of: Any, rows: int, most: int, work: dict[str, int]) -> None:
    view = ChangeView(SCHEMA)
    view.index(INDEX)
    for epoch in range(EPOCHS):
        view.add(epoch_of(epoch), (epoch + 1) * EPOCH - 1)
    now = EPOCHS * EPOCH - 1
    work["looked at"] = 0
    found = view.having(INDEX, pa.array([7]), now)
    assert len(found) == rows and rows <= work["looked at"] <= most
    work["looked at"] = 0
    assert len(view.rows(now)) == rows * KEYS and work["looked at"] >= rows * KEYS


def test_an_index_slides_over_rows_that_expire_in_order(work: dict[str, int]) -> None:
    """Once the window is full, a change is linked once, and no change is looked at."""
    view = ChangeView(SCHEMA)
    view.index(INDEX)
    for epoch in range(EPOCHS):
        if epoch * EPOCH == 2 * WINDOW:
            work.update(dict.fromkeys(work, 0))
        view.add(arrivals(epoch), (epoch + 1) * EPOCH - 1)
    assert work == {"looked at": 0, "linked": EPOCHS * EPOCH - 2 * WINDOW}


def test_an_index_of_rows_that_are_taken_back_is_made_anew_seldom(work: dict[str, int]) -> None:
    view, added = ChangeView(SCHEMA), 0
    view.index(INDEX)
    for epoch in range(EPOCHS):
        added += len(replacements(epoch))
        view.add(replacements(epoch), (epoch + 1) * EPOCH - 1)
    assert work["linked"] <= 1.5 * added and work["looked at"] <= 1.5 * added
