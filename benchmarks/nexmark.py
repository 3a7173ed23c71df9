"""Events by Nexmark's published rules (Apache Beam's generator, and that of Flink's suite), as Parquet files.

Nexmark is an auction house: persons register, sellers open auctions, bidders bid. Of every 50 events one is a person,
three are auctions and 46 are bids, in this order. The number n of an event decides all but the dice:

    newest person      n // 50
    seller             in 3 of 4 auctions the hot one: the first of the newest hundred persons; else one of the newest
                       1,000 persons, or of the next ten, who register later
    auction of a bid   in 1 of 2 bids the hot one: the first of the newest hundred auctions; else one of the newest 101
                       auctions, or of the next ten, which open later
    bidder             in 3 of 4 bids the hot one: the second of the newest hundred persons; else as a seller
    price              100 * 10 ** (6 u), u uniform
    length             an auction is open for at most twice the time in which 100 auctions open, uniform
    channel            in 1 of 2 bids one of four hot ones, else one of 10,000; 9 of 10 of these have an id in their URL
    extra              letters that fill a person up to 200 bytes on average, an auction to 500, a bid to 100

All events are rows of one table, as in Flink's suite: the columns of other kinds of event are NULL. Timestamps are half
a millisecond after whole ones, never on the edge of a window: windows closed on either side have the same events.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Ints = npt.NDArray[np.int64]

START_US = 1_436_918_400_000_500  # 2015-07-15, as in Beam
RATE = 10_000
EACH = 50_000
TIMESTAMP = pa.timestamp("us", "UTC")
PERSON, AUCTION, BID = range(3)
CYCLE, AUCTIONS = 50, 3
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
HOT, ACTIVE_PERSONS, OPEN_AUCTIONS, LEAD = 100, 1_000, 100, 10
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = [
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
]
FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
DDL = (
    "kind INT, ts TIMESTAMP, id BIGINT, name STRING, email STRING, credit_card STRING, city STRING, state STRING, "
    "description STRING, initial_bid BIGINT, reserve BIGINT, expires TIMESTAMP, seller BIGINT, category INT, "
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING"
)


def generate(directory: Path, events: int, rate: int = RATE, seed: int = 7) -> Path:
    """Files of `EACH` events at most, in the order of time; nothing when the directory holds them already."""
    facts = {"events": events, "rate": rate, "seed": seed}
    stamp = directory / "facts.json"
    if stamp.exists() and json.loads(stamp.read_text()) == facts:
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    for part, first in enumerate(range(0, events, EACH)):
        table = table_of(np.arange(first, min(first + EACH, events)), rate, np.random.default_rng([seed, part]))
        pq.write_table(table, directory / f"part-{part:05d}.parquet")
    stamp.write_text(json.dumps(facts))
    return directory


def table_of(numbers: Ints, rate: int, dice: np.random.Generator) -> pa.Table:
    """The events of these numbers."""
    place = numbers % CYCLE
    kinds = np.where(place == 0, PERSON, np.where(place <= AUCTIONS, AUCTION, BID))
    made = {
        kind: maker(numbers[kinds == kind], rate, dice)
        for kind, maker in ((PERSON, persons), (AUCTION, auctions), (BID, bids))
    }
    columns = {"kind": pa.array(kinds, pa.int32()), "ts": pa.array(_micros(numbers, rate), TIMESTAMP)}
    for name in (column.split()[0] for column in DDL.split(", ")[2:]):
        columns[name] = _scattered(kinds, {kind: found[name] for kind, found in made.items() if name in found})
    return pa.table(columns)


def _scattered(kinds: Ints, parts: dict[int, pa.Array]) -> pa.Array:
    """Values of some kinds of event at the rows of these kinds, NULL at the others."""
    rows, begin = np.full(len(kinds), -1), 0
    for kind, values in parts.items():
        rows[kinds == kind] = begin + np.arange(len(values))
        begin += len(values)
    return pa.concat_arrays(list(parts.values())).take(pa.array(rows, mask=rows < 0))


def persons(numbers: Ints, rate: int, dice: np.random.Generator) -> dict[str, pa.Array]:
    count = len(numbers)
    words = [_text(dice, _lengths(dice, longest, count)) for longest in (7, 5)]
    cards = [_one_of([f"{number:04d}" for number in range(10_000)], dice, count) for _ in range(4)]
    made = {
        "name": _one_of([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES], dice, count),
        "email": pc.binary_join_element_wise(words[0], "@", words[1], ".com", ""),
        "credit_card": pc.binary_join_element_wise(*cards, " "),
        "city": _one_of(CITIES, dice, count),
        "state": _one_of(STATES, dice, count),
    }
    return {"id": pa.array(_newest_person(numbers) + FIRST_ID), **made, "extra": _extra(dice, made, 8, 200, count)}


def auctions(numbers: Ints, rate: int, dice: np.random.Generator) -> dict[str, pa.Array]:
    count = len(numbers)
    first_bid = _prices(dice, count)
    milliseconds = OPEN_AUCTIONS * CYCLE * 1_000 // (AUCTIONS * rate)
    ended = _micros(numbers, rate) + 1_000 * (1 + dice.integers(0, max(2 * milliseconds, 1), count))
    made = {name: _text(dice, _lengths(dice, most, count)) for name, most in (("name", 20), ("description", 100))}
    return {
        "id": pa.array(_newest_auction(numbers) + FIRST_ID),
        **made,
        "initial_bid": pa.array(first_bid),
        "reserve": pa.array(first_bid + _prices(dice, count)),
        "expires": pa.array(ended, TIMESTAMP),
        "seller": pa.array(FIRST_ID + _hot_or(dice, 4, _hot_person(numbers), _any_person(numbers, dice))),
        "category": pa.array(FIRST_CATEGORY + dice.integers(0, CATEGORIES, count), pa.int32()),
        "extra": _extra(dice, made, 48, 500, count),
    }


def bids(numbers: Ints, rate: int, dice: np.random.Generator) -> dict[str, pa.Array]:
    count, newest = len(numbers), _newest_auction(numbers)
    oldest = np.maximum(newest - OPEN_AUCTIONS, 0)
    any_auction = oldest + dice.integers(0, newest - oldest + 1 + LEAD)
    hot_channel, other = dice.integers(0, len(HOT_CHANNELS), count), dice.integers(0, CHANNELS, count)
    channel = pa.array(_hot_or(dice, 2, hot_channel, len(HOT_CHANNELS) + other))
    names, urls = _channels()
    return {
        "auction": pa.array(FIRST_ID + _hot_or(dice, 2, newest // HOT * HOT, any_auction)),
        "bidder": pa.array(FIRST_ID + _hot_or(dice, 4, 1 + _hot_person(numbers), _any_person(numbers, dice))),
        "price": pa.array(_prices(dice, count)),
        "channel": names.take(channel),
        "url": urls.take(channel),
        "extra": _extra(dice, {}, 32, 100, count),
    }


def _micros(numbers: Ints, rate: int) -> Ints:
    return START_US + numbers * 1_000 // rate * 1_000


def _newest_person(numbers: Ints) -> Ints:
    return numbers // CYCLE


def _newest_auction(numbers: Ints) -> Ints:
    """The auction of an auction's number, or the last one before a bid."""
    return numbers // CYCLE * AUCTIONS + np.minimum(numbers % CYCLE, AUCTIONS) - 1


