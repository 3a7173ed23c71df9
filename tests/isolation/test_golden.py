"""The thesis' examples of transactions (chapter 7), and what follows from its theorems by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations
from typing import Any

from papers.isolation.schedule import Scheduler
from sash.isolation.checker import classify, judge_queries
from sash.isolation.history import History
from tests.isolation.examples import EXAMPLES, EXERCISED, golden, named, parsed
from tests.isolation.histories import serialization_graph, serialization_orders

HISTORIES = [f"history.H{letter}" for letter in "abcdefgh"]


@golden(*HISTORIES)
def test_histories_are_classified(given: Any, want: Any) -> None:
    history = parsed(given)
    assert str(history) == " ".join(given["history"])
    verdict, (query,) = classify(history), judge_queries(history)
    assert sorted([f"T{a}", f"T{b}"] for a, b in serialization_graph(history)) == want["edges"]
    orders = [[f"T{each}" for each in order] for order in serialization_orders(history)]
    assert sorted(orders) == want["serialization_orders"]
    assert [int(query.state_read[slot]) for slot in range(given["n"])] == want["state_read"]
    assert (None if query.state_after is None else f"T{query.state_after}") == want["reads_state_after"]
    assert verdict.serializable == want["serializable"]
    assert (verdict.ws, verdict.lws, verdict.cps) == (want["WS"], want["LWS"], want["CPS"])
    assert verdict.lws_by_committed_state == want["LWS_by_committed_state"]


@golden("ttu.trace_He")
def test_times_to_update_step_by_step(given: Any, want: Any) -> None:
    scheduler = Scheduler(given["n"], "ttu")
    assert scheduler.ttu == given["initial_TTU"]
    scheduler.start("Q1")
    query, read_order, steps = scheduler.running["Q1"], [], [{"op": "start", "TTU": scheduler.ttu}]
    for word in given["history"]:
        if word.startswith("r"):
            unread = {str(slot): scheduler.ttu[slot] for slot, read in enumerate(query.bits) if not read}
            done = scheduler.step()
            assert done is not None and done.slot is not None
            read_order.append(done.slot)
            steps.append({"op": str(done), "chosen_TTU": scheduler.ttu[done.slot], "unread_TTU": unread})
        elif word.startswith("w"):
            assert scheduler.slide() == []
            steps.append({"op": word, "TTU": scheduler.ttu})
    assert steps == want["steps"] and read_order == want["read_order"]
    assert str(scheduler.history) == " ".join(given["history"])


@golden("ttu.violation_Hf")
def test_the_query_of_hf_is_aborted_at_once(given: Any, want: Any) -> None:
    scheduler = Scheduler(given["n"], "lws")
    scheduler.start("Q1", given["n_k"])
    query = scheduler.running["Q1"]
    assert [scheduler.step().slot for _ in given["reads_before_T5"]] == given["reads_before_T5"]  # type: ignore[union-attr]
    index = scheduler.left_by(query, given["j"])
    assert (index, query.bits[index]) == (want["B_index_tested"], want["B_value"])
    assert scheduler.slide() == ["Q1"] and f"T{scheduler.youngest}" == want["algorithm_7_aborts_after"]


@golden("abort.condition")
def test_which_bit_is_tested(given: Any, want: Any) -> None:
    scheduler = Scheduler(given["n"])
    for count in given["n_k"]:
        scheduler.start(str(count), count)
    found = {
        name: {str(j): scheduler.left_by(query, j) for j in given["j"]} for name, query in scheduler.running.items()
    }
    assert found == want["index_by_nk_and_j"]


@golden("window.youngest_sets")
def test_the_youngest_sub_windows(given: Any, want: Any) -> None:
    for case, oldest, reads in zip(given["cases"], want["oldest"], want["reads"], strict=True):
        scheduler = Scheduler(given["n"])
        while scheduler.youngest % given["n"] != case["youngest"]:
            scheduler.slide()
        assert scheduler.ttu.index(1) == oldest
        scheduler.start("Q", case["n_k"])
        assert [scheduler.step().slot for _ in reads] == reads and not scheduler.running  # type: ignore[union-attr]


@golden("scheduler.runs")
def test_runs_of_both_algorithms(given: Any, want: Any) -> None:
    for run in want["runs"]:
        for key, order in (("ttu", "ttu"), ("sequential", "lws")):
            if key in run:
                assert outcome(run, order) == (run[key], run[f"{key}_outcome"])


def outcome(run: dict[str, Any], order: str) -> tuple[list[str], str]:
    """What one query's scheduler does, in the golden file's short notation."""
    scheduler = Scheduler(run["n"], order)
    scheduler.start("Q", run["n_k"])
    for event in run["events"]:
        if scheduler.running:
            scheduler.step() if event == "R" else scheduler.slide()
    done = [each for each in scheduler.history.operations if each.kind == "w" or each.transaction == "Q"]
    words = [str(each).replace("Q", "") for each in done]
    return words, "running" if scheduler.running else {"c": "commit", "a": "abort"}[words[-1]]


@golden("theorems.enumeration")
def test_how_many_histories_are_of_each_class(given: Any, want: Any) -> None:
    for case, counts in want["counts"].items():
        slots, movements = (int(part.partition("=")[2]) for part in case.split(","))
        verdicts = [classify(each) for each in enumerate_histories(slots, movements)]
        assert len(verdicts) == counts["histories"]
        assert sum(each.ws for each in verdicts) == counts["WS"]
        assert sum(each.lws for each in verdicts) == counts["LWS"]
        assert sum(each.cps for each in verdicts) == counts["CPS"]
        assert all(each.lws == each.cps for each in verdicts) == want["LWS_equals_CPS"]
        assert all(each.ws for each in verdicts if each.lws)


def enumerate_histories(slots: int, movements: int) -> Iterator[History]:
    """One query in any order of reads, slides at any places before its commit."""
    for order in permutations(range(slots)):
        for places in combinations_with_replacement(range(slots + 1), movements):
            words = []
            for place in range(slots + 1):
                for each in (slots + index for index, at in enumerate(places) if at == place):
                    words += [f"w{each}[{each % slots}]", f"c{each}"]
                words += [f"rQ1[{order[place]}]"] if place < slots else ["cQ1"]
            yield History.parse(words, slots)


@golden("theorems.enumeration")
def test_the_theorems_about_the_graph(given: Any, want: Any) -> None:
    """Theorems 7.1 and 7.2: what the definitions say, the edges of the graph say, too."""
    for history in [*enumerate_histories(3, 2), *enumerate_histories(4, 2)]:
        edges, verdict = serialization_graph(history), classify(history)
        before = [int(a) for a, b in edges if b == "Q1"]
        after = [int(b) for a, b in edges if a == "Q1"]
        assert verdict.ws == all(i < j for i in before for j in after)
        assert verdict.lws == (not after)


@golden("ttu.optimality")
def test_ttu_aborts_what_every_order_aborts(given: Any, want: Any) -> None:
    for case, counts in want["counts"].items():
        slots, movements = (int(part.partition("=")[2]) for part in case.split(","))
        patterns = list(combinations_with_replacement(range(slots), movements))
        aborted = {order: {each for each in patterns if is_aborted(slots, each, order)} for order in ("ttu", "lws")}
        hopeless = {each for each in patterns if all(aborts(slots, each, o) for o in permutations(range(slots)))}
        assert len(patterns) == counts["patterns"]
        assert len(aborted["ttu"]) == counts["aborted_ttu"] and len(aborted["lws"]) == counts["aborted_sequential"]
        assert len(hopeless) == counts["aborted_by_every_order"] and aborted["ttu"] == hopeless


def is_aborted(slots: int, places: tuple[int, ...], order: str) -> bool:
    """Whether the algorithm aborts when slides come before these reads (0 is the first)."""
    scheduler = Scheduler(slots, order)
    scheduler.start("Q")
    for place in range(slots):
        for _ in range(places.count(place)):
            if scheduler.slide():
                return True
        scheduler.step()
    return False


def aborts(slots: int, places: tuple[int, ...], order: tuple[int, ...]) -> bool:
    """The same for any order of reads, by looking at it: some slide overwrites what has been read already."""
    return any((slots + index) % slots in order[:place] for index, place in enumerate(places))


@golden("metrics.example")
def test_staleness_and_response_time(given: Any, want: Any) -> None:
    from papers.isolation.metrics import Execution

    for reflected, staleness in zip(given["last_update_reflected"], want["staleness"], strict=True):
        execution = Execution(given["query_start"], given["query_end"], reflected)
        assert (execution.staleness, execution.response_time) == (staleness, want["response_time"])


@golden("isolation.strong_snapshot")
def test_a_snapshot_of_the_start_is_neither_weaker_nor_stronger(given: Any, want: Any) -> None:
    found = [next(judge_queries(named(each))) for each in given["histories"]]
    assert [each.snapshot_of_start for each in found] == want["snapshot_of_start"]
    assert [each.lws for each in found] == want["LWS"]


def test_every_example_is_exercised() -> None:
    assert set(EXAMPLES) == EXERCISED
