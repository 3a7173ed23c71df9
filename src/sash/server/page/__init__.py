"""The live page: five views of one session, drawn by NiceGUI and ECharts.

    frame.py      what all views have in common         queries.py    what is registered; editor.py asks and registers
    answer.py     one query over time (charts.py)       sharing_view.py    who shares what
    schedule.py   who ran together, and when            health.py     rates, lag, memory

Views read what `watch.Watch` has sampled, or ask the session on a thread: nothing here holds up the event loop.
"""

from sash.server.page.mounting import mount

__all__ = ["mount"]