def _hot_person(numbers: Ints) -> Ints:
    return _newest_person(numbers) // HOT * HOT


def _any_person(numbers: Ints, dice: np.random.Generator) -> Ints:
    known = _newest_person(numbers) + 1
    active = np.minimum(known, ACTIVE_PERSONS)
    return known - active + dice.integers(0, active + LEAD)


def _hot_or(dice: np.random.Generator, ratio: int, hot: Ints, other: Ints) -> Ints:
    """The hot one in all cases but one of `ratio`."""
    return np.where(dice.integers(0, ratio, len(hot)) > 0, hot, other)


def _prices(dice: np.random.Generator, count: int) -> Ints:
    return np.rint(100 * 10 ** (6 * dice.random(count))).astype(np.int64)


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    """Names and URLs of the hot channels and of the others, the same for all seeds."""
    dice, count = np.random.default_rng(0), len(HOT_CHANNELS) + CHANNELS
    folders = zip(*(_text(dice, _lengths(dice, 5, count)).to_pylist() for _ in range(3)), strict=True)
    urls = [f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1" for a, b, c in folders]
    for number in np.flatnonzero(dice.integers(0, 10, CHANNELS)):
        # The number's 32 bits in reverse, read as a number with a sign.
        bits = int(f"{number:032b}"[::-1], 2)
        urls[len(HOT_CHANNELS) + number] += f"&channel_id={min(bits, (1 << 32) - bits)}"
    return pa.array([*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]), pa.array(urls)


def _one_of(values: Sequence[str], dice: np.random.Generator, count: int) -> pa.Array:
    return pa.array(values).take(pa.array(dice.integers(0, len(values), count)))


def _lengths(dice: np.random.Generator, longest: int, count: int) -> Ints:
    """From 3 letters on, to fewer than `longest`."""
    return dice.integers(3, longest, count)


def _extra(dice: np.random.Generator, made: dict[str, pa.Array], numbers: int, average: int, count: int) -> pa.Array:
    """What events lack to their average size, a fifth more or less; `numbers` is the size of their numbers in bytes."""
    lacking = (
        average - numbers - sum((pc.binary_length(each).to_numpy() for each in made.values()), np.zeros(count, int))
    )
    fifth = np.rint(lacking * 0.2).astype(np.int64)
    return _text(dice, lacking - fifth + dice.integers(0, 2 * fifth))


def _text(dice: np.random.Generator, lengths: Ints) -> pa.Array:
    """Random small letters."""
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    letters = dice.integers(ord("a"), ord("z") + 1, ends[-1], dtype=np.uint8)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))
