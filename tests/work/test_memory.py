"""What a registered query takes of memory."""

from __future__ import annotations

from benchmarks.engines import texts_of
from benchmarks.run_answers import kilobytes_per_query
from benchmarks.run_multi_query import repeated, workload

# Counted over 500 and over 10,000 queries of the workload W1, each with a window of its own: 9. The promise is 20.
MOST_KILOBYTES = 12


def test_kilobytes_per_registered_query() -> None:
    assert kilobytes_per_query(texts_of("W1", repeated(workload(None), 500))) <= MOST_KILOBYTES
