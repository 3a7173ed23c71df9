"""`session.punctuate`: promises of a user, in a session with Spark, and over restarts."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
from tests.runtime.test_continuous import declare, tuples, write

pytestmark = pytest.mark.spark

QUERIES = {
    "pairs": "SELECT s.v, t.v AS w FROM s [RANGE 5 minutes], t [RANGE 5 minutes] WHERE s.k = t.k",
    "groups": "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM s [UNBOUNDED] GROUP BY k",
    "every": "SELECT k, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k",
}


def without(part: pa.Table, key: int) -> pa.Table:
    return part.filter(pc.not_equal(part["k"], key).fill_null(True))


def test_answers_stay_and_broken_promises_are_counted_over_a_restart(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = {"s": tuples(5, parts=4), "t": tuples(6, parts=4)}
    late_keys = sum(part["k"].to_pylist().count(1) for part in parts["s"][2:])
    assert late_keys > 1
    found = {}
    for promising in (False, True):
        directory = tmp_path / str(promising)
        directory.mkdir()
        for first in (0, 2):
            for name, each in parts.items():
                some = each[first : first + 2]
                # The last tuples of s break the promise; without a promise they do not come.
                kept = [without(part, 1) if name == "s" and first and not promising else part for part in some]
                write(kept, directory / name, first)
            with sash.connect(spark=spark, checkpoint=directory / "checkpoint") as session:
                declare(session, directory, files=2)
                queries = {name: session.register(text, name=name) for name, text in QUERIES.items()}
                session.run()
                if promising and not first:
                    session.punctuate("S", "K", 1)
                found[promising] = {name: Counter(map(str, queries[name].view().to_pylist()))
                                    for name in ("pairs", "groups")}  # fmt: skip
                broken = [session.stats()["queries"][name]["broken_promises"] for name in ("pairs", "groups")]
        assert broken == ([late_keys] * 2 if promising else [0, 0])
    assert found[True] == found[False]
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and "promised" in r.getMessage()]
    # Once for each query.
    assert len(said) == 2 and said[0].startswith("stream s: tuples with values that were promised not to come again")


def test_explain_says_which_promises_count(spark: Any, tmp_path: Path) -> None:
    for name, seed in (("s", 7), ("t", 8)):
        write(tuples(seed, parts=1), tmp_path / name)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        shown = session.explain(f"REGISTER QUERY q AS {QUERIES['pairs']}")
        assert "punctuate() on t.k, s.k frees state of Join on s.k = t.k" in shown
        assert "punctuate() on s.k frees state of GroupBy" in session.explain(
            f"REGISTER QUERY q AS {QUERIES['groups']}"
        )


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [("kk", 1, "stream 's' has no column 'kk'; did you mean 'k'?"), ("k", "x", "'x' is no value of column 'k'"),
     ("k", 1 << 40, "is no value of column 'k', which is int32")],
)  # fmt: skip
def test_what_cannot_be_promised(spark: Any, tmp_path: Path, column: str, value: object, why: str) -> None:
    write(tuples(7, parts=1), tmp_path / "s")
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path, "s")
        with pytest.raises(sash.SashError) as raised:
            session.punctuate("s", column, value)
        assert why in str(raised.value)
