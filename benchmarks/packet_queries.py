"""The queries of section 5 of the report on scheduling, top lists and quantiles of bandwidth in eight groups; and two
set-ups in which an execution costs much more than an answer, as in the report: windows of very many panes, and panes in
the cluster.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.packet_panes import PACKETS, Traffic
from sash.catalog import Catalog, RegisteredQuery
from sash.runtime.compiler import CompiledQuery, as_select, compile_panes, compile_query
from sash.sql import bind

# At the higher load there are also twice as many different values. There are so few of them that all are in every pane:
# the synopses' part of the work is then what the report has, many more values are read than answers have rows.
LOADS = {
    "low": Traffic(20_000, 50, 50),
    "high": Traffic(40_000, 100, 100),
    "long": Traffic(5_000, 1_000, 1_000),
    "cluster": Traffic(2_000, 50, 50),
}
_TOP = "SELECT TOP(10, {of}, SUM(length)) FROM packets [WINDOW {w} sec SLIDE {s} sec]"
_QUANTILES = "SELECT {of}, QUANTILE(length, 0.9) AS typical FROM packets [WINDOW {w} sec SLIDE {s} sec] GROUP BY {of}"
# A pair is one number here: TOP then ranks all windows of a scan together.
GROUPS = (
    *((_TOP, of) for of in ("src", "dst", "src * 10000 + dst", "protocol", "port", "protocol * 10000 + port")),
    *((_QUANTILES, of) for of in ("src", "dst")),
)
_KEYS = ("src", "dst", "protocol", "port")
_MAXIMA = "SELECT {of}, MAX(length) AS longest FROM packets [WINDOW {w} sec SLIDE {s} sec] GROUP BY {of}"
_SUMS = "SELECT {of}, SUM(length) AS bytes FROM packets [WINDOW {w} sec SLIDE {s} sec] GROUP BY {of}"
ONE_TIME = "SELECT src, SUM(length) AS bytes FROM packets [WINDOW 30 sec] GROUP BY src HAVING src = {source}"


@dataclass(frozen=True)
class SetUp:
    """The groups of queries, their windows in seconds, and the least number of slides in a window."""

    groups: tuple[tuple[str, str], ...]
    windows: range
    slides: int
    synopsis: str = "basic"


# As in the report, whose synopses keep the counters of each interval. Running sums would not be scanned jointly.
PAPERS = SetUp(GROUPS, range(20, 101), 2)
SET_UPS = {
    "low": PAPERS,
    "high": PAPERS,
    "long": SetUp(tuple((_MAXIMA, of) for of in _KEYS), range(720, 3_601), 72),
    "cluster": SetUp(tuple((_SUMS, of) for of in _KEYS), range(20, 101), 2, "cluster"),
}


@dataclass(frozen=True)
class Workload:
    """The queries of one cell, the same for every policy."""

    load: str
    seed: int
    queries: list[CompiledQuery]
    questions: list[CompiledQuery]

    @property
    def longest(self) -> int:
        """The longest window, in seconds."""
        return SET_UPS[self.load].windows[-1]


def catalog() -> Catalog:
    known = Catalog()
    known.add_stream(PACKETS)
    return known


def texts(number: int, seed: int, chosen: SetUp = PAPERS) -> list[str]:
    """As many queries of each group, each with a window of its own: identical queries would be executed once."""
    chance, each = random.Random(seed), number // len(chosen.groups)
    windows = [(form, of, w) for form, of in chosen.groups for w in chance.sample(chosen.windows, each)]
    return [form.format(of=of, w=w, s=chance.randint(1, w // chosen.slides)) for form, of, w in windows]


def workload(load: str, number: int, seed: int) -> Workload:
    known, chance, chosen = catalog(), random.Random(seed), SET_UPS[load]
    named = [(f"q{i}", text) for i, text in enumerate(texts(number, seed, chosen))]
    registered = [RegisteredQuery(name, text, "packets", synopsis=chosen.synopsis) for name, text in named]
    sources = [chance.randrange(LOADS[load].addresses) for _ in range(20)]
    # In the cluster a question is a job, too, and would be most of the work.
    asked = [as_select(ONE_TIME.format(source=source)) for source in sources] if load in ("low", "high") else []
    questions = [compile_panes(bind(select, known), "(one-time)", one_time=True) for select in asked]
    return Workload(load, seed, [compile_query(query, known) for query in registered], questions)
