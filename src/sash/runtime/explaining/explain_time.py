"""EXPLAIN of where the timestamps of streams come from, whatever answers the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sash.catalog import Stream


def time_lines(streams: Iterable[Stream]) -> Iterator[str]:
    """A line for each stream without timestamps of its own."""
    for stream in {each.name: each for each in streams if each.implicit}.values():
        yield f"Time: of arrival, one for each micro-batch, in the column {stream.timestamp} of {stream.name}"
