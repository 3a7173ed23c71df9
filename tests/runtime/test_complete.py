"""`complete` means the same of answers from panes, from plans and from join synopses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
from sash.core.time import SECOND, to_micros
from tests.runtime.test_joins_shared import PARTS, feed, open_session, over

pytestmark = pytest.mark.spark


def asked(length: int) -> dict[str, str]:
    """The same window in a periodic query, in plans that are sampled, and in a join that is shared."""
    window = f"[RANGE {length} sec SLIDE 1 sec]"
    windows = f"s {window} a, s [RANGE 2 sec SLIDE 1 sec] b"
    return {
        "panes": f"SELECT g, v * {length} AS w, COUNT(*) AS n FROM s {window} GROUP BY g, v * {length}",
        "rows": f"SELECT DISTINCT g, v FROM s {window}",
        "join": f"SELECT a.g, COUNT(*) AS n FROM {windows} WHERE a.k = b.k GROUP BY a.g",
        "new": f"SELECT Istream(g, v) FROM s {window}",
    }


def register(session: sash.Session, length: int) -> None:
    for kind, text in asked(length).items():
        session.register(text, name=f"{kind}_{length}")


def told(session: sash.Session) -> dict[str, dict[Any, bool]]:
    return {
        name: {answer.as_of: answer.complete for answer in query.answers()} for name, query in session.queries.items()
    }


def test_there_is_one_rule(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of queries that come later, and after a restart."""
    monkeypatch.setattr("sash.storage.epochs.SNAPSHOT_EVERY", 2)
    found: dict[str, dict[Any, bool]] = {}
    feed(tmp_path, 0, 2)
    with open_session(spark, tmp_path, files=2, policy="conservative") as session:
        register(session, 4)
        session.run()
        register(session, 5)
        found |= told(session)
        before = {name: query.latest() for name, query in session.queries.items()}
    feed(tmp_path, 2, 6)
    with open_session(spark, tmp_path, files=2, policy="conservative") as session:
        for name, query in session.queries.items():
            if before[name] is not None and query.latest() is not None:
                assert (query.latest().as_of, query.latest().complete) == (before[name].as_of, before[name].complete)
        session.run()
        for name, each in told(session).items():
            found[name] = found.get(name, {}) | each
    for length in (4, 5):
        panes = found[f"panes_{length}"]
        assert set(panes.values()) == {True, False}, "at first not, then they are"
        for kind in ("rows", "join"):
            mine = found[f"{kind}_{length}"]
            assert len(panes.keys() & mine.keys()) > 3
            assert {at: panes[at] for at in mine if at in panes} == {at: mine[at] for at in mine if at in panes}, kind
        first = min(at for at, complete in panes.items() if complete)
        new = found[f"new_{length}"]
        assert not new.get(first, False), "what is new since the multiple before needs the window of then, too"
        assert all(complete == (at > first) for at, complete in new.items())


def test_who_joins_a_group_later_is_complete_by_what_the_group_has(spark: Any, tmp_path: Path) -> None:
    text = over(3, 4, 1, "t.g, COUNT(*) AS n", "GROUP BY t.g")
    feed(tmp_path, 0, 4)
    with open_session(spark, tmp_path, files=2, policy="conservative") as session:
        session.register(text, name="first")
        session.run()
        later = session.register(text.replace("RANGE 3", "RANGE 2").replace("RANGE 4", "RANGE 3"), name="later")
        longer = session.register(text.replace("RANGE 4", "RANGE 5"), name="longer")
        assert session.stats()["plans"] == 2
        feed(tmp_path, 4, 6)
        session.run()
        assert later.answers() and all(answer.complete for answer in later.answers())
        assert {answer.complete for answer in longer.answers()} == {False}, "four seconds, and windows of five"


def test_plans_without_panes_beside_them_know_when_the_data_began(spark: Any, tmp_path: Path) -> None:
    """Two streams begin at two times; WHERE makes no difference to that."""
    feed(tmp_path, 0, 6)
    origins = {
        name: -(-min(pc.min(part["ts"].cast(pa.int64())).as_py() for part in parts) // SECOND) * SECOND - SECOND
        for name, parts in PARTS.items()
    }
    with open_session(spark, tmp_path, files=3, policy="conservative") as session:
        session.register("SELECT DISTINCT v FROM s [RANGE 3 sec SLIDE 1 sec] WHERE v > 7", name="rows")
        session.register(over(2, 5, 1, "COUNT(*) AS n", where="s.k = t.k AND s.v > 3"), name="join")
        session.run()
        found = told(session)
    assert set(found["rows"].values()) == set(found["join"].values()) == {True, False}
    for at, complete in found["rows"].items():
        assert complete == (to_micros(at) >= origins["s"] + 3 * SECOND)
    for at, complete in found["join"].items():
        assert complete == (to_micros(at) >= max(origins["s"] + 2 * SECOND, origins["t"] + 5 * SECOND))
