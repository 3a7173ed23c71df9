"""Questions while the stream runs: who answers them, and the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.packet_panes import PACKETS
from benchmarks.run_questions import INDEX, KINDS, PANES, QUERIES, ROWS, SPARK, Kind, complete, print_table
from sash.core.time import SECOND
from tests.support.sparkless_session import SparklessSession

TOLD = {
    PANES: "answered from pane table packets by (src)",
    ROWS: "sub-window by sub-window over the stored rows",
    INDEX: "Instead of the rows: the tree index on length",
    SPARK: "by Spark SQL over the stored rows",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_who_answers(kind: Kind) -> None:
    session = SparklessSession()
    session.declare(replace(PACKETS, keep=10 * SECOND))
    complete(session)
    for number, text in enumerate(QUERIES):
        session.register(text, name=f"q{number}")
    told = session.explain(kind.text.format(key=7, keep="[WINDOW 10 sec]"))
    session.close()
    assert TOLD[kind.answers] in told
    assert kind.answers == INDEX or TOLD[INDEX] not in told


def test_a_median_is_held_against_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    """What goes to Spark has no target."""
    took = {kind.what: [(3.0, 1.0), (4.0, 1.0), (900.0, 2.0)] for kind in KINDS}
    took |= {"all keys": [(5.1, 1.0)], "an average": [(50.1, 1.0)]}
    print_table({"stored_rows": 10, "rate": 20, "share_of_time_in_micro_batches": 0.5, "ms": took})
    told = capsys.readouterr().out
    assert told.count("5: met") == 1 and told.count("5: missed") == 1
    assert told.count("50: met") == 3 and told.count("50: missed") == 1
