"""Packets with random values, and the partials that Spark's pass over them would deliver, second by second.

For benchmarks of what happens after the pass: the passes are done beforehand, by NumPy, so that no time is spent on
them while the engine is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sash.catalog import Stream
from sash.panes.pane_rows import BatchFacts, PaneRows
from sash.panes.partials import Partial
from sash.sharing.groups import PaneTable

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
COLUMNS = ("src", "dst", "protocol", "port", "length")
PACKETS = Stream(
    "packets",
    pa.schema([("ts", pa.timestamp("us", "UTC")), *((name, pa.int32()) for name in COLUMNS)]),
    "ts",
)
Ints = NDArray[np.int64]
# As in real traffic, packets come in some dozens of lengths.
LENGTHS: Ints = np.arange(40, 1_500, 30)


@dataclass(frozen=True)
class Traffic:
    """The number of packets per second, and of different addresses (of either kind), protocols and ports."""

    rate: int
    addresses: int
    ports: int

    def packets(self, chance: np.random.Generator) -> dict[str, Ints]:
        """The packets of one second: the columns and the expressions that queries group by."""
        ranges = {"src": self.addresses, "dst": self.addresses, "protocol": self.ports, "port": self.ports}
        drawn = {name: chance.integers(0, high, self.rate) for name, high in ranges.items()}
        return {
            **drawn,
            "src * 10000 + dst": drawn["src"] * 10_000 + drawn["dst"],
            "protocol * 10000 + port": drawn["protocol"] * 10_000 + drawn["port"],
            "length": LENGTHS[chance.integers(0, len(LENGTHS), self.rate)],
        }


def passes(traffic: Traffic, tables: list[PaneTable], seconds: int, seed: int) -> list[BatchFacts]:
    """What the pass over each of some seconds brings to these pane tables."""
    chance = np.random.default_rng(seed)
    return [pass_over(traffic.packets(chance), tables, START + number * SECOND) for number in range(seconds)]


def pass_over(packets: dict[str, Ints], tables: list[PaneTable], start: int) -> BatchFacts:
    """What the pass over the packets of one second brings; a column for each expression that is grouped by."""
    lanes = [(number, *_pane_rows(packets, table, start)) for number, table in enumerate(tables)]
    # The first packet of the next second is what tells that this one is over.
    return BatchFacts(len(packets["length"]), start + SECOND + 1, 0, 0, lanes)


def _pane_rows(packets: dict[str, Ints], table: PaneTable, start: int) -> tuple[PaneRows, Ints]:
    columns = np.stack([packets[key.sql] for key in table.keys])
    _, firsts, places = np.unique(_codes(columns), return_index=True, return_inverse=True)
    counts = np.bincount(places).astype(np.int64)
    end = -(-(start + SECOND) // table.length) * table.length
    ends = np.full(len(counts), end, dtype=np.int64)
    keys = [pa.array(column, pa.int32()) for column in columns[:, firsts]]
    lifted = {partial: [pa.array(_lifted(partial, packets, places, counts))] for partial in table.partials}
    return PaneRows(table.length, ends, keys, lifted), counts


def _codes(columns: Ints) -> Ints:
    """One number per row, different where any column is."""
    codes = np.zeros(columns.shape[1], dtype=np.int64)
    for column in columns:
        codes = codes * (int(column.max()) + 1) + column
    return codes


def _lifted(partial: Partial, packets: dict[str, Ints], places: Ints, counts: Ints) -> Ints:
    """Nothing is NULL here, so the number of values of a column is that of the rows."""
    if partial.kind in ("rows", "count"):
        return counts
    if partial.kind not in ("sum", "max") or partial.argument is None or partial.predicate is not None:
        raise NotImplementedError(f"these passes have counts, sums and maxima only, not {partial.signature}")
    if partial.kind == "max":
        greatest = np.full(len(counts), np.iinfo(np.int64).min)
        np.maximum.at(greatest, places, packets[partial.argument.sql])
        return greatest
    return np.bincount(places, weights=packets[partial.argument.sql]).astype(np.int64)


def together(updates: list[BatchFacts]) -> BatchFacts:
    """Several seconds as one micro-batch."""
    lanes = [lane for update in updates for lane in update.lanes]
    return BatchFacts(sum(update.rows for update in updates), updates[-1].latest, 0, 0, lanes)


class Standing:
    """Time stands still at some part of the available time; decisions are made one by one, as on a clock."""

    hurries = True
    services = None

    def __init__(self, part: float) -> None:
        self._part = part

    def passed(self) -> float:
        return self._part

    def part(self, seconds: float) -> float:
        return 0.0


ALL_THE_TIME = Standing(0.0)
