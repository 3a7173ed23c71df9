"""What a registration costs, and the micro-batch after it, does not depend on how many queries there are."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sash.catalog import Stream
from sash.runtime.continuous.plans import Plans
from sash.schedule import policies
from tests.support.numpy_pass import NumpyPipeline
from tests.support.sparkless_session import SparklessSession
from tests.work.counting import Calls, Disk, calls, disk
from tests.work.packets import PacketSession

KEYS = ("src", "dst", "protocol", "port", "protocol, port", "src, port", "")
AGGREGATES = (
    "SUM(length) AS bytes",
    "COUNT(*) AS packets",
    "AVG(length) AS mean",
    "MAX(length) AS longest, MIN(length) AS shortest",
    "SUM(length) AS bytes, COUNT(*) AS packets",
)
CONDITIONS = ("", "WHERE port = {n}", "WHERE length > {n}", "WHERE protocol = {n}")
# These have every key, every aggregate and every condition.
FORMS = range(8)
FEW, MANY = 10, 1_000
# Nothing is to grow. A tenth is for caches that the first queries of a form fill.
GROWTH = 1.1


def text(number: int, form: int) -> str:
    """A query of one of 140 forms; its window and its condition are those of its number."""
    key, aggregate = KEYS[form % len(KEYS)], AGGREGATES[form % len(AGGREGATES)]
    window = 20 + number % 81
    where = CONDITIONS[form % len(CONDITIONS)].format(n=number)
    over = f"packets [WINDOW {window} sec SLIDE {1 + number % (window // 2)} sec]"
    if not key:
        return f"SELECT {aggregate} FROM {over} {where}"
    return f"SELECT {key}, {aggregate} FROM {over} {where} GROUP BY {key}"


def fill(session: PacketSession, number: int) -> None:
    for each in range(len(session.queries), number):
        session.register(text(each, each), f"q{each}")


Costs = dict[str, tuple[Calls, Disk]]


def counted(call: Callable[[], object]) -> tuple[Calls, Disk]:
    with calls() as called, disk() as stepped:
        call()
    return called, stepped


def costs(session: PacketSession, seed: int) -> Costs:
    """The cost of registering queries of some forms, and of dropping them again."""
    found: Costs = {}
    for form in FORMS:
        # No other query has this number, so the shape is new. All such texts are equally long.
        new = text(10_000 + 1_000 * form + seed, form)
        found[f"register a new shape, form {form}"] = counted(partial(session.register, new, "new"))
        found[f"register a known shape, form {form}"] = counted(partial(session.register, new, "known"))
        found[f"drop a known shape, form {form}"] = counted(partial(session.drop_query, "known"))
        found[f"drop a new shape, form {form}"] = counted(partial(session.drop_query, "new"))
    return found


def check(few: Costs, many: Costs) -> None:
    assert few.keys() == many.keys() and len(few) == 4 * len(FORMS)
    for what, (called, _) in many.items():
        before = few[what][0]
        assert called.total <= GROWTH * before.total, f"{what}: {called.dearest(before)}"


def test_before_a_stream_has_begun() -> None:
    with PacketSession() as session:
        fill(session, FEW)
        few = costs(session, seed=1)
        fill(session, MANY)
        check(few, costs(session, seed=2))


def test_while_a_stream_runs_with_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the panes have what a query reads, it is answered at once; that, too, costs the same."""
    # Syncs are counted, and need not take their time.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    with PacketSession(checkpoint=tmp_path) as session:
        found = []
        for number in (FEW, MANY):
            fill(session, number)
            for _ in range(3):
                session.go_on()
            found.append(costs(session, seed=number % 7))
        few, many = found
        check(few, many)
        for what, (_, stepped) in many.items():
            # A line of the catalog is written and synced. Dropping removes what may have waited for the query's sinks.
            dropped = {"remove": 1} if what.startswith("drop") else {}
            assert stepped.steps == {"write": 1, "sync": 1, **dropped}, what
            # The line has the query's serial number and a checksum, which may have more digits by now.
            assert stepped.bytes <= few[what][1].bytes + 10, what


@pytest.mark.parametrize(
    "text",
    [
        "SELECT c3, SUM(c5) AS total FROM wide [WINDOW 60 sec] WHERE c7 > 0 GROUP BY c3",
        "SELECT a.c3, b.c5 FROM wide [WINDOW 60 sec] a JOIN wide [WINDOW 20 sec] b USING (c3)",
    ],
)
def test_a_registration_does_not_look_at_columns_that_it_does_not_name(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plans, "attach", lambda plans, query, mates=(): None)
    found = []
    for width in (10, 400):
        with SparklessSession() as session:
            columns = [
                pa.field("ts", pa.timestamp("us", "UTC")),
                *(pa.field(f"c{n}", pa.int64()) for n in range(width)),
            ]
            session.declare(Stream("wide", pa.schema(columns), "ts"), NumpyPipeline)
            session.register(text, "first")
            with calls() as called:
                session.register(text, "second")
            found.append(called)
    few, many = found
    assert many.total <= few.total, many.dearest(few)


