"""Checks of answers and of the times at which they were given, shared by the oracle matrices."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa

from sash.catalog import Stream
from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from tests.support.oracle import recompute, same_rows
from tests.support.streams import Registered


def check_answers(queries: list[Registered], answers: list[Answer], parts: list[pa.Table], declared: Stream) -> None:
    tuples, by_name = pa.concat_tables(parts), {query.name: query for query in queries}
    for answer in answers:
        query, as_of = by_name[answer.query], to_micros(answer.as_of)
        expected = recompute(query.text, tuples, as_of, query.length, query.lag, declared.closed_left)
        ours = answer.table.to_pylist()
        assert same_rows(ours, expected, query.ordered), (query.text, answer.as_of, ours, expected)


def check_schedule(query: Registered, answers: list[Answer], parts: list[pa.Table], declared: Stream) -> None:
    """Each multiple of SLIDE at which the window has tuples is answered once, in order; empty ones once per gap."""
    times = [to_micros(answer.as_of) for answer in answers if answer.query == query.name]
    assert all(a < b for a, b in pairwise(times))
    assert all((t - declared.offset) % query.slide == 0 for t in times)
    stamps = sorted(pa.concat_tables(parts)["_us"].to_pylist())
    after = 1 if declared.closed_left else 0
    for t in range(stamps[0] - (stamps[0] - declared.offset) % query.slide, stamps[-1] + query.slide, query.slide):
        newest, oldest = t - query.lag, t - query.lag - query.length
        filled = any(oldest < stamp + after <= newest for stamp in stamps)
        if filled and stamps[0] <= t <= stamps[-1] - SECOND:
            assert t in times, (query.text, t)
