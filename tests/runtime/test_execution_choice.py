"""`auto` picks a strategy by cost when a query is registered, says why, and keeps to it over restarts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.core.time import SECOND
from tests.runtime.test_continuous import START, declare, tuples, write

pytestmark = pytest.mark.spark

SMALL = "SELECT s.k, s.v FROM s [RANGE 3 sec] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 3 sec] WHERE t.k = s.k)"
LARGE = SMALL.replace("3 sec", "5 minutes")
JOIN = "SELECT s.v, t.v AS w FROM s [RANGE 5 minutes], t [RANGE 5 minutes] WHERE s.k = t.k"


def execution(session: sash.Session, name: str) -> str:
    facts = session.sql(f"DESCRIBE {name}")
    return dict(zip(facts["fact"].to_pylist(), facts["value"].to_pylist(), strict=True))["execution"]


def test_negative_tuples_where_they_are_expected_to_win(spark: Any, tmp_path: Path) -> None:
    for name, seed in (("s", 7), ("t", 8)):
        write(tuples(seed, parts=2), tmp_path / name)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        queries = {}
        for name, text in (("small", SMALL), ("large", LARGE), ("pairs", JOIN)):
            queries[name] = session.register(text, name=name)
        session.sql("SET EXECUTION upa")
        queries["forced"] = session.register(LARGE, name="forced")
        found = {name: execution(session, name) for name in queries}
        assert found == {"small": "upa", "large": "nt", "pairs": "upa", "forced": "upa"}
        session.run()
        assert session.stats()["plans"] == 4
        views = [Counter(map(str, queries[name].view().to_pylist())) for name in ("large", "forced")]
        assert views[0] == views[1] != Counter()
        # A join's changes have expiries and take nothing back, whatever its windows.
        changes = queries["pairs"].changes()
        assert changes["_exp"].null_count == 0 and set(changes["_sign"].to_pylist()) == {1}


def test_explain_says_what_was_chosen_and_why(spark: Any, tmp_path: Path) -> None:
    for name, seed in (("s", 7), ("t", 8)):
        write(tuples(seed, parts=4), tmp_path / name)
    with sash.connect(spark=spark) as session:
        declare(session, tmp_path)
        before = session.explain(f"REGISTER QUERY q AS {LARGE}")
        assert "Execution: nt, the cheaper of upa and nt: negative tuples cost" in before
        assert "less for sorting" in before and "expected per second of event time: upa" in before
        assert "s 1,000 tuples per second (assumed), t 1,000 tuples per second (assumed)" in before
        assert "1 micro-batches per second (assumed)" in before
        assert "Execution: upa, because its answer never takes rows back" in session.explain(
            f"REGISTER QUERY q AS {JOIN}"
        )
        session.sql("SET EXECUTION direct")
        assert "Execution: direct, because SET EXECUTION says so" in session.explain(f"REGISTER QUERY q AS {LARGE}")
        session.sql("SET EXECUTION auto")
        session.register(SMALL, name="small")
        assert "as query 'small', which is the same" in session.explain(f"REGISTER QUERY q AS {SMALL}")
        session.run()
        # Seven tuples per second: five minutes of them are few.
        after = session.explain(f"REGISTER QUERY q AS {LARGE}")
        assert "Execution: upa, the cheaper of upa and nt" in after
        assert after.count("tuples per second (measured)") == 2 and "micro-batches per second (measured)" in after
        assert "t.k: about 4 values (measured)" in after


def test_a_query_keeps_its_strategy_over_a_restart(spark: Any, tmp_path: Path) -> None:
    """By later measurements the choice would differ; the state is that of the first choice."""
    parts = {"s": tuples(5, parts=6), "t": tuples(6, parts=6)}
    collected: list[Any] = []
    for first in (0, 2, 4):
        for name, each in parts.items():
            write(each[first : first + 2], tmp_path / name, first)
        with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
            declare(session, tmp_path)
            query = session.register(LARGE, name="large")
            query.subscribe(lambda answer: collected.append(answer.table))
            assert execution(session, "large") == "nt"
            session.run()
            assert session.stats()["plans"] == 1
            measured = session.explain(f"REGISTER QUERY q AS {LARGE.replace('5 minutes', '299 sec')}")
            assert "Execution: upa" in measured
            # One that comes later and asks the same shares its plan.
            if first == 4:
                assert session.register(LARGE, name="later").view() == query.view()
                assert execution(session, "later") == "nt" and session.stats()["plans"] == 1
            shown = Counter(map(str, query.view().to_pylist()))
    with sash.connect(spark=spark, execution="upa") as session:
        declare(session, tmp_path, files=3)
        whole = session.register(LARGE, name="large")
        session.run()
        assert Counter(map(str, whole.view().to_pylist())) == shown
    signs = Counter(sign for table in collected for sign in table["_sign"].to_pylist())
    assert signs[1] - signs[-1] == shown.total()


def test_what_was_measured_is_kept_with_the_query(spark: Any, tmp_path: Path) -> None:
    for name, seed in (("s", 7), ("t", 8)):
        write(tuples(seed, parts=2), tmp_path / name)
    checkpoint = tmp_path / "checkpoint"
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        declare(session, tmp_path)
        session.register(SMALL, name="small")
        session.run()
        session.register(LARGE, name="large")
        assert execution(session, "large") == "upa"
    history = next(path for path in checkpoint.rglob("*") if path.is_file() and "register query" in path.read_text())
    changes = [json.loads(line) for line in history.read_text().splitlines()]
    kept = {each["name"]: each for each in changes if each["change"] == "register query"}
    assert kept["small"]["measurements"] == [] and kept["large"]["execution"] == "upa"
    assert {kind for kind, *_ in kept["large"]["measurements"]} == {"rate", "distinct", "epochs"}
    with sash.connect(spark=spark, checkpoint=checkpoint) as session:
        # Nothing is measured yet, and by assumption it would be nt.
        declare(session, tmp_path)
        assert session.register(LARGE, name="large").name == "large"
        assert execution(session, "large") == "upa"


def test_a_strategy_that_was_insisted_on_is_not_changed_silently(spark: Any, tmp_path: Path) -> None:
    for name in "st":
        write(tuples(7, parts=1), tmp_path / name)
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint", execution="nt") as session:
        declare(session, tmp_path)
        session.register(SMALL, name="small")
    with sash.connect(spark=spark, checkpoint=tmp_path / "checkpoint") as session:
        declare(session, tmp_path)
        session.sql("SET EXECUTION direct")
        with pytest.raises(sash.SashError, match="registered already"):
            session.register(SMALL, name="small")
        session.sql("SET EXECUTION auto")
        session.register(SMALL, name="small")
        assert execution(session, "small") == "nt"


def test_what_negations_take_back_is_measured(spark: Any, tmp_path: Path) -> None:
    """Every tenth tuple of s gets a match a second later: fewer than were assumed, so the buffer is the same."""
    number = 3_000
    ts, every = START + np.arange(number) * 10_000, np.arange(number)
    for name, places, later in (("s", every, 0), ("t", every[::10], SECOND)):
        columns = [pa.array(ts[places] + later, pa.timestamp("us", "UTC")), pa.array(places, pa.int32())]
        table = pa.table([*columns, pa.nulls(len(places), pa.string()), columns[1]], ["ts", "k", "g", "v"])
        write([table.slice(first, -(-len(places) // 6)) for first in range(0, len(places), -(-len(places) // 6))],
              tmp_path / name)  # fmt: skip
    counted = "SELECT s.g, COUNT(*) AS n FROM s [RANGE 5 sec] WHERE {} GROUP BY s.g"
    text = counted.format("NOT EXISTS (SELECT 1 FROM t [RANGE 5 sec] WHERE t.k = s.k)")
    with sash.connect(spark=spark, execution="upa") as session:
        declare(session, tmp_path)
        assumed = session.explain(f"REGISTER QUERY q AS {text}")
        assert "calendar queue, because 40% of its tuples are taken back (assumed)" in assumed
        session.register(text, name="q")
        session.run()
        measured = session.explain(f"REGISTER QUERY again AS {text}")
        assert "calendar queue, because 10% of its tuples are taken back (measured)" in measured
