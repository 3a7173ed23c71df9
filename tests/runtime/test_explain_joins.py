"""EXPLAIN of the order of a join."""

from __future__ import annotations

from sash.core.time import SECOND
from sash.core.window import TimeWindow
from sash.plan.continuous import Join, Node
from sash.plan.estimates import Statistics
from sash.plan.join_order import JoinInput, augmented, cost
from sash.plan.multi_join import MultiJoin
from sash.runtime.explaining.explain_continuous import explain_joins
from sash.runtime.explaining.explanation import Explanation
from tests.support.plans import window


def join_lines(plan: Node, known: Statistics, strategy: str) -> list[str]:
    return Explanation(explain_joins(plan, known, strategy)).splitlines()


def test_the_order_is_shown_with_its_reasons() -> None:
    """The streams of the thesis' table 5.5, with a hash bucket per value."""
    sides = tuple(window(name, TimeWindow(100 * SECOND)) for name in "STUV")
    known = Statistics(
        rates={"s": 10.0, "t": 1.0, "u": 1.0, "v": 1.0}, distinct={"s.a": 40.0, "t.a": 100.0, "u.a": 8.0, "v.a": 5.0}
    )
    shown = join_lines(MultiJoin(sides, (("S.a", "T.a", "U.a", "V.a"),)), known, "upa")
    hashed = [JoinInput(rate, 100, values, values) for rate, values in ((10, 40), (1, 100), (1, 8), (1, 5))]
    order = augmented(hashed)
    probed = f"{cost(order, hashed):,.0f} tuples probed per second, {cost((0, 1, 2, 3), hashed):,.0f} as written"
    names = ", ".join(f"{'STUV'[place]}.a" for place in order)
    assert shown[0] == f"Join of 4 on S.a = T.a = U.a = V.a, probed in the order {names}: {probed}"
    assert order != (0, 1, 2, 3)
    assert set(shown[1:5]) >= {
        "  T.a: 1 tuples per second, 100 in the window, 100 values",
        "  S.a: 10 tuples per second, 1,000 in the window, 40 values",
    }
    assert shown[-1] == "  every micro-batch chooses the order again, by the tuples stored then"


def test_joins_below_other_operators_are_found() -> None:
    join = Join(window("S", TimeWindow(SECOND)), window("T", TimeWindow(SECOND)), ())
    assert join_lines(window("S", TimeWindow(SECOND)), Statistics(), "upa") == []
    shown = join_lines(Join(join, window("U", TimeWindow(SECOND)), (("S.a", "U.a"),)), Statistics(), "upa")
    assert [line.split(",")[0] for line in shown if not line.startswith(" ")] == ["Join on S.a = U.a", join.describe()]


def test_every_input_of_a_chain_has_its_own_order() -> None:
    sides = tuple(window(name, TimeWindow(10 * SECOND)) for name in "STU")
    known = Statistics(
        rates={"s": 10.0, "t": 1.0, "u": 5.0}, distinct={"s.a": 10.0, "t.a": 10.0, "t.b": 5.0, "u.b": 5.0}
    )
    join = MultiJoin(sides, (("S.a", "T.a", None), (None, "T.b", "U.b")))
    shown = join_lines(join, known, "upa")
    # 10 tuples of S meet 1 of T each, one of T meets 10 of S or of U each, 5 of U meet 2 of T each.
    assert shown == [
        f"{join.describe()}: 30 partial combinations visited per second, 30 as written, none is stored",
        "  S probes T, U: 10 tuples per second, 100 in the window, 10 values of S.a",
        "  T probes S, U: 1 tuples per second, 10 in the window, 10 values of T.a, 5 values of T.b",
        "  U probes T, S: 5 tuples per second, 50 in the window, 5 values of U.b",
        "  every micro-batch chooses the order again, by the tuples stored then",
    ]


def test_a_star_that_is_written_in_a_bad_order() -> None:
    """The input in the middle finds 20 of S, which it is written with first, but only one of U."""
    sides = tuple(window(name, TimeWindow(10 * SECOND)) for name in "TSU")
    known = Statistics(
        rates={"t": 10.0, "s": 20.0, "u": 1.0}, distinct={"t.a": 10.0, "s.a": 10.0, "t.b": 10.0, "u.b": 10.0}
    )
    shown = join_lines(MultiJoin(sides, (("T.a", "S.a", None), ("T.b", None, "U.b"))), known, "upa")
    # 20 tuples of S meet 10 of T each, one of U meets 10; 10 of T meet 1 of U each, or 20 of S.
    assert shown[0].endswith(": 220 partial combinations visited per second, 410 as written, none is stored")
    assert shown[1] == ("  T probes U, S: 10 tuples per second, 100 in the window, 10 values of T.a, 10 values of T.b")


def test_an_attribute_of_several_columns() -> None:
    sides = tuple(window(name, TimeWindow(10 * SECOND)) for name in "STU")
    known = Statistics(rate=1.0, distinct={f"{name}.{column}": 4.0 for name in "stu" for column in "ab"})
    keys = (("S.a", "T.a", None), ("S.b", "T.b", None), (None, "T.b", "U.b"))
    shown = join_lines(MultiJoin(sides, keys), known, "upa")
    assert [line.split("window, ")[1] for line in shown[1:4]] == [
        "16 values of S.a and S.b", "16 values of T.a and T.b, 4 values of T.b", "4 values of U.b",
    ]  # fmt: skip
