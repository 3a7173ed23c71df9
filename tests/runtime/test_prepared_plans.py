"""The plan of a continuous query is looked for without the session's lock, and used if nothing has changed since."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sash.catalog import Catalog, Stream
from sash.plan.choice import best_plans
from sash.plan.continuous import Node
from sash.plan.estimates import Statistics
from sash.runtime.compiler import as_select
from sash.runtime.continuous import continuous_queries
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.records.catalog_history import CatalogHistory
from sash.runtime.route import RouteDecision, route
from sash.runtime.session_parts import SessionParts
from sash.sql import Select, bind

JOIN = as_select("SELECT a.k FROM s [RANGE 1 min] a, s [RANGE 1 min] b WHERE a.k = b.k")


class CountedLock:
    """A lock for one thread; `depth` says how often it is held."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1


class Session:
    """As much of one as it takes; `held` says of each search for plans whether the lock was held."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lock: Any = CountedLock()
        self.catalog = Catalog()
        self.statistics = Statistics()
        self.held: list[bool] = []
        self.create(pa.int32())
        self.streams: Any = {"s": SimpleNamespace(runtime=SimpleNamespace(latest=None, watermark=None))}
        plans: Any = SimpleNamespace(observed=[], taken_back={})
        self.queries = ContinuousQueries(
            SessionParts(self.catalog, CatalogHistory(), None, streams=self.streams), plans
        )
        monkeypatch.setattr(continuous_queries, "measured", lambda *given: self.statistics)
        monkeypatch.setattr(continuous_queries, "best_plans", self._found)
        monkeypatch.setattr("sash.plan.choice.best_plans", self._found)

    def create(self, type: pa.DataType) -> None:
        schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", type)])
        self.catalog.add_stream(Stream("s", schema, "ts"))

    def _found(self, written: Node, known: Statistics) -> dict[str, Node]:
        self.held.append(self.lock.depth > 0)
        return best_plans(written, known)

    def plan(self, select: Select = JOIN) -> RouteDecision:
        return route(bind(select, self.catalog))

    def register(self) -> Node:
        with self.lock:
            return self.queries.decide(self.plan()).choice.plan


def test_the_lock_is_not_held_while_plans_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch)
    session.queries.prepare(session.plan(), session.lock)
    prepared = session.register()
    assert session.held == [False]
    assert prepared == Session(monkeypatch).register()


def test_a_plan_of_before_is_not_used_when_the_stream_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch)
    session.queries.prepare(session.plan(), session.lock)
    session.catalog.drop_stream("s")
    session.create(pa.string())
    assert session.register().schema.field("k").type == pa.string()
    assert session.held == [False, True]


def test_a_plan_of_before_is_not_used_when_more_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch)
    session.queries.prepare(session.plan(), session.lock)
    session.statistics = Statistics(rates={"s": 5.0})
    session.register()
    assert session.held == [False, True]


def test_what_is_wrong_with_a_query_is_said_when_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(monkeypatch)
    plan = session.plan()
    session.catalog.drop_stream("s")
    session.streams.clear()
    session.queries.prepare(plan, session.lock)
    assert session.held == []