# -- the micro-batch after it --------------------------------------------------------------------------

COLUMNS = ("src", "dst", "protocol", "port", "length")
SETS = [", ".join(some) for size in range(1, 6) for some in itertools.combinations(COLUMNS, size) if some != ("port",)]
# As many groups of queries as there are others, beside the one by port.
GROUPS = SETS[:20]


def sums(key: str, number: int) -> str:
    """A sum over a window of its own. It is due at multiples of ten seconds."""
    window = f"[WINDOW {20 + number} sec SLIDE {10 * (1 + number % 9)} sec]"
    return f"SELECT {key}, SUM(length) AS bytes FROM packets {window} GROUP BY {key}"


def after_registration(in_group: int, in_others: int, policy: str = "conservative") -> dict[str, Calls]:
    """What micro-batches cost in which nothing is due: without a change, after a registration, after a drop."""
    found = {}
    # Plans that another session has made would cost nothing here.
    policies.hybrid_periods.cache_clear()
    with PacketSession(policy=policy) as session:
        for number in range(in_others):
            for place, key in enumerate(GROUPS):
                session.register(sums(key, number), f"other_{place}_{number}")
        for number in range(in_group):
            session.register(sums("port", number), f"q{number}")
        session.go_on(12)
        with calls() as found["nothing"]:
            session.go_on()
        session.register(sums("port", in_group), "more")
        with calls() as found["registration"]:
            session.go_on()
        session.drop_query("more")
        with calls() as found["drop"]:
            session.go_on()
        session.register(sums("port", in_group).replace("SUM", "MAX"), "another_aggregate")
        with calls() as found["another aggregate"]:
            session.go_on()
        session.register(sums("src, dst, protocol, port, length", in_group), "another_group")
        with calls() as found["another group"]:
            session.go_on()
    return found


@pytest.mark.parametrize("policy", ["conservative", "hybrid-late-pending"])
def test_the_next_micro_batch_leaves_other_groups_alone(policy: str) -> None:
    """With 20 groups of 50 queries beside it instead of 20 groups of 5, the same is done."""
    few, many = (after_registration(10, others, policy) for others in (5, 50))
    for what, called in many.items():
        # One in a hundred, for the cost of a dictionary or a list that has grown.
        assert called.total <= 1.01 * few[what].total, f"{what}: {called.dearest(few[what])}"


def test_the_next_micro_batch_costs_a_little_for_each_query_of_the_group() -> None:
    """The synopsis is chosen anew and costs are estimated anew, for each query of the group once: 50 to 54 calls."""
    few, many = (after_registration(number, 0) for number in (100, 300))
    assert many["nothing"].total <= 1.01 * few["nothing"].total, many["nothing"].dearest(few["nothing"])
    for what in ("registration", "drop", "another aggregate"):
        called, before = many[what], few[what]
        assert called.total - before.total <= 60 * (300 - 100), f"{what}: {called.dearest(before)}"


# -- continuous queries --------------------------------------------------------------------------------


def test_a_continuous_query_finds_its_like_without_asking_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a registration but the start of the plan's work, which takes Spark."""
    monkeypatch.setattr(Plans, "attach", lambda plans, query, mates=(): None)
    forms = (
        "SELECT DISTINCT src FROM packets [WINDOW {n} sec]",
        "SELECT src, dst FROM packets [WINDOW 60 sec] WHERE length > {n}",
        "SELECT src, COUNT(*) AS n FROM packets [WINDOW {n} sec] GROUP BY src",
    )
    with PacketSession() as session:
        found = []
        for beside in (FEW, 300):
            for number in range(len(session.queries), beside):
                session.register(forms[number % len(forms)].format(n=1_000 + number), f"q{number}")
            called: dict[str, Calls] = {}
            for place, form in enumerate(forms):
                new = form.format(n=5_000 + beside)
                with calls() as called[f"a new plan {place}"]:
                    session.register(new, "new")
                with calls() as called[f"a known plan {place}"]:
                    session.register(new, "known")
                assert session.catalog.query("known").state == session.catalog.query("new").state
                with calls() as called[f"drop {place}"]:
                    session.drop_query("known")
                session.drop_query("new")
            found.append(called)
        few, many = found
        for what, counted in many.items():
            assert counted.total <= GROWTH * few[what].total, f"{what}: {counted.dearest(few[what])}"
