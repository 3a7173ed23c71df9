"""EXPLAIN of continuous plans in stages."""

from __future__ import annotations

from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import NT, UPA, Aggregated, GroupBy, Join, Negation, Node
from sash.plan.estimates import Statistics, matched_in
from sash.plan.rewrites import fuse_joins
from sash.runtime.explaining.explain_continuous import explain_plan, explain_state
from sash.runtime.explaining.explanation import Explanation
from tests.sql.examples import continuous_plan
from tests.support.plans import INT, window


def plan_lines(plan: Node) -> list[str]:
    return Explanation(explain_plan(plan)).splitlines()


def state_lines(plan: Node, known: Statistics, strategy: str) -> list[str]:
    return Explanation(explain_state(plan, known, strategy)).splitlines()


COUNT = (Aggregated("n", "count", None, INT),)
JOIN = Join(window("S", TimeWindow(5)), window("T", TimeWindow(5)), (("S.a", "T.a"),))


def test_exchanges_are_shown_where_they_are() -> None:
    shown = plan_lines(GroupBy(JOIN, ("T.b",), COUNT))
    assert shown[2:5] == [
        "  GroupBy T.b: COUNT(*)  -> STR",
        "    Exchange by T.b",
        "      Join on S.a = T.a  -> WK",
    ]
    assert shown[-3:] == ["On Spark: 2 stages", "  1  buckets by S.a, T.a", "  2  buckets by T.b"]


def test_one_bucket_says_so() -> None:
    total = plan_lines(GroupBy(JOIN, (), COUNT))
    assert "    Exchange into one bucket" in total and total[-1] == "  2  one bucket"
    assert plan_lines(JOIN)[-1] == "On Spark: buckets by S.a, T.a"
    alone = "On Spark: one bucket, because no column is a key of all compared inputs"
    assert plan_lines(window("S", RowWindow(3)))[-1] == alone


def test_copies_in_every_bucket_are_shown() -> None:
    chain = fuse_joins(Join(JOIN, window("U", TimeWindow(4)), (("T.b", "U.b"),)))
    assert plan_lines(chain)[-1] == "On Spark: buckets by S.a, T.a; every bucket has U"
    counts = GroupBy(window("V", TimeWindow(4)), ("V.a",), COUNT)
    # There are far more tuples of S to copy than groups.
    exchanged = plan_lines(fuse_joins(Join(JOIN, counts, (("T.b", "n"),)), Statistics(rates={"s": 1e12})))
    assert "    Exchange to every bucket" in exchanged
    assert exchanged[-1] == "  2  buckets by S.a, T.a; every bucket has the exchanged changes"


def test_the_buffer_of_what_is_taken_back_is_shown_with_its_reason() -> None:
    """On both sides of the choice; under nt there is none, and other patterns have one buffer each."""
    negation = Negation(window("S", TimeWindow(5)), window("T", TimeWindow(5)), (("S.a", "T.a"),))
    counted, name = GroupBy(negation, ("S.a",), COUNT), f"State of {negation.describe()}"
    few = f"{name}: calendar queue, because 40% of its tuples are taken back (assumed)"
    assert state_lines(counted, Statistics(), UPA) == [few]
    known = Statistics(taken_back={matched_in(negation): 0.61})
    most = f"{name}: hashed, because 61% of its tuples are taken back (measured)"
    assert state_lines(counted, known, UPA) == [most]
    assert state_lines(counted, known, NT) == state_lines(GroupBy(JOIN, (), COUNT), known, UPA) == []
    rows = window("S", RowWindow(3))
    every = f"State of {rows.describe()}: hashed, because all of its tuples are taken back"
    assert state_lines(GroupBy(rows, (), COUNT), known, UPA) == [every]


def test_why_the_memory_of_a_whole_stream_is_bounded() -> None:
    end = ": bounded, a row for each value: conditions and tables leave finitely many"
    both = "packets [UNBOUNDED] a JOIN packets [UNBOUNDED] b ON a.src = b.dst WHERE a.src IN (1, 2)"
    counted = state_lines(continuous_plan(f"SELECT a.src FROM {both}"), Statistics(), UPA)
    assert [line for line in counted if "bounded" in line] == [
        f"State of Values {each}: COUNT(*){end}" for each in ("a.src", "b.dst")
    ]
    once = state_lines(continuous_plan(f"SELECT DISTINCT a.src FROM {both}"), Statistics(), UPA)
    assert list(once) == [f"State of Distinct{end}"] * 3
    ends = "SELECT DISTINCT src FROM packets [RANGE 5 sec]"
    assert state_lines(continuous_plan(ends), Statistics(), UPA) == []


def test_groups_that_keep_few_tuples_are_shown() -> None:
    longest = GroupBy(JOIN, ("S.a",), (Aggregated("longest", "max", "T.b", INT),))
    shown = f"State of {longest.describe()}: without tuples that another one outlives and outdoes"
    assert state_lines(longest, Statistics(), UPA) == [shown]
    assert state_lines(longest, Statistics(), NT) == []
