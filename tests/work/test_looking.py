"""What looking at a session costs: EXPLAIN, stats(), metrics(), schedule() and a refresh of the page.

Counted are calls of Python functions within the package, at 100 and at 1,000 queries. Ten times as many queries may
cost ten times as many calls and not more, and a query no more calls than the table below has. What looking may hold up
is counted, too: the calls that are made while the lock of the micro-batches is held, for one pane table at a time.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sash.isolation import ISOLATION_LEVELS, Optimistic, Serial
from sash.schedule.subgroup import ScheduleGroup
from sash.server.page import answer_view, queries_view, schedule_view, sharing_view
from sash.server.watch import Watch
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream
from tests.work.counting import Calls, calls

FEW, MANY = 100, 1_000
# Ten times the queries: ten times the calls. What a look costs however few there are makes it less.
RATIO = 10.1


# -- populations: how the queries of a session are spread -----------------------------------------------
# With five slides at 100 queries and at 1,000: what a plan of a policy costs depends on their number.

KEYS = ["k", "g", "v", "w", "k, g", "k, v", "k, w", "g, v", "g, w", "v, w", "k, g, v", "k, g, w", "k, v, w", "g, v, w"]
KEYS += ["k % 2", "k % 3", "v % 2", "v % 3", "w % 2", "w % 3"]
AGGREGATES = ["SUM(v)", "COUNT(*)", "MAX(v)", "SUM(w)", "AVG(x)"]


def over_tables(tables: int, number: int) -> str:
    keys, number = KEYS[number % tables], number // tables
    window = f"[WINDOW {5 + number} sec SLIDE {1 + number % 5} sec]"
    return f"SELECT {keys}, SUM(v) AS a FROM s {window} GROUP BY {keys}"


def over_twenty_tables(number: int) -> str:
    return over_tables(len(KEYS), number)


def over_one_table(number: int) -> str:
    window = f"[WINDOW {1 + number // 5} sec SLIDE {1 + number // 5 % 5} sec]"
    return f"SELECT k, {AGGREGATES[number % 5]} AS a FROM s {window} GROUP BY k"


def identical(number: int) -> str:
    return f"SELECT k, SUM(v) AS a FROM s [WINDOW 20 sec SLIDE {1 + number % 5} sec] GROUP BY k"


def with_predicates(number: int) -> str:
    """Half of them can be put together from the others."""
    value = f"v = {number}" if number % 2 else f"v = {number + 1} OR v = {number + 3}"
    return f"SELECT k, SUM(v) AS a FROM s [WINDOW 20 sec SLIDE {1 + number % 5} sec] WHERE {value} GROUP BY k"


class CountedHoldings(Serial):
    """The level `serial`, under which every read holds the lock; under the others one does that could not do without.

    `holdings` are how many of `calls` were made in each; `between` is called after each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls = Calls()
        self.holdings: list[int] = []
        self.between: Callable[[], None] = lambda: None

    @contextmanager
    def read(self) -> Iterator[None]:
        before = self.calls.total
        with self.slide():
            yield
        self.holdings.append(self.calls.total - before)
        self.between()


def session_of(
    population: Callable[[int], str], number: int, level: CountedHoldings | Optimistic | None = None, batches: int = 4
) -> SparklessSession:
    name = "serial" if isinstance(level, Serial) else "ttu"
    with pytest.MonkeyPatch.context() as patch:
        if level is not None:
            patch.setitem(ISOLATION_LEVELS, name, lambda: level)
        session = SparklessSession(isolation=name)
    session.declare(stream())
    for each in range(number):
        session.register(population(each), f"q{each}")
    for each in range(batches):
        push(session, each)
    return session


def push(session: SparklessSession, batch: int) -> None:
    session.push("s", tuples(*((batch * 5 + each / 4, each % 4, each % 7) for each in range(20))))


@functools.cache
def cached(population: Callable[[int], str], number: int) -> tuple[SparklessSession, CountedHoldings]:
    level = CountedHoldings()
    return session_of(population, number, level, batches=0 if population is with_predicates else 4), level


# -- looks -----------------------------------------------------------------------------------------------

QUESTION = "SELECT k, SUM(v) AS a FROM s [WINDOW 9 sec] GROUP BY k"
QUERY = QUESTION.replace("9 sec", "9 sec SLIDE 3 sec")
COVERED = QUERY.replace("GROUP BY", "WHERE v = 5 OR v = 9 GROUP BY")


