"""Questions from many threads while panes slide and are revised, under every level.

Each pane holds numbers that tell it from all others, so an answer says which panes it was made of. What was taken and
when it was good is written down as a history, and the history is judged. Threads meet at events, never at times.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sash.catalog import Catalog
from sash.core.time import SECOND
from sash.isolation import ISOLATION_LEVELS, History, classify, isolation
from sash.isolation.history import Kind, Operation
from sash.panes.pane_rows import BatchFacts, PaneRows
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes
from sash.runtime.periodic.onetime import PaneLookup, look_up
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.settings import Settings
from sash.sql import bind
from tests.support.duck_pass import aggregate
from tests.support.feed import compiled
from tests.support.streams import START, stream, to_table
from tests.support.threads import PATIENCE, join, start

WINDOW, PANES, READERS, KEYS = 8, 250, 4, (1, 2, 3)
AGGREGATES = "SUM(w) AS t, MIN(w) AS lo, MAX(w) AS hi, COUNT(*) AS n"
REGISTERED = {
    "by_key": f"SELECT k, {AGGREGATES} FROM s [WINDOW 8 sec SLIDE 1 sec] GROUP BY k",
    "total": "SELECT SUM(w) AS t, COUNT(DISTINCT v) AS d FROM s [WINDOW 8 sec SLIDE 1 sec]",
}
# One reads one pane table, by a scan or from an interval synopsis; the other reads two.
BY_KEY = f"SELECT k, {AGGREGATES} FROM s [WINDOW 8 sec] GROUP BY k ORDER BY k"
TOTAL = "SELECT SUM(w) AS t, COUNT(DISTINCT v) AS d FROM s [WINDOW 8 sec]"

Rows = dict[int, list[tuple[int, int]]]  # by pane: key and value


@dataclass
class Log:
    """The history of one question's window; slides and revisions are written under the lock."""

    text: str
    question: CompiledQuery
    group: PaneGroup
    youngest: int = WINDOW - 1
    revisions: int = 0
    operations: list[Operation] = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)
    # The oracle: the answer of each state of the window.
    states: dict[tuple[int, int], list[dict[str, Any]]] = field(default_factory=dict)

    def did(self, kind: Kind, who: str, slot: int | None = None) -> int:
        with self.guard:
            self.operations.append(Operation(kind, who, slot))
            return len(self.operations) - 1

    def aborted(self, place: int) -> None:
        with self.guard:
            self.operations[place] = self.operations[place]._replace(kind="a")

    def catch_up(self, rows: Rows, revised: int | None) -> None:
        """Record the changes of the panes since."""
        reached = None if self.group.clock.now is None else (self.group.clock.now - START) // SECOND
        if revised is not None:
            self.revisions += 1
            self.did("w", f"R{self.revisions}", revised % WINDOW)
            self.did("c", f"R{self.revisions}")
        while reached is not None and self.youngest < reached:
            self.youngest += 1
            self.did("w", str(self.youngest), self.youngest % WINDOW)
            self.did("c", str(self.youngest))
        self.states[self.youngest, self.revisions] = expected(self.text, rows, self.youngest)

    @property
    def history(self) -> History:
        return History(WINDOW, WINDOW - 1, tuple(self.operations))


def expected(text: str, rows: Rows, youngest: int) -> list[dict[str, Any]]:
    """From scratch."""
    inside = [each for pane in range(youngest - WINDOW + 1, youngest + 1) for each in rows[pane]]
    if text == TOTAL:
        return [{"t": sum(value for _, value in inside), "d": len({value for _, value in inside})}]
    by_key = {key: [value for k, value in inside if k == key] for key in KEYS}
    return [{"k": k, "t": sum(v), "lo": min(v), "hi": max(v), "n": len(v)} for k, v in by_key.items()]


class Written:
    """What a question has taken, written down: when it was taken, and when it was good or not."""

    def __init__(self, lookup: PaneLookup, log: Log, who: str) -> None:
        self._lookup, self._log, self._who = lookup, log, who
        self.state = log.youngest, log.revisions
        self._place = 0
        for slot in range(WINDOW):
            log.did("r", who, slot)

    def compute(self) -> tuple[Answer, Written]:
        answer = self._lookup.compute()
        # Good until the comparison that follows says otherwise: what is as it was then, was so here.
        self._place = self._log.did("c", self._who)
        return answer, self

    @property
    def is_good(self) -> bool:
        return self._log.operations[self._place].kind == "c"

    def is_latest(self) -> bool:
        if self._lookup.is_latest():
            return True
        self._log.aborted(self._place)
        return False


