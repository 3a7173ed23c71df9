"""FREQUENT(k, x) in bounded space: k pairs for each sub-window of the window, however many values there are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.core.time import SECOND
from sash.panes.list_panes import ListPanes
from tests.support.duck_pass import aggregate
from tests.support.feed import Feed, compiled
from tests.support.shelf import SHELVES
from tests.support.streams import START, stream, to_table

K, PANES, SECONDS = 3, 5, 12
TEXT = f"SELECT FREQUENT({K}, v) FROM s [WINDOW {PANES * 2} sec SLIDE 2 sec]"


def second(number: int, values: int) -> pa.Table:
    """One second, half of a sub-window: ever new values, and three frequent ones."""
    new = [number * values + i for i in range(1, values + 1)]
    stamps = [START + number * SECOND + 1 + i for i in range(values + 12)]
    return to_table([(at, 1, None, v, None, None) for at, v in zip(stamps, [*new, *[-1, -2, -3] * 4], strict=True)])


@pytest.mark.parametrize("files_lists", [False, True])
@pytest.mark.parametrize("values", [10, 1000])
def test_pairs_in_this_process(values: int, files_lists: bool) -> None:
    declared = stream()
    feed = Feed(declared, files_lists=files_lists)
    feed.runtime.synchronise(compiled({"q": TEXT}, declared))
    (group,) = feed.runtime.groups.values()
    for number in range(SECONDS):
        answers = feed.push(second(number, values))
        assert isinstance(group.panes, ListPanes)
        assert group.panes.closed_rows <= K * PANES
        # The open sub-window, and two seconds at most have been pushed into it.
        assert group.panes.rows - group.panes.closed_rows <= (0 if files_lists else 2 * (values + 3))
        for answer in answers:
            assert {row["v"] for row in answer.table.to_pylist()} <= {-1, -2, -3}


@pytest.mark.parametrize("values", [10, 1000])
def test_rows_that_come_to_this_process(values: int) -> None:
    """A micro-batch brings a row for each of its panes; a sub-window that ends brings its list."""
    declared = stream()
    feed = Feed(declared, files_lists=True)
    feed.runtime.synchronise(compiled({"q": TEXT}, declared))
    (group,) = feed.runtime.groups.values()
    for number in range(SECONDS):
        feed.push(second(number, values))
        ((_, rows, _),) = aggregate(declared, feed.runtime.tables(), second(number, values)).lanes
        assert len(rows.ends) == 1 and not rows.keys
    feed.finish()
    assert group.panes.panes <= PANES
    assert SHELVES[group].listed_rows == K * -(-SECONDS // 2)
