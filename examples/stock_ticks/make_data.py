"""Writes forty minutes of made-up trades and quotes, always the same ones, in trades/ and quotes/.

Quotes come every five seconds for each symbol, trades in between, mostly between bid and ask.

    DIP   loses 5%, while buyers press
    HOT   jumps about, and trades six times as much in the last five minutes
    OLD   is quiet; TIN is cheap; now and then a trade is outside of its quote
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

OPENING = datetime(2026, 3, 2, 14, 30)
SYMBOLS = (("DIP", 90.0, "NASDAQ"), ("HOT", 50.0, "NYSE"), ("OLD", 120.0, "NASDAQ"), ("TIN", 15.0, "NYSE"))


def ticks(chance: random.Random) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    trades: list[tuple[object, ...]] = []
    quotes: list[tuple[object, ...]] = []
    for symbol, price, exchange in SYMBOLS:
        for second in range(0, 2_400, 5):
            middle = price * (1 - 0.05 * second / 2_400 if symbol == "DIP" else 1)
            middle *= 1 + (0.03 if symbol == "HOT" else 0.001) * (chance.random() - 0.5)
            bid, ask = 0.999 * middle, 1.001 * middle
            quotes.append((moment(second), symbol, f"{bid:.3f}", f"{ask:.3f}"))
            for trade in range(2):
                outside = chance.random() < 0.01
                paid = ask * 1.01 if outside else chance.uniform(bid, ask)
                shares = 100 * chance.randrange(1, 10) * (6 if symbol == "HOT" and second >= 2_100 else 1)
                toward_ask = chance.random() < (0.85 if symbol == "DIP" else 0.5)
                at = moment(second + 1 + 2 * trade)
                trades.append((at, symbol, exchange, f"{paid:.3f}", shares, str(toward_ask).lower()))
    return trades, quotes


def moment(second: int) -> datetime:
    return OPENING + timedelta(seconds=second)


def write(folder: str, rows: list[tuple[object, ...]]) -> None:
    Path(folder).mkdir(exist_ok=True)
    lines = [",".join(map(str, row)) for row in sorted(rows, key=str)]
    Path(folder, "part-1.csv").write_text("\n".join(lines) + "\n")
    print(f"{len(rows)} rows in {folder}/")


def main() -> None:
    trades, quotes = ticks(random.Random(3))
    write("trades", trades)
    write("quotes", quotes)


if __name__ == "__main__":
    main()
