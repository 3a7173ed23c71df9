"""Isolation of window slides and reads (thesis, chapter 7).

history     operations and histories, in the thesis' notation
checker     what a history is: serializable, WS, LWS, CPS
window      a window of sub-windows that threads slide and read (reading, priorities, recorder are its parts)
isolation   the levels for state that is changed in place (serial, optimistic), and what is taken of it (taken)
"""

from sash.transactions.checker import Verdict, classify
from sash.transactions.history import History
from sash.transactions.isolation import ISOLATION_LEVELS, Isolation, isolation
from sash.transactions.optimistic import Optimistic
from sash.transactions.recorder import Recorder
from sash.transactions.serial import Serial
from sash.transactions.taken import Taken
from sash.transactions.window import SharedWindow, WindowRead

__all__ = [
    "ISOLATION_LEVELS",
    "History",
    "Isolation",
    "Optimistic",
    "Recorder",
    "Serial",
    "SharedWindow",
    "Taken",
    "Verdict",
    "WindowRead",
    "classify",
    "isolation",
]
