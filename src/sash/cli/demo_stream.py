"""The demo's packet stream and queries: skewed addresses, changing traffic, and a flood every now and then.

Everything is a function of the row's number and the seed, computed by Spark's generated code, so that two runs with the
same seed and rate see the same packets and give the same answers. Spark's `rate` source follows the wall clock: when a
micro-batch takes long, the next one is larger, and nothing falls behind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sash.core.time import EPOCH, SECOND, to_micros

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES_PER_SECOND = "bytes_per_second"
TOP_TALKERS = "top_talkers_10s"
PROTOCOLS = "protocols_10s"
PORTS = "busy_ports_10s"
FLOODERS = "flooders_5s"

_SIZES = "AVG(length) AS average, STDDEV(length) AS deviation, MAX(length) AS largest"
_MOST = "ORDER BY bytes DESC LIMIT"


def demo_queries(rate: int) -> dict[str, str]:
    """Names and texts; thresholds follow the rate."""
    totals = "SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
    total, by_src, by_protocol = f"SELECT {totals}", f"SELECT src, {totals}", f"SELECT protocol, {totals}"
    by_port, by_dst = f"SELECT port, {totals}", f"SELECT dst, {totals}"
    by_flow = "SELECT src, dst, SUM(length) AS bytes FROM packets"
    flow, large = "GROUP BY src, dst", "HAVING SUM(length) >"
    tcp, udp, lookups = "WHERE protocol = 'TCP'", "WHERE protocol = 'UDP'", "WHERE protocol = 'UDP' AND port = 53"
    many = f"HAVING COUNT(*) > {rate // 2}"
    return {
        BYTES_PER_SECOND: f"{total} [WINDOW 1 sec SLIDE 1 sec]",
        "traffic_60s": f"{total} [WINDOW 60 sec SLIDE 10 sec]",
        "packet_sizes_30s": f"SELECT {_SIZES} FROM packets [WINDOW 30 sec SLIDE 5 sec]",
        "full_packets_20s": f"{total} [WINDOW 20 sec SLIDE 2 sec] WHERE length >= 1400",
        TOP_TALKERS: f"{by_src} [WINDOW 10 sec SLIDE 1 sec] GROUP BY src {_MOST} 10",
        "top_talkers_30s": f"{by_src} [WINDOW 30 sec SLIDE 2 sec] GROUP BY src {_MOST} 10",
        "top_talkers_60s": f"{by_src} [WINDOW 60 sec SLIDE 5 sec] GROUP BY src {_MOST} 10",
        "top_tcp_talkers_20s": f"{by_src} [WINDOW 20 sec SLIDE 5 sec] {tcp} GROUP BY src {_MOST} 10",
        FLOODERS: f"{by_src} [WINDOW 5 sec SLIDE 1 sec] {udp} GROUP BY src {many} {_MOST} 3",
        PROTOCOLS: f"{by_protocol} [WINDOW 10 sec SLIDE 1 sec] GROUP BY protocol ORDER BY bytes DESC",
        "protocols_60s": f"{by_protocol} [WINDOW 60 sec SLIDE 10 sec] GROUP BY protocol ORDER BY bytes DESC",
        "protocol_sizes_30s": f"SELECT protocol, {_SIZES} FROM packets [WINDOW 30 sec SLIDE 5 sec] GROUP BY protocol",
        PORTS: f"{by_port} [WINDOW 10 sec SLIDE 1 sec] GROUP BY port {_MOST} 5",
        "busy_ports_60s": f"{by_port} [WINDOW 60 sec SLIDE 10 sec] GROUP BY port {_MOST} 20",
        "web_20s": f"{by_port} [WINDOW 20 sec SLIDE 4 sec] WHERE port IN (80, 443, 8080) GROUP BY port",
        "name_lookups_15s": f"{by_port} [WINDOW 15 sec SLIDE 3 sec] {lookups} GROUP BY port",
        "top_targets_15s": f"{by_dst} [WINDOW 15 sec SLIDE 3 sec] GROUP BY dst {_MOST} 10",
        "loaded_targets_5s": f"{by_dst} [WINDOW 5 sec SLIDE 1 sec] GROUP BY dst HAVING COUNT(*) > {rate} {_MOST} 5",
        "big_flows_10s": f"{by_flow} [WINDOW 10 sec SLIDE 2 sec] {flow} {large} {50 * rate} {_MOST} 10",
        "big_flows_30s": f"{by_flow} [WINDOW 30 sec SLIDE 6 sec] {flow} {large} {150 * rate} {_MOST} 10",
        "bulk_flows_20s": f"{by_flow} [WINDOW 20 sec SLIDE 4 sec] WHERE length >= 1000 {flow} {_MOST} 10",
    }


def expansion(text: str) -> int:
    """How many windows a tuple falls into: Spark's window() would make as many copies.

    >>> expansion("SELECT SUM(v) FROM s [WINDOW 10 sec SLIDE 4 sec]")
    3
    """
    window = re.search(r"\[WINDOW (\d+) sec SLIDE (\d+) sec\]", text)
    assert window is not None, text
    return -(-int(window[1]) // int(window[2]))


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
    frame = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
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
