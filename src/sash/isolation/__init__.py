"""Isolation of window slides and reads (thesis, chapter 7).

history         operations and histories, in the thesis' notation; `Recorder` writes them down
checker         classifies a history: serializable, WS, LWS, CPS
shared_window   a window of sub-windows that threads slide and read (sub_window_ring and reading are its parts)
levels          the levels for state that is changed in place (serial, optimistic)
"""

from sash.isolation.checker import Verdict, classify
from sash.isolation.history import History, Recorder
from sash.isolation.levels import ISOLATION_LEVELS, Isolation, isolation
from sash.isolation.optimistic import Optimistic
from sash.isolation.serial import Serial, TakenWindow
from sash.isolation.shared_window import SharedWindow, WindowRead

__all__ = [
    "ISOLATION_LEVELS",
    "History",
    "Isolation",
    "Optimistic",
    "Recorder",
    "Serial",
    "SharedWindow",
    "TakenWindow",
    "Verdict",
    "WindowRead",
    "classify",
    "isolation",
]
