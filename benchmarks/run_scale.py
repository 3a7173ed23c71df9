"""Ten thousand queries: what it takes to register one, and to decide which of them to execute.

    python -m benchmarks.run_scale                          10,000 queries in 100 groups, a minute or two
    python -m benchmarks.run_scale --quick                  1,000 queries

Queries are registered through the session, on a stream that is not running: sums over windows of their own, by one of
100 columns, so that there are 100 groups of synopses. Then all are scheduled, and for each update decisions are made
until nothing is due; nothing is executed.

    registration   parse, plan, catalog, for each query
    taking in      all queries into the runtime at once, before the first micro-batch; and one more, later
    beginning      the first micro-batch, of one tuple: everybody is scheduled, all periods are planned
    decision       which group's turn it is (`SharedTime`), which of its tasks (`decide`), and their next deadlines
    service        the engine's whole way from one execution to the next: who is due, decision, bookkeeping

Times are means and 99th percentiles. Writes benchmarks/out/scale.json.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import sash
from benchmarks.engines import shared_session
from benchmarks.packet_panes import SECOND, START, pass_over
from sash.catalog import Catalog, RegisteredQuery, Stream
from sash.core.clock import ManualClock
from sash.runtime.compiler import CompiledQuery, compile_query
from sash.runtime.periodic.active import AdvanceOutcome
from sash.runtime.periodic.advance import Advance
from sash.runtime.periodic.pace import UntilNext
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.session import Session
from sash.runtime.settings import Settings
from sash.schedule import SharedTime

OUT = Path(__file__).parent / "out"
GROUPS = 100
POLICIES = ("conservative", "hybrid-late-pending")
UPDATES = 100
MOST_DECISION_US, MOST_REGISTRATION_MS = 100.0, 10.0


def texts(queries: int) -> Iterator[str]:
    """In each group, windows of different lengths: identical queries would be scheduled once."""
    chance = random.Random(1)
    for number in range(queries):
        column, window = number % GROUPS, 20 + number // GROUPS
        yield (
            f"SELECT c{column}, SUM(length) AS bytes FROM wide "
            f"[WINDOW {window} sec SLIDE {chance.randint(1, window // 2)} sec] GROUP BY c{column}"
        )


def wide_session() -> Session:
    session = sash.connect(spark=shared_session())
    columns = ", ".join(f"0 AS c{number}" for number in range(GROUPS))
    frame = shared_session().sql(f"SELECT current_timestamp() AS ts, 0 AS length, {columns}")
    session.create_stream("wide", frame, "ts")
    return session


def compiled(queries: int) -> tuple[Stream, list[CompiledQuery]]:
    """The stream and its queries, without a session and without Spark."""
    columns = [("length", pa.int32()), *((f"c{number}", pa.int32()) for number in range(GROUPS))]
    stream = Stream("wide", pa.schema([("ts", pa.timestamp("us", "UTC")), *columns]), "ts")
    known = Catalog()
    known.add_stream(stream)
    registered = [RegisteredQuery(f"q{i}", text, "wide", serial=i) for i, text in enumerate(texts(queries))]
    return stream, [compile_query(query, known) for query in registered]


def registration(session: Session, queries: int) -> dict[str, Any]:
    """Milliseconds for each query; the first tenth beside the last, to see whether it grows."""
    took = []
    for number, text in enumerate(texts(queries)):
        begun = time.perf_counter()
        session.register(text, f"q{number}")
        took.append(1e3 * (time.perf_counter() - begun))
    tenth = max(1, queries // 10)
    return {
        **summary(took, "registration_ms"),
        "first_tenth_ms": float(np.mean(took[:tenth])),
        "last_tenth_ms": float(np.mean(took[-tenth:])),
    }


def summary(values: list[float], name: str) -> dict[str, float]:
    return {name: float(np.mean(values)), f"{name}_p99": float(np.percentile(values, 99))}


class Scheduled:
    """All queries in a runtime whose data have begun."""

    def __init__(self, stream: Stream, queries: list[CompiledQuery], policy: str) -> None:
        self.runtime = StreamRuntime(stream, Settings(policy))
        self.taking_in_s = seconds(lambda: self.runtime.synchronise(queries[:-1]))
        packets = {name: np.zeros(1, dtype=np.int64) for name in ("length", *(f"c{n}" for n in range(GROUPS)))}
        facts = pass_over(packets, self.runtime.tables(), START)
        self.beginning_s = seconds(lambda: self.runtime.apply(facts))
        self.one_more_s = seconds(lambda: self.runtime.synchronise(queries))

    def decisions(self, updates: int) -> list[float]:
        """Microseconds for each; whose turn it is by shares of the time, where everything costs the same."""
        took, shares = [], SharedTime()
        schedulers = {group.label: group.schedule.local for group in self.runtime.groups.values()}
        for now in range(START + 2 * SECOND, START + (2 + updates) * SECOND, SECOND):
            while backlog := [label for label, each in schedulers.items() if each.next_due(now) is not None]:
                begun = time.perf_counter()
                chosen = shares.choose(backlog)
                execution = schedulers[chosen].decide(now)
                assert execution is not None
                schedulers[chosen].done(execution)
                took.append(1e6 * (time.perf_counter() - begun))
                shares.charge(chosen, 1.0)
        return took

    def services(self, updates: int) -> float:
        """Microseconds from one execution to the next, when executions take no time."""
        groups, count, spent = self.runtime.ordered(), 0, 0.0
        shares, begin = SharedTime(), max(group.clock.position for group in groups)
        for now in range(begin + SECOND, begin + (1 + updates) * SECOND, SECOND):
            advance = Advance(
                groups, [now] * len(groups), lambda queries, as_of, served: 0.0, AdvanceOutcome(), lambda: None
            )
            spent += seconds(partial(advance.go, UntilNext(ManualClock(), 1.0), shares))
            count += len(advance.services)
        return 1e6 * spent / max(1, count)


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def scheduling(stream: Stream, queries: list[CompiledQuery], policy: str, updates: int) -> dict[str, Any]:
    scheduled = Scheduled(stream, queries, policy)
    service = scheduled.services(max(1, updates // 10))
    decisions = scheduled.decisions(updates)
    tasks = sum(len(group.schedule.local.tasks()) for group in scheduled.runtime.groups.values())
    return {
        "policy": policy,
        "tasks": tasks,
        "decisions": len(decisions),
        **summary(decisions, "decision_us"),
        "service_us": service,
        "taking_in_s": scheduled.taking_in_s,
        "one_more_s": scheduled.one_more_s,
        "beginning_s": scheduled.beginning_s,
    }


def table(results: dict[str, Any]) -> None:
    shown = Table(title=f"{results['queries']:,} queries in {GROUPS} groups")
    for column in ("what", "mean", "99th percentile", "wanted", "so?"):
        shown.add_column(column, justify="left" if column == "what" else "right")
    mean = results["registration_ms"]
    p99 = f"{results['registration_ms_p99']:.2f} ms"
    shown.add_row("registration", f"{mean:.2f} ms", p99, "< 10 ms", _so(mean < MOST_REGISTRATION_MS))
    shown.add_row("  the first tenth", f"{results['first_tenth_ms']:.2f} ms")
    shown.add_row("  the last tenth", f"{results['last_tenth_ms']:.2f} ms")
    for each in results["scheduling"]:
        mean, p99, name = each["decision_us"], f"{each['decision_us_p99']:.0f} µs", each["policy"]
        shown.add_row(f"decision, {name}", f"{mean:.0f} µs", p99, "< 100 µs", _so(mean < MOST_DECISION_US))
        shown.add_row(f"  service, {name}", f"{each['service_us']:.0f} µs")
        shown.add_row("  taking all in, one more", f"{each['taking_in_s']:.2f} s, {1e3 * each['one_more_s']:.0f} ms")
        shown.add_row("  the first micro-batch", f"{each['beginning_s']:.2f} s")
    Console(width=120).print(shown)


def _so(holds: bool) -> str:
    return "yes" if holds else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000, help="how many (default %(default)s)")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates to decide for (default %(default)s)")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    parser.add_argument("--quick", action="store_true", help="1,000 queries, nothing written")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON, on one line")
    arguments = parser.parse_args()
    number = 1_000 if arguments.quick else arguments.queries
    say(f"registering {number:,} queries ...")
    with wide_session() as session:
        results: dict[str, Any] = {"queries": number, **registration(session, number), "scheduling": []}
    stream, queries = compiled(number)
    for policy in arguments.policies:
        say(f"scheduling them, {policy} ...")
        results["scheduling"].append(scheduling(stream, queries, policy, arguments.updates))
    if not arguments.quick:
        OUT.mkdir(exist_ok=True)
        (OUT / "scale.json").write_text(json.dumps(results, indent=1))
    if arguments.json:
        print(json.dumps(results))
    else:
        table(results)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
