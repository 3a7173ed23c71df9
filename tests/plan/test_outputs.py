"""Update patterns of outputs, and by which columns they may be spread."""

from __future__ import annotations

from sash.core.changes import UpdatePattern
from sash.core.window import FOREVER, RowWindow, TimeWindow
from sash.plan.continuous import GroupBy, Join, Union, is_stream, sampling_of
from sash.plan.outputs import DSTREAM, ISTREAM, Deltas, Outliving, ResultWindow, Sampled, Stamped
from sash.plan.stages import StagePlan, stages
from tests.plan.test_update_patterns import two
from tests.support.plans import explain

JOIN = Join(two("S"), two("T"), (("S.a", "T.b"),))


def test_patterns() -> None:
    assert Deltas(JOIN, ISTREAM).pattern is Outliving(JOIN).pattern is UpdatePattern.MONOTONIC
    assert ResultWindow(Outliving(JOIN), TimeWindow(3)).pattern is UpdatePattern.WEAKEST
    assert ResultWindow(Outliving(JOIN), TimeWindow(3)).lifetime == 3
    assert ResultWindow(Outliving(JOIN), RowWindow(3)).pattern is UpdatePattern.STRICT
    assert ResultWindow(Outliving(JOIN), TimeWindow(FOREVER)).pattern is UpdatePattern.MONOTONIC
    assert Sampled(two("S"), 6).pattern is UpdatePattern.WEAK
    assert Sampled(GroupBy(two("S"), ("S.a",), ()), 6).pattern is UpdatePattern.STRICT
    assert Sampled(Deltas(JOIN, ISTREAM), 6).pattern is UpdatePattern.MONOTONIC
    assert Stamped(two("S"), "e").pattern is UpdatePattern.WEAKEST


def test_expiries_of_external_tuples_end_results() -> None:
    mixed = Join(Stamped(two("S"), "S exp"), two("T"), (("S.a", "T.b"),))
    assert mixed.schema.names == ["S.a", "S.b", "S exp", "T.a", "T.b"]
    results = Outliving(mixed, ("S exp",))
    assert results.schema.names == ["S.a", "S.b", "T.a", "T.b"] and results.pattern is UpdatePattern.WEAK
    assert stages(results) == (StagePlan("", {0: "S.a", 1: "T.b"}),)


def test_a_stream_is_no_relation() -> None:
    assert is_stream(Deltas(JOIN, DSTREAM)) and is_stream(Outliving(JOIN)) and is_stream(Sampled(Outliving(JOIN), 6))
    assert is_stream(Union((Outliving(two("S")), Outliving(two("T")))))
    assert not is_stream(Outliving(JOIN, ("e",))) and not is_stream(Sampled(JOIN, 6)) and not is_stream(JOIN)
    sampled = Sampled(JOIN, 6)
    assert sampling_of(Deltas(sampled, ISTREAM)) is sampling_of(sampled) is sampled and sampling_of(JOIN) is None


def test_multiples_count_from_the_offset() -> None:
    assert [Sampled(JOIN, 10, 3).next_multiple(t) for t in (-8, 3, 4, 13, 14)] == [-7, 3, 13, 13, 23]


def test_explain() -> None:
    plan = Sampled(Deltas(ResultWindow(Outliving(JOIN), RowWindow(3)), ISTREAM), 6_000_000)
    shown = [line.strip() for line in explain(plan)]
    assert shown[:4] == [
        "Every 6 sec  -> MON", "Istream  -> MON", "Window on results [ROWS 3]  -> STR", "Results, append-only  -> MON",
    ]  # fmt: skip
