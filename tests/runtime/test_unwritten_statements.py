"""A statement that the catalog's history cannot be told of did not happen: all is as before, and it can be repeated."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sash.core.errors import CheckpointError
from sash.core.faults import listening
from sash.core.time import SECOND
from sash.runtime.records import catalog_history as histories
from sash.runtime.records.catalog_history import CatalogHistory
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

WINDOWS = "SELECT k, COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 1 sec] GROUP BY k"
# The objects that can be dropped, each by itself: an object with a reader may not go.
BEFORE = {
    "DROP QUERY q": [],
    "DROP STREAM s": ["DROP QUERY q"],
    "DROP TABLE t": ["CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k))"],
    "DROP INDEX ON s (k)": ["CREATE INDEX ON s (k)"],
    "DROP ARCHIVE old": ["CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 1 min UPDATE EVERY 10 sec"],
    "CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k))": [],
    "CREATE INDEX ON s (k)": [],
    "CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 1 min UPDATE EVERY 10 sec": [],
    f"REGISTER QUERY more AS {WINDOWS}": [],
    f"REGISTER OR REPLACE QUERY q AS {WINDOWS} PRIORITY 1": [],
    "ALTER QUERY q SET (PRIORITY 1)": [],
    "PAUSE QUERY q": [],
    "RESUME QUERY q": ["PAUSE QUERY q"],
    "INSERT INTO t VALUES (1, 'one')": ["CREATE TABLE t (k INT, name STRING, PRIMARY KEY (k))"],
}


class NoSpaceFor:
    """The disk is full whenever one file is written."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, moment: str, path: Path) -> None:
        if moment == "after write" and path.name == self._name:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SparklessSession]:
    session = SparklessSession(checkpoint=tmp_path)
    session.declare(stream(keep=60 * SECOND))
    session.register(WINDOWS, name="q")
    session.push("s", tuples((0.5, 1, 1), (1.5, 2, 1), (2.5, 1, 1)))
    yield session
    session.close()


def known(session: SparklessSession, checkpoint: Path) -> dict[str, Any]:
    """All parts that have to agree: catalog, history, running objects, and files."""
    catalog, kept = session.catalog, [running.stored_window for running in session.streams.values()]
    return {
        "catalog": [
            [each.name for each in some]
            for some in (catalog.streams, catalog.queries, catalog.tables, catalog.archives)
        ],
        "queries": [(query, session.queries[query.name].is_paused) for query in catalog.queries],
        "indexes": list(catalog.indexes),
        "made": [window.indexes is not None and len(window.indexes) for window in kept if window is not None],
        "history": CatalogHistory(checkpoint / "catalog.jsonl").changes,
        "handles": list(session.queries),
        "running": list(session.streams),
        "fed": [[feed.declared.name for feed in running.feeds] for running in session.streams.values()],
        "rows": session.tables.sizes(),
        "files": sorted(str(path) for path in checkpoint.rglob("*") if "old" in path.parts),
    }


@pytest.mark.parametrize("statement", BEFORE, ids=lambda text: " ".join(text.split()[:2]))
def test_a_statement_that_cannot_be_written_did_not_happen(
    session: SparklessSession, tmp_path: Path, statement: str
) -> None:
    for needed in BEFORE[statement]:
        session.sql(needed)
    before = known(session, tmp_path)
    with listening(NoSpaceFor("catalog.jsonl")), pytest.raises(CheckpointError, match="No space left on device"):
        session.sql(statement)
    assert known(session, tmp_path) == before
    session.sql(statement)
    after = known(session, tmp_path)
    assert after != before and len(after["history"]) == len(before["history"]) + 1


def test_a_query_that_could_not_be_dropped_answers_until_it_is(session: SparklessSession) -> None:
    query, told = session.queries["q"], list[Any]()
    query.subscribe(lambda answer: told.append(answer.as_of))
    with listening(NoSpaceFor("catalog.jsonl")), pytest.raises(CheckpointError):
        query.drop()
    session.push("s", tuples((3.5, 1, 1), (4.5, 1, 1)))
    assert len(told) == 2
    query.drop()
    session.push("s", tuples((5.5, 1, 1), (6.5, 1, 1)))
    assert len(told) == 2 and not session.queries


def test_an_archive_that_was_there_before_stays(session: SparklessSession, tmp_path: Path) -> None:
    """What goes again is only what the statement has made."""
    text = "CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 1 min UPDATE EVERY 10 sec IN '{}'"
    place = tmp_path.with_name(f"{tmp_path.name}-elsewhere")
    with SparklessSession() as other:
        other.declare(stream())
        other.sql(text.format(place))
    with listening(NoSpaceFor("catalog.jsonl")), pytest.raises(CheckpointError):
        session.sql(text.format(place))
    assert (place / "manifest.json").exists() and not session.catalog.archives
    session.sql(text.format(place))


def test_a_history_that_cannot_be_compacted_has_the_change(
    session: SparklessSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The registration stands: the history is compacted another time."""
    assert session.checkpoint is not None
    history = session.checkpoint.history
    session.register(WINDOWS, name="short")
    session.sql("DROP QUERY short")
    monkeypatch.setattr(histories, "COMPACT_EVERY", 1)
    monkeypatch.setattr(history, "oldest", lambda: history.version)
    monkeypatch.setattr(history, "look_again", 0)
    with listening(NoSpaceFor(".catalog.jsonl.draft")):
        session.register(WINDOWS, name="more")
    assert [record.__dict__["sash"]["event"] for record in caplog.records] == ["catalog.uncompacted"]
    assert list(session.queries) == [each.name for each in session.catalog.queries] == ["q", "more"]
    assert list(CatalogHistory(tmp_path / "catalog.jsonl").queries()) == ["q", "more"]
    version = history.version
    session.sql("DROP QUERY more")
    assert len(history.changes) == 2 and history.version == version + 1
    again = CatalogHistory(tmp_path / "catalog.jsonl")
    assert (again.version, again.queries()) == (history.version, history.queries())
