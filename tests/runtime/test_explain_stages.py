"""EXPLAIN of continuous plans in stages."""

from __future__ import annotations

from sash.core.window import RowWindow, TimeWindow
from sash.plan.continuous import Aggregated, GroupBy, Join
from sash.plan.estimates import Statistics
from sash.plan.rewrites import fuse_joins
from sash.runtime.explaining.explain_continuous import explain_plan
from tests.support.plans import INT, window

COUNT = (Aggregated("n", "count", None, INT),)
JOIN = Join(window("S", TimeWindow(5)), window("T", TimeWindow(5)), (("S.a", "T.a"),))


def test_exchanges_are_shown_where_they_are() -> None:
    shown = explain_plan(GroupBy(JOIN, ("T.b",), COUNT))
    assert shown[2:5] == [
        "  GroupBy T.b: COUNT(*)  -> STR",
        "    Exchange by T.b",
        "      Join on S.a = T.a  -> WK",
    ]
    assert shown[-3:] == ["On Spark: 2 stages", "  1  buckets by S.a, T.a", "  2  buckets by T.b"]


def test_one_bucket_says_so() -> None:
    total = explain_plan(GroupBy(JOIN, (), COUNT))
    assert "    Exchange into one bucket" in total and total[-1] == "  2  one bucket"
    assert explain_plan(JOIN)[-1] == "On Spark: buckets by S.a, T.a"
    alone = "On Spark: one bucket, because no column is a key of all compared inputs"
    assert explain_plan(window("S", RowWindow(3)))[-1] == alone


def test_copies_in_every_bucket_are_shown() -> None:
    chain = fuse_joins(Join(JOIN, window("U", TimeWindow(4)), (("T.b", "U.b"),)))
    assert explain_plan(chain)[-1] == "On Spark: buckets by S.a, T.a; every bucket has U"
    counts = GroupBy(window("V", TimeWindow(4)), ("V.a",), COUNT)
    # There are far more tuples of S to copy than groups.
    exchanged = explain_plan(fuse_joins(Join(JOIN, counts, (("T.b", "n"),)), Statistics(rates={"s": 1e12})))
    assert "    Exchange to every bucket" in exchanged
    assert exchanged[-1] == "  2  buckets by S.a, T.a; every bucket has the exchanged changes"
