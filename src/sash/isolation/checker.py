"""Classifies a history: serializable, window-serializable, latest-window-serializable, commit-order preserving.

    serializable   the serialization graph has no cycle: an edge goes from the transaction of an operation to that of
                   a later one in conflict with it (same slot, at least one of them a write)
    WS             every committed query has read a state of the window at some time up to its commit (definition 7.1)
    LWS            ... as it was at its commit (definition 7.2)
    CPS            operations in conflict are ordered like the commits of their transactions (section 7.6)

Serializable is not enough: a query that reads one slot before slide 5 and another after slide 6 has an acyclic graph,
and has read a window that never was. So WS and LWS compare the reads with the states of the window, one after each
write: the version of each of the youngest sub-windows. That covers windows shorter than the stored one (a query of n_k
reads is one over the n_k youngest) and revisions; the conditions on the graph (theorems 7.1, 7.2) do not.

LWS has two readings: the state at a commit has every write executed by then (definition 7.2 as the thesis uses it), or
only those committed by then. If writes commit at once, both are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from sash.isolation.history import History, effective, is_slide

Edge = tuple[str, str]
# The version that a query has read of each slot.
StateRead = dict[int, str]


@dataclass(frozen=True)
class Verdict:
    serializable: bool
    ws: bool
    lws: bool
    cps: bool
    lws_by_committed_state: bool


@dataclass(frozen=True)
class QueryVerdict:
    """One committed query: its reads, and the slide after which the window was so (None: never)."""

    query: str
    state_read: StateRead
    state_after: int | None
    ws: bool
    lws: bool
    lws_by_committed_state: bool
    snapshot_of_start: bool


def classify(history: History) -> Verdict:
    """The verdict. Time: a little more than linear in the history.

    >>> classify(History.parse("rQ1[0] w2[0] c2 rQ1[1] cQ1", slots=2))
    Verdict(serializable=True, ws=True, lws=False, cps=False, lws_by_committed_state=False)
    """
    nearest = nearest_edges(history)
    queries = list(judge_queries(history))
    return Verdict(
        is_acyclic(nearest),
        all(each.ws for each in queries),
        all(each.lws for each in queries),
        preserves_commit_order(history, nearest),
        all(each.lws_by_committed_state for each in queries),
    )


# --- the graph ------------------------------------------------------------------------------------------------------


def nearest_edges(history: History) -> set[Edge]:
    """The edges between neighbours in a slot, whose transitive closure has all the others.

    A read comes after the write before it and before the write after it, and writes come after one another.
    """
    edges: set[Edge] = set()
    writer: dict[int | None, str] = {}
    readers: dict[int | None, list[str]] = {}
    for _, each in effective(history):
        before = [writer[each.slot]] if each.slot in writer else []
        if each.kind == "w":
            before += readers.pop(each.slot, [])
            writer[each.slot] = each.transaction
        else:
            readers.setdefault(each.slot, []).append(each.transaction)
        edges.update((other, each.transaction) for other in before if other != each.transaction)
    return edges


def is_acyclic(edges: set[Edge]) -> bool:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for before, after in edges:
        sorter.add(after, before)
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True


def preserves_commit_order(history: History, edges: set[Edge]) -> bool:
    commit = {each.transaction: place for place, each in enumerate(history.operations) if each.kind == "c"}
    return all(commit[before] < commit[after] for before, after in edges)


# --- the states -----------------------------------------------------------------------------------------------------


@dataclass
class _States:
    """The states of a window, numbered; each version is there during an interval of them."""

    history: History
    # The youngest sub-window in each state.
    youngest: list[int] = field(default_factory=list)
    # By slot: the version there now, and since which state.
    current: list[tuple[str, int]] = field(default_factory=list)
    # By slot and version: the states that have it, end exclusive; current versions are left out.
    past: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.youngest = [self.history.filled]
        self.current = [(version, 0) for version in self.history.initial()]

    @property
    def latest(self) -> int:
        return len(self.youngest) - 1

    def write(self, transaction: str, slot: int, new_state: bool) -> None:
        """Write; all writes of one step of a transaction make one state."""
        if new_state:
            self.youngest.append(int(transaction) if is_slide(transaction) else self.youngest[-1])
        version, since = self.current[slot]
        if since < self.latest:
            self.past[slot, version] = (since, self.latest)
        self.current[slot] = (transaction, self.latest)

    def matching(self, read: StateRead) -> Iterator[int]:
        """The states whose youngest sub-windows, as many as were read, are the ones that were read."""
        first, end = 0, len(self.youngest)
        for slot, version in read.items():
            now, since = self.current[slot]
            since, until = (since, end) if now == version else self.past.get((slot, version), (end, end))
            first, end = max(first, since), min(end, until)
        for state in range(first, end):
            if {number % self.history.slots for number in self.youngest_numbers(state, len(read))} == read.keys():
                yield state

    def youngest_numbers(self, state: int, count: int) -> range:
        return range(self.youngest[state] - count + 1, self.youngest[state] + 1)


class _CommittedState:
    """The window as of the commits: the latest write to each slot whose transaction has committed."""

    def __init__(self, history: History) -> None:
        self._slots = history.slots
        self._youngest = history.filled
        self._versions = [(-1, version) for version in history.initial()]
        self._open: dict[str, list[tuple[int, int]]] = {}

    def write(self, transaction: str, slot: int, place: int) -> None:
        self._open.setdefault(transaction, []).append((slot, place))

    def commit(self, transaction: str) -> None:
        for slot, place in self._open.pop(transaction, []):
            self._versions[slot] = max(self._versions[slot], (place, transaction))
            if is_slide(transaction):
                self._youngest = max(self._youngest, int(transaction))

    def is_as(self, read: StateRead) -> bool:
        youngest = {number % self._slots for number in range(self._youngest - len(read) + 1, self._youngest + 1)}
        return youngest == read.keys() and all(self._versions[slot][1] == version for slot, version in read.items())


def judge_queries(history: History) -> Iterator[QueryVerdict]:
    """Every committed query that has read something, in the order of commits."""
    counted = {place for place, each in effective(history) if each.kind == "r"}
    states, committed = _States(history), _CommittedState(history)
    read: dict[str, StateRead] = {}
    started: dict[str, int] = {}
    writing = ""
    for place, (kind, transaction, slot) in enumerate(history.operations):
        if kind == "w" and slot is not None:
            states.write(transaction, slot, new_state=transaction != writing)
            committed.write(transaction, slot, place)
        elif kind == "r" and slot is not None:
            started.setdefault(transaction, states.latest)
            if place in counted:
                read.setdefault(transaction, {})[slot] = states.current[slot][0]
        elif kind == "c":
            committed.commit(transaction)
            if transaction in read:
                yield _judge(states, committed, transaction, read.pop(transaction), started[transaction])
        writing = transaction if kind == "w" else ""


def _judge(states: _States, committed: _CommittedState, query: str, read: StateRead, started: int) -> QueryVerdict:
    matching = list(states.matching(read))
    return QueryVerdict(
        query,
        read,
        state_after=states.youngest[matching[-1]] if matching else None,
        ws=bool(matching),
        lws=states.latest in matching,
        lws_by_committed_state=bool(matching) and committed.is_as(read),
        snapshot_of_start=started in matching,
    )