class Engine:
    """A runtime that is slid by one thread and asked by others, as a session does."""

    def __init__(self, level: str, synopsis: str | None) -> None:
        self.level = isolation(level)
        self.declared = stream(late_revise=True)
        self.runtime = StreamRuntime(self.declared, Settings("conservative"), self._pause)
        by_key = compiled({"by_key": REGISTERED["by_key"]}, self.declared, synopsis)
        self.runtime.synchronise([*by_key, *compiled({"total": REGISTERED["total"]}, self.declared)])
        self.rows: Rows = {}
        # Every pane's tuples, and one that comes too late for it, as Spark's pass would bring them.
        self._tuples = self._facts([(pane, k, 10 * pane + k) for pane in range(PANES + 1) for k in KEYS])
        self._late = self._facts([(pane, 1, 1_000_000 + pane) for pane in range(PANES + 1)])
        self._revised: int | None = None
        self.logs: list[Log] = []
        for pane in range(WINDOW + 1):
            self.slide([pane], None)
        catalog = Catalog()
        catalog.add_stream(self.declared)
        for text in (BY_KEY, TOTAL):
            question = compile_panes(bind(as_select(text), catalog), "(one-time)", one_time=True)
            log = Log(text, question, self.runtime.groups[question.readings[0].table])
            log.catch_up(self.rows, None)
            self.logs.append(log)

    def slide(self, panes: list[int], revised: int | None) -> None:
        late = [] if revised is None else [revised]
        lanes = [*part(self._tuples, panes), *part(self._late, late)]
        with self.level.slide():
            for pane in panes:
                self.rows[pane] = [(k, 10 * pane + k) for k in KEYS]
            for pane in late:
                self.rows[pane].append((1, 1_000_000 + pane))
            self._revised = revised
            self.runtime.apply(BatchFacts(len(panes), START + panes[-1] * SECOND, 0, 0, lanes))
            self._write_down()

    def _facts(self, rows: list[tuple[int, int, int]]) -> BatchFacts:
        table = to_table([(START + pane * SECOND, k, None, value, value, None) for pane, k, value in rows])
        return aggregate(self.declared, self.runtime.tables(), table)

    def _pause(self) -> None:
        self._write_down()
        self.level.give_way()

    def _write_down(self) -> None:
        for log in self.logs:
            log.catch_up(self.rows, self._revised)
        self._revised = None

    def ask(self, log: Log, who: str) -> tuple[Answer, Written]:
        attempts = iter(range(1_000))
        while (found := self.level.taking(partial(self._take, log, who, attempts))) is None:
            pass
        return found

    def _take(self, log: Log, who: str, attempts: Iterator[int]) -> Written | None:
        if self.runtime.is_between(log.question):
            return None
        return Written(look_up(log.question, self.runtime), log, f"Q{who}x{next(attempts)}")


def part(facts: BatchFacts, panes: list[int]) -> list[tuple[int, PaneRows, np.ndarray]]:
    """The lanes of some panes alone."""
    ends = [START + pane * SECOND for pane in panes]
    found = []
    for number, rows, counts in facts.lanes:
        mine = np.isin(rows.ends, ends)
        keys = [column.filter(pa.array(mine)) for column in rows.keys]
        lifted = {each: [column.filter(pa.array(mine)) for column in parts] for each, parts in rows.lifted.items()}
        found.append((number, PaneRows(rows.length, rows.ends[mine], keys, lifted, rows.latest[mine]), counts[mine]))
    return found


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("synopsis", [None, "interval"])
@pytest.mark.parametrize("level", list(ISOLATION_LEVELS))
def test_every_answer_is_a_window_that_the_level_allows(level: str, synopsis: str | None) -> None:
    engine, stop = Engine(level, synopsis), threading.Event()

    def read(reader: int) -> int:
        log, asked, is_last = engine.logs[reader % 2], 0, False
        while not is_last:
            is_last = stop.is_set()
            answer, taken = engine.ask(log, f"{reader}n{asked}")
            assert taken.is_good and answer.table.to_pylist() == log.states[taken.state]
            asked += 1
        return asked

    with ThreadPoolExecutor(READERS) as pool:
        reads = [pool.submit(read, reader) for reader in range(READERS)]
        try:
            pane = WINDOW + 1
            while pane < PANES:
                panes = list(range(pane, pane + 1 + pane % 5 // 4))
                engine.slide(panes, pane - 4 if pane % 7 == 0 else None)
                pane = panes[-1] + 1
        finally:
            stop.set()
        assert all(future.result(PATIENCE) for future in reads)
    for log in engine.logs:
        verdict = classify(log.history)
        assert verdict.serializable and verdict.ws
        assert verdict.lws or level == "ws"


@pytest.mark.parametrize("level", [name for name in ISOLATION_LEVELS if name != "serial"])
def test_a_slide_does_not_wait_for_an_answer(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is computed once more under `lws` and `ttu`, and not under `ws`."""
    engine, original, computed = Engine(level, None), PaneLookup.compute, list[Answer]()

    def compute(lookup: PaneLookup) -> Answer:
        if not computed:
            join(start(lambda: engine.slide([WINDOW + 1], None)))
        computed.append(original(lookup))
        return computed[-1]

    monkeypatch.setattr(PaneLookup, "compute", compute)
    answer, taken = engine.ask(engine.logs[0], "1")
    youngest, _ = taken.state
    assert youngest == (WINDOW - 1 if level == "ws" else WINDOW) and len(computed) == (1 if level == "ws" else 2)
    assert answer.table.to_pylist() == expected(BY_KEY, engine.rows, youngest)
