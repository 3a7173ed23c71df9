"""Substream filters: which keys have COUNT, SUM, MAX or MIN of their last window in a range, without asking every key.

A collective index is kept beside a synopsis and is updated pane by pane. Any number of queries look it up, with
windows and thresholds of their own; a look-up costs about as much as its answer is long. `CollectiveIndex` serves COUNT
and SUM by supersets, `ExtremeIndex` MAX and MIN exactly. Windows end now: a look-up back in time or with a lag needs
the synopsis itself. Arasu and Widom, Resource Sharing in Continuous Sliding-Window Aggregates, VLDB 2004, section 4.
"""

from sash.panes.substreams.collective import Candidates, CollectiveIndex
from sash.panes.substreams.extremes import ExtremeIndex

__all__ = ["Candidates", "CollectiveIndex", "ExtremeIndex"]
