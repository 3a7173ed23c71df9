"""The two queries that Arasu and Widom (1.1.2) quote from Traderbot, over a generated tape, against DuckDB."""

from __future__ import annotations

import random
import re

import pyarrow as pa
import pytest

from sash.catalog import Stream
from sash.core.time import SECOND, to_micros
from tests.sql.test_traderbot import MOMENTUM, SURGE, TRADERBOT
from tests.support.feed import answers_of
from tests.support.oracle import duck, same_rows

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("symbol", pa.string()),
        ("exchange", pa.string()),
        ("price", pa.float64()),
        ("shares", pa.int32()),
        ("toward_ask", pa.bool_()),
    ]
)
MINUTE = 60 * SECOND
START = 1_700_000_040 * SECOND
UNITS = {"min": MINUTE}


def tape(minutes: int) -> list[pa.Table]:
    """Prices that wander, and now and then a stock that falls while it is bought, or whose volume surges."""
    chance = random.Random(11)
    prices = {f"S{i:02d}": chance.uniform(10, 150) for i in range(30)}
    parts = []
    for minute in range(minutes):
        rows = []
        for _ in range(150):
            symbol = chance.choice(list(prices))
            falls = symbol < "S08" and minute > 20
            surges = symbol > "S22" and minute % 12 > 6
            prices[symbol] *= 1 + chance.gauss(-0.002 if falls else 0, 0.004)
            rows.append(
                (
                    START + minute * MINUTE + chance.randrange(1, MINUTE),
                    symbol,
                    "NYSE" if symbol in ("S03", "S25") else "NASDAQ",
                    round(prices[symbol], 2),
                    chance.randrange(1, 50) * (20 if surges else 1),
                    chance.random() < (0.9 if falls else 0.5),
                )
            )
        columns = list(zip(*sorted(rows), strict=True))
        table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
        parts.append(table.append_column("_us", table["ts"].cast(pa.int64())))
    return parts


def recompute(text: str, as_of: int) -> list[dict[str, object]]:
    """Every window clause as a selection of its tuples."""

    def selection(match: re.Match[str]) -> str:
        length, _, lag = (int(n) * MINUTE for n in match.groups(default="0"))
        bounds = f"_us > {as_of - lag - length} AND _us <= {as_of - lag}"
        return f"(SELECT * FROM tuples WHERE {bounds})"

    plain = re.sub(r"trades \[WINDOW (\d+) min SLIDE (\d+) min(?: LAG (\d+) min)?\]", selection, text)
    return duck().sql(plain).to_arrow_table().to_pylist()


@pytest.mark.parametrize("name", [MOMENTUM, SURGE])
def test_traderbot(name: str) -> None:
    declared = Stream("trades", SCHEMA, "ts")
    parts = tape(50)
    found = answers_of(declared, {"q": TRADERBOT[name]}, parts)["q"]
    duck().register("tuples", pa.concat_tables(parts))
    assert len(found) >= 48
    for answer in found:
        expected = recompute(TRADERBOT[name], to_micros(answer.as_of))
        assert same_rows(answer.table.to_pylist(), expected, ordered="ORDER BY" in TRADERBOT[name]), answer.as_of
        reach = 31 if name == SURGE else 22
        assert answer.complete == (to_micros(answer.as_of) - START >= (reach - 1) * MINUTE)
    assert sum(answer.table.num_rows for answer in found) > 10, "an answer that is always empty shows nothing"
