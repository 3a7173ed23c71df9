"""A stream runtime fed without Spark: passes by DuckDB, numbers for row-based windows by sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.user_aggregate import UserAggregate
from sash.panes.pane_store import FILES
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery, compile_query
from sash.runtime.periodic.pace import UNHURRIED, Pace
from sash.runtime.periodic.stream_runtime import NumberedPartials, StreamRuntime
from sash.runtime.records.journal import GroupService
from sash.runtime.settings import Settings
from tests.support.duck_pass import aggregate
from tests.support.shelf import bring, bring_lists, move


def compiled(
    texts: dict[str, str], declared: Stream, synopsis: str | None = None, aggregates: Iterable[UserAggregate] = ()
) -> list[CompiledQuery]:
    catalog = Catalog()
    catalog.add_stream(declared)
    catalog.aggregates |= {aggregate.name: aggregate for aggregate in aggregates}
    queries = [RegisteredQuery(name, text, declared.name, synopsis=synopsis) for name, text in texts.items()]
    return [compile_query(query, catalog) for query in queries]


CONSERVATIVE = Settings("conservative")


class Gate:
    """Executions beside micro-batches wait here until it is opened."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def launch(self, jobs: Sequence[Callable[[], None]]) -> None:
        self._waiting += jobs

    def open(self, most: int | None = None) -> None:
        """Let all go on, or only so many."""
        going = self._waiting[:most]
        del self._waiting[:most]
        for job in going:
            job()


class Feed:
    """What `RunningStream` does with Spark: micro-batches in, answers out."""

    def __init__(
        self,
        declared: Stream,
        settings: Settings = CONSERVATIVE,
        flies: bool = False,
        files_lists: bool = False,
        restarts: bool = False,
    ) -> None:
        """`files_lists`: the open panes of short lists are in files; `flies`, `restarts`: as in `StreamRuntime`."""
        self.declared = declared
        self.files_lists = files_lists
        self.runtime = StreamRuntime(declared, settings, flies=flies, restarts=restarts)
        # How each micro-batch went: None where it was not hurried; and the flights that landed in it.
        self.services: list[list[list[GroupService]] | None] = []
        self.landed: list[list[int]] = []
        self.gate = Gate()
        self.pending: pa.Table | None = None

    def push(self, part: pa.Table, pace: Pace = UNHURRIED, landed: list[int] | None = None) -> list[Answer]:
        """`landed`: recovery repeats what landed."""
        groups = self.runtime.ordered()
        move(groups, self.files_lists)
        facts = aggregate(self.declared, self.runtime.tables(), part)
        watermark = self.runtime.next_watermark(facts)
        bring(groups, self.declared, part, lambda g: None if watermark is None else self.runtime.closes(g, watermark))
        numbered = self.number(part, watermark)
        self.landed.append(self.runtime.landing() if landed is None else landed)
        down = self.runtime.land(self.landed[-1])
        progress = self.runtime.conclude(down, self.runtime.apply(facts, numbered, pace))
        if landed is None:
            self.runtime.start_flights(self.gate.launch)
        assert not progress.outcome.failed, progress.outcome.failed
        self.services.append(progress.services)
        return progress.answers

    def finish(self, *, is_end: bool = True) -> list[Answer]:
        numbered = None if self.pending is None else self.number(self.pending.slice(0, 0), None)
        for group in self.runtime.ordered():
            if group.in_cluster and group.name.lists is not None:
                bring_lists(group, FILES.empty_table(), self.runtime.closes(group, None))
        self.runtime.start_flights(self.gate.launch)
        self.gate.open()
        down = self.runtime.land(self.runtime.landing())
        progress = self.runtime.conclude(down, self.runtime.finish(numbered, is_end=is_end))
        assert not progress.outcome.failed, progress.outcome.failed
        return progress.answers

    def number(self, part: pa.Table, watermark: int | None) -> NumberedPartials | None:
        tables = self.runtime.tables(by_rows=True)
        if not tables:
            self.pending = None
            return None
        seen = part if self.pending is None else pa.concat_tables([self.pending, part])
        seen = seen.filter(seen["_us"].is_valid())
        stamps = np.asarray(seen["_us"], dtype=np.int64)
        low = stamps.min(initial=0) if self.runtime.watermark is None else self.runtime.watermark
        passed = (stamps >= low) & (np.ones(len(stamps), dtype=bool) if watermark is None else stamps < watermark)
        self.pending = None if watermark is None else seen.filter(pa.array((stamps >= low) & ~passed))
        ready = seen.filter(pa.array(passed))
        order = np.argsort(stamps[passed], kind="stable")
        numbers = pa.array(np.arange(len(order)) + self.runtime.counted + 1)
        facts = aggregate(self.declared, tables, ready.take(pa.array(order)).append_column("_n", numbers))
        return NumberedPartials(facts, 0 if self.pending is None else len(self.pending))


def answers_of(
    declared: Stream,
    texts: dict[str, str],
    parts: list[pa.Table],
    synopsis: str | None = None,
    files_lists: bool = False,
) -> dict[str, list[Answer]]:
    """All answers of some queries over some micro-batches, by query."""
    feed = Feed(declared, files_lists=files_lists)
    feed.runtime.synchronise(compiled(texts, declared, synopsis))
    answers = [answer for part in parts for answer in feed.push(part)] + feed.finish()
    return {name: [answer for answer in answers if answer.query == name] for name in texts}
