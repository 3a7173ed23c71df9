"""Claims of queries on pane tables in the cluster, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.core.errors import SashError
from tests.support.sparkless_session import SparklessSession
from tests.support.streams import stream

STORED = "SELECT k, SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k"
ENDLESS = "SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 5 sec] GROUP BY k"
ELSEWHERE = "SELECT g, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 5 sec] GROUP BY g"


def opened(checkpoint: Path) -> SparklessSession:
    session = SparklessSession(checkpoint=checkpoint)
    session.declare(stream())
    return session


def check_refused(session: SparklessSession, text: str, synopsis: str | None, why: str) -> None:
    with pytest.raises(SashError, match=why):
        session.register(text, "refused", synopsis=synopsis)


def test_a_claim_lasts_as_long_as_its_query(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.register(ELSEWHERE, "elsewhere")
        for name in ("first", "second"):
            session.register(ENDLESS, name)
        for name in ("first", "second"):
            check_refused(session, STORED, "cluster", r"UNBOUNDED windows read the panes by \(k\)")
            session.drop_query(name)
        session.register(STORED, "stored", synopsis="cluster")
        check_refused(session, ENDLESS, None, r"the panes by \(k\) of stream 's' are stored in the cluster")
        session.drop_query("stored")
        session.register(ENDLESS, "endless")


def test_a_checkpoints_queries_have_claims(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.register(STORED, "stored", synopsis="cluster")
        session.register(ELSEWHERE, "elsewhere")
    with opened(tmp_path) as session:
        # One that goes before anybody has asked takes its claim along.
        session.drop_query("elsewhere")
        session.register(ELSEWHERE.replace("UNBOUNDED", "WINDOW 10 sec"), "elsewhere", synopsis="cluster")
        check_refused(session, ENDLESS, None, r"the panes by \(k\) of stream 's' are stored in the cluster")
        assert session.register(STORED, "stored", synopsis="cluster") is session.queries["stored"]
        session.drop_query("stored")
        session.register(ENDLESS, "endless")
