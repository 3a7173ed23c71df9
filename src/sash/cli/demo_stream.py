"""The demo's packet stream and its queries: skewed addresses, changing traffic, and a flood every now and then.

Everything is a function of the row's number and the seed, computed by Spark's generated code, so that two runs with the
same seed and rate see the same packets and give the same answers. Spark's `rate` source follows the wall clock: when a
micro-batch takes long, the next one is larger, and nothing falls behind.

A dashboard has ten queries about one part of the traffic, each over another window. There are eighty dashboards of five
parts at sixteen time scales; the first one is the overview that the view shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sash.core.time import EPOCH, SECOND, to_micros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

BYTES_PER_SECOND = "bytes_per_second"
TOP_TALKERS = "top_talkers_10s"
PROTOCOLS = "protocols_10s"
PORTS = "busy_ports_10s"
FLOODERS = "flooders_5s"

# How many queries the demo runs, one number after the other.
QUERIES = (200, 400, 800)


@dataclass(frozen=True)
class DemoQuery:
    """A query as Sash takes it, and as a Spark job takes it: there nothing can be ordered or cut."""

    name: str
    aggregates: str
    window: int
    slide: int
    key: str = ""
    where: str = ""
    having: str = ""
    most: int = 0

    @property
    def text(self) -> str:
        order = f"ORDER BY bytes DESC LIMIT {self.most}" if self.most else ""
        window = f"[WINDOW {self.window} sec SLIDE {self.slide} sec]"
        parts = [f"SELECT {self._columns} FROM packets {window}", *self._clauses(self.key), order]
        return " ".join(filter(None, parts))

    @property
    def spark_text(self) -> str:
        """
        >>> DemoQuery("q", "COUNT(*) AS n", 10, 2, "src", "port = 53").spark_text
        "SELECT src, COUNT(*) AS n FROM packets WHERE port = 53 GROUP BY src, window(ts, '10 seconds', '2 seconds')"
        """
        window = f"window(ts, '{self.window} seconds', '{self.slide} seconds')"
        groups = ", ".join(filter(None, [self.key, window]))
        return " ".join(filter(None, [f"SELECT {self._columns} FROM packets", *self._clauses(groups)]))

    @property
    def _columns(self) -> str:
        return ", ".join(filter(None, [self.key, self.aggregates]))

    def _clauses(self, groups: str) -> Iterator[str]:
        for word, clause in (("WHERE", self.where), ("GROUP BY", groups), ("HAVING", self.having)):
            yield f"{word} {clause}" if clause else ""


_TOTALS = "SUM(length) AS bytes, COUNT(*) AS packets"
_SIZES = "AVG(length) AS average, MAX(length) AS largest"
_UDP = "protocol = 'UDP'"
_PARTS = {
    "all": "",
    "tcp": "protocol = 'TCP'",
    "udp": _UDP,
    "web": "port IN (80, 443, 8080)",
    "full": "length >= 1400",
}
# What a dashboard asks, by name: its GROUP BY, its aggregates, and how many groups it lists.
_PANELS = {
    "traffic": ("", _TOTALS, 0),
    "sizes": ("", _SIZES, 0),
    "sources": ("src", _TOTALS, 10),
    "source_sizes": ("src", _SIZES, 0),
    "targets": ("dst", _TOTALS, 10),
    "target_sizes": ("dst", _SIZES, 0),
    "ports": ("port", _TOTALS, 10),
    "port_sizes": ("port", _SIZES, 0),
    "protocols": ("protocol", _TOTALS, 10),
    "protocol_sizes": ("protocol", _SIZES, 0),
}
_SLIDES = (2, 3, 1, 5)


def overview(rate: int) -> list[DemoQuery]:
    """The first dashboard. Thresholds follow the rate."""
    return [
        DemoQuery(BYTES_PER_SECOND, _TOTALS, 1, 1),
        DemoQuery(TOP_TALKERS, _TOTALS, 10, 1, "src", most=10),
        DemoQuery(PROTOCOLS, _TOTALS, 10, 1, "protocol", most=4),
        DemoQuery(PORTS, _TOTALS, 10, 1, "port", most=5),
        DemoQuery(FLOODERS, _TOTALS, 5, 1, "src", _UDP, f"COUNT(*) > {rate // 2}", 3),
        DemoQuery("traffic_60s", _TOTALS, 60, 10),
        DemoQuery("sizes_30s", _SIZES, 30, 6),
        DemoQuery("top_targets_12s", _TOTALS, 12, 3, "dst", most=10),
        DemoQuery("loaded_targets_5s", _TOTALS, 5, 1, "dst", having=f"COUNT(*) > {rate}", most=5),
        DemoQuery("busy_ports_60s", _TOTALS, 60, 10, "port", most=20),
    ]


def demo_queries(rate: int) -> list[DemoQuery]:
    """Dashboard after dashboard; no two queries are the same."""
    others = range(1, QUERIES[-1] // len(_PANELS))
    return [*overview(rate), *(query for number in others for query in _dashboard(number))]


def _dashboard(number: int) -> Iterator[DemoQuery]:
    scale, place = divmod(number, len(_PARTS))
    part, where = list(_PARTS.items())[place]
    for panel, (name, (key, aggregates, most)) in enumerate(_PANELS.items()):
        # Windows of 5 to 60 seconds. After twelve scales they come again, with another slide.
        window, slide = 5 + 5 * ((scale + panel) % 12), _SLIDES[(scale // 4 + panel) % len(_SLIDES)]
        yield DemoQuery(f"{part}_{name}_{window}s_{slide}s", aggregates, window, slide, key, where, most=most)


START = EPOCH.replace(year=2026)
SOURCES = 400
TARGETS = 60
FLOOD_EVERY = 15
FLOOD_LASTS = 5
FLOOD_SHARE = 0.3

_TCP_PORTS = ((0.50, 443), (0.68, 80), (0.76, 22), (0.82, 25), (0.88, 5432), (0.93, 8080))
_TIMESTAMP = f"timestamp_micros({to_micros(START)} + cast(ceil(second * {SECOND}) AS BIGINT))"
_PROTOCOL = (
    "CASE WHEN flood THEN 'UDP' WHEN u4 < 0.76 THEN 'TCP' WHEN u4 < 0.95 THEN 'UDP' "
    "WHEN u4 < 0.985 THEN 'ICMP' ELSE 'GRE' END"
)
# Full packets come and go in waves; a flood is full of them.
_LENGTH = (
    "cast(CASE WHEN flood THEN 1200 + floor(u6 * 300) "
    "WHEN protocol = 'TCP' AND u6 < 0.35 + 0.25 * sin(second / 2) THEN 1460 "
    "WHEN protocol = 'TCP' THEN 40 + floor(u6 * 400) "
    "WHEN protocol = 'UDP' THEN 60 + floor(u6 * 450) ELSE 84 END AS INT)"
)


def packets(spark: SparkSession, rate: int, seed: int) -> DataFrame:
    """A streaming DataFrame of `rate` packets per second."""
    return _made(spark.readStream.format("rate").option("rowsPerSecond", rate).load(), rate, seed)


def packets_at_once(spark: SparkSession, rate: int, seed: int) -> DataFrame:
    """The same packets as fast as they are taken: a second of them is a micro-batch."""
    return _made(spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rate).load(), rate, seed)


def _made(frame: DataFrame, rate: int, seed: int) -> DataFrame:
    for columns in stages(rate, seed):
        frame = frame.selectExpr(*columns)
    return frame


def stages(rate: int, seed: int) -> list[list[str]]:
    """Projections one after the other: each names the columns for the next one."""
    numbers = [f"{_uniform(seed, n)} AS u{n}" for n in range(1, 7)]
    shifted = f"second + {seed % FLOOD_EVERY}"
    flooding = f"pmod({shifted}, {FLOOD_EVERY}) >= {FLOOD_EVERY - FLOOD_LASTS} AND u1 < {FLOOD_SHARE}"
    return [
        ["value", f"(value + 1) / {rate} AS second", *numbers],
        ["*", f"floor(({shifted}) / {FLOOD_EVERY}) AS round", f"{flooding} AS flood"],
        ["*", f"{_source(seed)} AS src", f"{_target(seed)} AS dst", f"{_PROTOCOL} AS protocol"],
        [f"{_TIMESTAMP} AS ts", "src", "dst", "protocol", f"cast({_port()} AS INT) AS port", f"{_LENGTH} AS length"],
    ]


def _uniform(seed: int, number: int) -> str:
    """A number in [0, 1) that depends only on the row, the seed and its own number."""
    return f"pmod(xxhash64(value, {seed}, {number}), 1000003) / 1000003D"


def _source(seed: int) -> str:
    """The n-th most active source sends about 1/n of what the first one sends."""
    flooder = f"{SOURCES} + pmod(hash(round, {seed}), 50)"
    return f"CASE WHEN flood THEN {_address(flooder)} ELSE {_address(f'floor(pow({SOURCES}, u2))')} END"


def _target(seed: int) -> str:
    victim = f"5000 + pmod(hash({seed}, round), 9)"
    return f"CASE WHEN flood THEN {_address(victim)} ELSE {_address(f'5000 + floor(pow({TARGETS}, u3))')} END"


def _address(rank: str) -> str:
    """An address in 10.0.0.0/8."""
    return f"cast({10 << 24} + pmod(hash({rank}), {1 << 24}) AS INT)"


def _port() -> str:
    common = " ".join(f"WHEN u5 < {below} THEN {port}" for below, port in _TCP_PORTS)
    dynamic = "49152 + floor(u5 * 16384)"
    return (
        f"CASE WHEN flood THEN 123 WHEN protocol = 'TCP' THEN CASE {common} ELSE {dynamic} END "
        f"WHEN protocol = 'UDP' THEN CASE WHEN u5 < 0.6 THEN 53 WHEN u5 < 0.8 THEN 443 ELSE {dynamic} END ELSE 0 END"
    )


def dotted(address: int) -> str:
    """
    >>> dotted((10 << 24) + 258)
    '10.0.1.2'
    """
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
