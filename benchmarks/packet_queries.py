"""The queries of section 5 of the report on scheduling: top lists and quantiles of bandwidth, in eight groups."""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.packet_panes import PACKETS, Traffic
from sash.catalog import Catalog, RegisteredQuery
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes, compile_query
from sash.sql import bind

# At the higher load there are also twice as many different values. There are so few of them that all are in every pane:
# the synopses' part of the work is then what the report has, many more values are read than answers have rows.
LOADS = {"low": Traffic(20_000, 50, 50), "high": Traffic(40_000, 100, 100)}
_TOP = "SELECT TOP(10, {of}, SUM(length)) FROM packets [WINDOW {w} sec SLIDE {s} sec]"
_QUANTILES = "SELECT {of}, QUANTILE(length, 0.9) AS typical FROM packets [WINDOW {w} sec SLIDE {s} sec] GROUP BY {of}"
# A pair is one number here: TOP then ranks all windows of a scan together.
GROUPS = (
    *((_TOP, of) for of in ("src", "dst", "src * 10000 + dst", "protocol", "port", "protocol * 10000 + port")),
    *((_QUANTILES, of) for of in ("src", "dst")),
)
ONE_TIME = "SELECT src, SUM(length) AS bytes FROM packets [WINDOW 30 sec] GROUP BY src HAVING src = {source}"


@dataclass(frozen=True)
class Workload:
    """The queries of one cell, the same for every policy."""

    load: str
    seed: int
    queries: list[CompiledQuery]
    questions: list[CompiledQuery]


def catalog() -> Catalog:
    known = Catalog()
    known.add_stream(PACKETS)
    return known


def texts(number: int, seed: int) -> list[str]:
    """As many queries of each group, each with a window of its own: identical queries would be executed once."""
    chance = random.Random(seed)
    windows = [(form, of, w) for form, of in GROUPS for w in chance.sample(range(20, 101), number // len(GROUPS))]
    return [form.format(of=of, w=w, s=chance.randint(1, w // 2)) for form, of, w in windows]


def workload(load: str, number: int, seed: int) -> Workload:
    known, chance = catalog(), random.Random(seed)
    # As in the report, whose synopses keep the counters of each interval. Running sums would not be scanned jointly.
    named = [(f"q{i}", text) for i, text in enumerate(texts(number, seed))]
    registered = [RegisteredQuery(name, text, "packets", synopsis="basic") for name, text in named]
    sources = [chance.randrange(LOADS[load].addresses) for _ in range(20)]
    asked = [as_select(ONE_TIME.format(source=source)) for source in sources]
    questions = [compile_panes(bind(select, known), "(one-time)", one_time=True) for select in asked]
    return Workload(load, seed, [compile_query(query, known) for query in registered], questions)