def page(session: SparklessSession) -> None:
    """What the watch, and all views that are open, ask for in one refresh."""
    watch = Watch(session)
    watch.look()
    queries_view.rows(session, watch.stats)
    sharing_view.summary(watch.stats)
    sharing_view.picture(sharing_view.paths(watch.stats))
    schedule_view.timeline(session.schedule()["executed"])
    query = session.queries["q0"]
    query.columns()
    answer_view.natural_form(query, query.latest())


Look = Callable[[SparklessSession], object]
# With the most calls that one of 1,000 queries may cost, about a tenth more than it does.
LOOKS: dict[str, tuple[Look, int]] = {
    # For every query of its pane table: its partials, its cost, whether it is identical, its group.
    "EXPLAIN": (lambda session: session.explain(QUERY), 165),
    # The partials of the others, and no schedule.
    "EXPLAIN of a question": (lambda session: session.explain(QUESTION), 60),
    # Of its handle answers, errors, sinks and subscribers; of its schedule windows, slide and period, put into words.
    "stats": (lambda session: session.stats(), 42),
    # The same, and eleven numbers as lines of text, which have the same labels.
    "metrics": (lambda session: session.metrics(), 77),
    # The cost, with sharing and without, and the latest executions of the query.
    "schedule": (lambda session: session.schedule(), 145),
    # stats() and schedule(), a row of the list of queries, and its way through the picture of what is shared.
    "page": (page, 230),
}
# Besides: for every query the stored predicates that its own may be put together from.
COVER: tuple[Look, int] = (lambda session: session.explain(COVERED), 370)


def calls_of(look: Look, session: SparklessSession) -> int:
    look(session)
    with calls() as called:
        look(session)
    return called.total


def check_linear(look: Look, population: Callable[[int], str], most: int) -> None:
    few, many = (calls_of(look, cached(population, number)[0]) for number in (FEW, MANY))
    assert many <= RATIO * few, f"{few} calls at {FEW} queries, {many} at {MANY}"
    assert many <= most * MANY, f"{many / MANY} calls a query"


@pytest.mark.parametrize("population", [over_twenty_tables, over_one_table, identical], ids=lambda each: each.__name__)
@pytest.mark.parametrize("look", LOOKS)
def test_ten_times_the_queries_cost_ten_times_the_calls(look: str, population: Callable[[int], str]) -> None:
    check_linear(LOOKS[look][0], population, LOOKS[look][1])


def test_covers_are_found_without_going_through_all_predicates() -> None:
    check_linear(COVER[0], with_predicates, COVER[1])


# -- the lock that a micro-batch needs -------------------------------------------------------------------


@pytest.mark.parametrize("look", LOOKS)
def test_a_micro_batch_waits_for_one_pane_table_at_most(look: str) -> None:
    """A twentieth of the queries is in each. Twice that share: the reports of tables differ in length."""
    session, level = cached(over_twenty_tables, MANY)
    LOOKS[look][0](session)
    level.holdings.clear()
    with calls() as level.calls:
        LOOKS[look][0](session)
    assert max(level.holdings) <= 2 * level.calls.total / len(KEYS)


def test_a_pane_table_and_its_queries_are_as_of_one_moment() -> None:
    """Micro-batches come between any two holdings, with one more query in every pane table."""
    tables, level = 4, CountedHoldings()
    population = functools.partial(over_tables, tables)
    session = session_of(population, 2 * tables, level)
    come, epochs = itertools.count(2 * tables), itertools.count(4)

    def slide() -> None:
        level.between = lambda: None
        for number in itertools.islice(come, tables):
            session.register(population(number), f"q{number}")
        push(session, next(epochs))
        level.between = slide

    level.between = slide
    stats = session.stats()
    level.between = lambda: None
    found = stats["streams"]["s"]["pane_tables"]
    sizes = [len(table["queries"]) for table in found]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1], "a table that was looked at later has more queries"
    for table in found:
        mine = {name for name, each in stats["queries"].items() if each.get("pane_table") == table["name"]}
        planned = {name for task in table["tasks"] for name in task["queries"]}
        assert mine == set(table["queries"]) == planned
    session.close()


def test_whoever_plans_holds_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look may be the first to ask for the tasks of a schedule that has changed, and then they are planned."""
    level = Optimistic()
    session = session_of(over_one_table, 5, level)
    plan, held = ScheduleGroup.plan, list[bool]()

    def seen(group: ScheduleGroup, *arguments: Any) -> None:
        held.append(level.serial.holder == threading.get_ident())
        plan(group, *arguments)

    monkeypatch.setattr(ScheduleGroup, "plan", seen)
    (table,) = session.streams["s"].runtime.groups.values()
    table.schedule.local.reprice(dict.fromkeys(table.schedule.leaders, (1e6, 1.0)), table.clock.position)
    session.stats()
    assert held and all(held)
    session.close()
