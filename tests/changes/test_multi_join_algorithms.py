"""The algorithms of the thesis against the definition and against their plain versions; the golden trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.joins.algorithms import ALGORITHMS, join
from papers.joins.lazy_join import JoinResults, Tuples, lost_share
from sash.core.changes import UpdatePattern
from sash.core.errors import SashError
from tests.support.multi_joins import Plain, arriving, definition, results_of, view

GOLDEN = Path(__file__).parents[1] / "golden"
END = 40
WEAKEST, WEAK, STRICT = UpdatePattern.WEAKEST, UpdatePattern.WEAK, UpdatePattern.STRICT
PATTERNS = {"time": WEAKEST, "lifetimes": WEAK, "rows": STRICT}
# Lives may be shorter than the interval: a tuple comes and goes between two evaluations.
lives = st.integers(1, 12)
announced = st.one_of(
    st.tuples(st.just("time"), lives), st.tuples(st.just("lifetimes"), st.lists(lives, min_size=2, max_size=8))
)
windows = st.one_of(announced, st.tuples(st.just("rows"), st.integers(1, 4)))
streams = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 2)), max_size=8)


class Case:
    """Two to five windows with tuples for them, an order and an interval."""

    def __init__(self, data: st.DataObject, *, strict: bool) -> None:
        number = data.draw(st.integers(2, 5), label="streams")
        kinds = windows if strict else announced
        self.windows = [data.draw(kinds, label="window") for _ in range(number)]
        self.tuples = arriving([data.draw(streams, label="tuples") for _ in range(number)], self.windows)
        self.order = tuple(data.draw(st.permutations(range(number)), label="order"))
        self.interval = data.draw(st.integers(1, 7), label="interval")
        self.buckets = data.draw(st.integers(1, 4), label="buckets")
        self.patterns = [PATTERNS[kind] for kind, _ in self.windows]

    def run(self, algorithm: str, buckets: int | None = None) -> JoinResults:
        return join(
            algorithm, self.tuples, self.order, self.patterns, interval=self.interval, buckets=buckets or self.buckets
        )

    def holds(self, now: int) -> set[tuple[int, ...]]:
        return definition(self.tuples, len(self.windows), now)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(st.data())
def test_kernels_do_what_the_printed_loops_do(algorithm: str, data: st.DataObject) -> None:
    case = Case(data, strict=algorithm != "eager-lazy-expiry")
    found = case.run(algorithm)
    plain = Plain(algorithm, case.tuples, case.order, case.interval, case.buckets).run()
    assert sorted(results_of(found)) == sorted(plain.results)
    assert found.found == len(plain.results) and found.compared == plain.compared
    # Algorithm 3 cleans up when it likes to.
    assert found.probed <= plain.probed if algorithm == "eager-lazy-expiry" else found.probed == plain.probed
    counted = join(
        algorithm, case.tuples, case.order, case.patterns, interval=case.interval, buckets=case.buckets, keep=False
    )
    assert (counted.found, counted.probed, counted.compared) == (found.found, found.probed, found.compared)
    assert len(counted.ts) == 0


@pytest.mark.parametrize("algorithm", ["eager", "eager-lazy-expiry", "lazy-restore"])
@given(st.data())
def test_all_results_are_found(algorithm: str, data: st.DataObject) -> None:
    """With restore also the results that came and went between two evaluations."""
    case = Case(data, strict=algorithm != "eager-lazy-expiry")
    results = results_of(case.run(algorithm))
    for now in range(END):
        assert view(sorted(results, key=lambda result: (result[2], result[4])), now) == case.holds(now), f"at {now}"


@given(st.data())
def test_without_restore_exactly_what_lives_at_an_evaluation_is_found(data: st.DataObject) -> None:
    case = Case(data, strict=True)
    results = results_of(case.run("lazy"))
    before: set[tuple[int, ...]] = set()
    for now in range(0, END, case.interval):
        holds = case.holds(now)
        new = [members for members, reported, _, _, sign in results if reported == now and sign > 0]
        assert sorted(new) == sorted(holds - before), f"at {now}"
        known = sorted((result for result in results if result[1] <= now), key=lambda result: (result[2], result[4]))
        assert view(known, now) == holds
        before = holds


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(st.data())
def test_hash_tables_find_the_same_and_probe_less(algorithm: str, data: st.DataObject) -> None:
    case = Case(data, strict=algorithm != "eager-lazy-expiry")
    loops, hashed = case.run(algorithm, 1), case.run(algorithm, 3)
    assert sorted(results_of(loops)) == sorted(results_of(hashed))
    assert hashed.probed <= loops.probed and hashed.compared <= loops.compared


@pytest.mark.parametrize("algorithm", ["lazy", "lazy-restore"])
def test_tuples_of_one_value_probe_once(algorithm: str) -> None:
    """Seven tuples of one stream go through five of the other together; eagerly each would."""
    tuples = arriving([[(0, 1)] * 5, [(0, 1)] * 7], [("time", 9), ("time", 9)])
    found = join(algorithm, tuples, (0, 1), [WEAKEST] * 2, interval=4)
    assert found.found == 35 and found.probed == 5


def test_partners_that_missed_each_other() -> None:
    """Both meet the tuple of the third window that probes them, at different times: algorithm 5 as printed has them."""
    each = np.array
    tuples = Tuples(each([0, 2, 1]), each([1, 1, 1]), each([1, 4, 7]), each([5, 14, 17]), each([-1, -1, -1]))
    for algorithm in ALGORITHMS:
        assert join(algorithm, tuples, (0, 1, 2), [WEAK] * 3, interval=8).found == 0


def test_lifetimes_may_differ() -> None:
    """A WEAK input: a later tuple may expire earlier."""
    each = np.array
    tuples = Tuples(each([0, 0, 1, 1]), each([1, 1, 1, 1]), each([1, 2, 5, 7]), each([20, 4, 9, 9]), each([-1] * 4))
    for algorithm in ALGORITHMS:
        found = join(algorithm, tuples, (0, 1), [WEAK, WEAKEST], interval=1)
        assert sorted(map(tuple, found.members.tolist())) == [(0, 2), (0, 3)]


def test_what_cannot_work_is_refused() -> None:
    tuples = arriving([[(1, 1)], [(1, 1)]], [("rows", 1), ("time", 3)])
    with pytest.raises(SashError, match="cannot join inputs that take tuples back"):
        join("eager-lazy-expiry", tuples, (0, 1), [STRICT, WEAKEST], interval=5)
    for algorithm in ("eager-lazy-expiry", "lazy", "lazy-restore"):
        with pytest.raises(SashError, match="needs an interval"):
            join(algorithm, tuples, (0, 1), [WEAKEST] * 2)


def example(file: str, name: str) -> dict[str, Any]:
    every = json.loads((GOLDEN / file).read_text())["examples"]
    return next(each for each in every if each["id"] == name)


def test_the_golden_trace_of_three_windows() -> None:
    given_, expected = (example("joins.json", "joins.trace.three_way")[part] for part in ("inputs", "expected"))
    each = list(given_["streams"].values())
    tuples = arriving([stream["tuples_ts_a"] for stream in each], [("time", stream["window"]) for stream in each])
    for algorithm in ("eager", "eager-lazy-expiry", "lazy-restore"):
        found = join(algorithm, tuples, (0, 1, 2), [WEAKEST] * 3, interval=6)
        rows = [[ts, int(tuples.value[places[0]]), *tuples.ts[list(places)].tolist(), exp]
                for places, _, ts, exp, _ in results_of(found)]  # fmt: skip
        assert sorted(rows) == sorted(expected["output"])
    assert join("eager", tuples, (0, 1, 2), [WEAKEST] * 3).compared == expected["attribute_comparisons"]


def test_the_golden_trace_of_evaluations_with_and_without_restore() -> None:
    pairs = example("update_patterns.json", "update_patterns.trace.join")["inputs"]
    periodic = example("update_patterns.json", "update_patterns.trace.periodic_restore")
    given_ = [pairs[name]["tuples_ts_value"] for name in ("S1", "S2")]
    tuples = arriving(
        [[(ts, ord(value)) for ts, value in each] for each in given_],
        [("time", pairs[name]["window"]) for name in ("S1", "S2")],
    )
    for algorithm, kind in (("lazy", "no_restore"), ("lazy-restore", "restore")):
        found = join(algorithm, tuples, (0, 1), [WEAKEST] * 2, interval=periodic["inputs"]["delta"])
        reported: dict[int, list[list[int]]] = {}
        for members, at, *_ in results_of(found):
            reported.setdefault(at, []).append(tuples.ts[list(members)].tolist())
        expected = {each["tau"]: sorted(each[kind]) for each in periodic["expected"]["evaluations"]}
        assert {at: sorted(found_) for at, found_ in reported.items()} == expected
        assert found.found == periodic["expected"]["total"][kind]


def test_about_as_many_results_are_lost_as_the_model_says() -> None:
    """Windows of 60, evaluated every 10 time units: a twelfth, not the sixth of the thesis."""
    chance, number = np.random.default_rng(5), 6_000
    ts = np.sort(chance.integers(1, 6_000, number))
    tuples = Tuples(
        chance.integers(0, 2, number), chance.integers(0, 5, number), ts, ts + 60, np.full(number, -1, dtype=np.int64)
    )
    lost, every = (join(name, tuples, (0, 1), [WEAKEST] * 2, interval=10).found for name in ("lazy", "lazy-restore"))
    assert 1 - lost / every == pytest.approx(float(lost_share(60, 10)), rel=0.1)
