"""Equal values of an interned class are one object, also after a way through bytes; what nobody holds is forgotten."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import replace

from sash.core import interned
from sash.core.window import RowWindow, TimeWindow


def test_equal_values_are_one_object() -> None:
    window = TimeWindow(10, 2)
    assert TimeWindow(length=10, slide=2, lag=0) is window and replace(window, lag=0) is window
    assert pickle.loads(pickle.dumps(window)) is window and copy.deepcopy(window) is window
    assert TimeWindow(10, 3) != window and RowWindow(10, 2) != window


def test_what_nobody_holds_is_forgotten() -> None:
    window = TimeWindow(123_456_789)
    assert (TimeWindow, *window.values) in interned.known
    values = window.values
    del window
    gc.collect()
    assert (TimeWindow, *values) not in interned.known
