"""Random histories: a few queries, slides, revisions and insertions in any order, some taken back, aborted or open.

And the serialization graph of a history by its definition, which the checker's shorter way is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from sash.isolation.checker import Edge
from sash.isolation.history import History, Operation, effective

QUERIES = ("Q1", "Q2", "Q3")


@st.composite
def histories(draw: st.DrawFn) -> History:
    slots = draw(st.integers(1, 4))
    youngest, revisions = slots - 1, 0
    done: list[Operation] = []
    # Writers that have not committed yet.
    open_writers: list[str] = []
    ended: set[str] = set()
    for kind in draw(st.lists(st.sampled_from("rrrrrruwwicacC"), max_size=24)):
        slot = draw(st.integers(0, slots - 1))
        query = draw(st.sampled_from(QUERIES))
        if kind in "wi":
            if kind == "w":
                youngest += 1
                name, written = str(youngest), [youngest % slots, *draw(st.sets(st.integers(0, slots - 1), max_size=1))]
            else:
                revisions += 1
                name, written = f"R{revisions}", [slot]
            done += [Operation("w", name, each) for each in dict.fromkeys(written)]
            open_writers.append(name)
        elif kind == "C" and open_writers:
            done.append(Operation("c", open_writers.pop(draw(st.integers(0, len(open_writers) - 1)))))
        elif query not in ended and kind in "ru":
            done.append(Operation("r" if kind == "r" else "u", query, slot))
        elif query not in ended and kind in "ca":
            done.append(Operation("c" if kind == "c" else "a", query))
            ended.add(query)
        if open_writers and draw(st.booleans()):
            done.append(Operation("c", open_writers.pop()))
    return History(slots, slots - 1, tuple(done))


def serialization_graph(history: History) -> set[Edge]:
    """By the definition: every pair of operations in conflict. Quadratic; for histories to look at."""
    operations = [each for _, each in effective(history)]
    return {
        (first.transaction, second.transaction)
        for place, first in enumerate(operations)
        for second in operations[place + 1 :]
        if first.slot == second.slot and "w" in (first.kind, second.kind) and first.transaction != second.transaction
    }


def serialization_orders(history: History) -> Iterator[tuple[str, ...]]:
    """Every serial order of the committed transactions that is equivalent to the history."""
    edges = serialization_graph(history)

    def orders(left: frozenset[str]) -> Iterator[tuple[str, ...]]:
        if not left:
            yield ()
        for first in sorted(left):
            if not any(after == first and before in left for before, after in edges):
                for rest in orders(left - {first}):
                    yield (first, *rest)

    return orders(frozenset(history.committed()))
