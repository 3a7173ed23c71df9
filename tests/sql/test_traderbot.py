"""The two queries that Arasu and Widom (2004), 1.1.2, quote from Traderbot: several windows in one query each.

CQL has no first or last value of a window, so a price is the average of a minute: the last one, or one that LAG shifts.
"""

from __future__ import annotations

import pytest

from sash.core.window import TimeWindow
from sash.plan.nodes import AnswerFilter, AnswerJoin, StreamWindow, tree
from tests.sql.examples import MIN, plan

MOMENTUM = "NASDAQ Short-term Downward Momentum"
SURGE = "High Volatility with Recent Volume Surge"
TRADERBOT = {
    MOMENTUM: """
        SELECT symbol, now.price, 100 * (1 - now.price / before.price) AS percent_down,
               pressure.toward_ask / pressure.shares AS buying_pressure
        FROM (SELECT symbol, AVG(price) AS price FROM trades [WINDOW 1 min SLIDE 1 min]
              WHERE exchange = 'NASDAQ' GROUP BY symbol) now
        JOIN (SELECT symbol, AVG(price) AS price FROM trades [WINDOW 1 min SLIDE 1 min LAG 20 min]
              WHERE exchange = 'NASDAQ' GROUP BY symbol) before USING (symbol)
        JOIN (SELECT symbol, SUM(IF(toward_ask, shares, 0)) AS toward_ask, SUM(shares) AS shares
              FROM trades [WINDOW 2 min SLIDE 1 min]
              WHERE exchange = 'NASDAQ' GROUP BY symbol) pressure USING (symbol)
        WHERE now.price BETWEEN 20 AND 200 AND now.price < 0.98 * before.price
          AND pressure.toward_ask >= 0.7 * pressure.shares""",
    SURGE: """
        SELECT symbol, high - low AS spread, recent.volume / earlier.volume AS surge
        FROM (SELECT symbol, MAX(price) AS high, MIN(price) AS low
              FROM trades [WINDOW 30 min SLIDE 1 min] GROUP BY symbol) ticks
        JOIN (SELECT symbol, AVG(price) AS price
              FROM trades [WINDOW 1 min SLIDE 1 min] GROUP BY symbol) last USING (symbol)
        JOIN (SELECT symbol, AVG(shares) AS volume
              FROM trades [WINDOW 5 min SLIDE 1 min] GROUP BY symbol) recent USING (symbol)
        JOIN (SELECT symbol, AVG(shares) AS volume
              FROM trades [WINDOW 5 min SLIDE 1 min LAG 5 min] GROUP BY symbol) earlier USING (symbol)
        WHERE price BETWEEN 20 AND 200 AND high - low > 0.03 * price AND recent.volume > 4 * earlier.volume
        ORDER BY surge DESC""",
}


@pytest.mark.parametrize(
    ("name", "columns", "windows"),
    [
        (
            MOMENTUM,
            ["symbol", "price", "percent_down", "buying_pressure"],
            [TimeWindow(MIN, MIN), TimeWindow(MIN, MIN, 20 * MIN), TimeWindow(2 * MIN, MIN)],
        ),
        (
            SURGE,
            ["symbol", "spread", "surge"],
            [
                TimeWindow(30 * MIN, MIN),
                TimeWindow(MIN, MIN),
                TimeWindow(5 * MIN, MIN),
                TimeWindow(5 * MIN, MIN, 5 * MIN),
            ],
        ),
    ],
)
def test_the_queries_of_traderbot(name: str, columns: list[str], windows: list[TimeWindow]) -> None:
    bound = plan(TRADERBOT[name])
    assert [output.name for output in bound.outputs] == columns
    assert [node.window for _, node in tree(bound) if isinstance(node, StreamWindow)] == windows
    joins = [node for _, node in tree(bound) if isinstance(node, AnswerJoin)]
    assert [join.kind for join in joins] == ["inner"] * (len(windows) - 1)
    assert all(left.endswith(".symbol") and right.endswith(".symbol") for join in joins for left, right in join.keys)


def test_what_the_joined_answers_must_fulfil() -> None:
    (condition,) = (node for _, node in tree(plan(TRADERBOT[SURGE])) if isinstance(node, AnswerFilter))
    assert str(condition.condition) == (
        "and(and(ge(last.price, 20.0), le(last.price, 200.0)),"
        " and(gt(subtract(ticks.high, ticks.low), multiply(0.03, last.price)),"
        " gt(recent.volume, multiply(4.0, earlier.volume))))"
    )
