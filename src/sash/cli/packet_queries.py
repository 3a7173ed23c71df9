"""The demo's queries: what somebody who watches a network keeps on a wall of dashboards."""

from __future__ import annotations

import re

BYTES_PER_SECOND = "bytes_per_second"
TOP_TALKERS = "top_talkers_10s"
PROTOCOLS = "protocols_10s"
PORTS = "busy_ports_10s"
FLOODERS = "flooders_5s"

_SIZES = "AVG(length) AS average, STDDEV(length) AS deviation, MAX(length) AS largest"
_MOST = "ORDER BY bytes DESC LIMIT"


def demo_queries(rate: int) -> dict[str, str]:
    """Names and texts; thresholds follow the rate."""
    return {
        **_of_all_packets(),
        **_by_source(rate),
        **_by_protocol(),
        **_by_port(),
        **_by_target(rate),
        **_by_flow(rate),
    }


def _of_all_packets() -> dict[str, str]:
    total = "SELECT SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
    return {
        BYTES_PER_SECOND: f"{total} [WINDOW 1 sec SLIDE 1 sec]",
        "traffic_60s": f"{total} [WINDOW 60 sec SLIDE 10 sec]",
        "packet_sizes_30s": f"SELECT {_SIZES} FROM packets [WINDOW 30 sec SLIDE 5 sec]",
        "full_packets_20s": f"{total} [WINDOW 20 sec SLIDE 2 sec] WHERE length >= 1400",
    }


def _by_source(rate: int) -> dict[str, str]:
    select = "SELECT src, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
    tcp, udp = "WHERE protocol = 'TCP'", "WHERE protocol = 'UDP'"
    return {
        TOP_TALKERS: f"{select} [WINDOW 10 sec SLIDE 1 sec] GROUP BY src {_MOST} 10",
        "top_talkers_30s": f"{select} [WINDOW 30 sec SLIDE 2 sec] GROUP BY src {_MOST} 10",
        "top_talkers_60s": f"{select} [WINDOW 60 sec SLIDE 5 sec] GROUP BY src {_MOST} 10",
        "top_tcp_talkers_20s": f"{select} [WINDOW 20 sec SLIDE 5 sec] {tcp} GROUP BY src {_MOST} 10",
        FLOODERS: f"{select} [WINDOW 5 sec SLIDE 1 sec] {udp} GROUP BY src HAVING COUNT(*) > {rate // 2} {_MOST} 3",
    }


def _by_protocol() -> dict[str, str]:
    select = "SELECT protocol, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
    sizes = f"SELECT protocol, {_SIZES} FROM packets"
    return {
        PROTOCOLS: f"{select} [WINDOW 10 sec SLIDE 1 sec] GROUP BY protocol ORDER BY bytes DESC",
        "protocols_60s": f"{select} [WINDOW 60 sec SLIDE 10 sec] GROUP BY protocol ORDER BY bytes DESC",
        "protocol_sizes_30s": f"{sizes} [WINDOW 30 sec SLIDE 5 sec] GROUP BY protocol",
    }


def _by_port() -> dict[str, str]:
    select = "SELECT port, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
    lookups = "WHERE protocol = 'UDP' AND port = 53"
    return {
        PORTS: f"{select} [WINDOW 10 sec SLIDE 1 sec] GROUP BY port {_MOST} 5",
        "busy_ports_60s": f"{select} [WINDOW 60 sec SLIDE 10 sec] GROUP BY port {_MOST} 20",
        "web_20s": f"{select} [WINDOW 20 sec SLIDE 4 sec] WHERE port IN (80, 443, 8080) GROUP BY port",
        "name_lookups_15s": f"{select} [WINDOW 15 sec SLIDE 3 sec] {lookups} GROUP BY port",
    }


def _by_target(rate: int) -> dict[str, str]:
    select = "SELECT dst, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
    return {
        "top_targets_15s": f"{select} [WINDOW 15 sec SLIDE 3 sec] GROUP BY dst {_MOST} 10",
        "loaded_targets_5s": f"{select} [WINDOW 5 sec SLIDE 1 sec] GROUP BY dst HAVING COUNT(*) > {rate} {_MOST} 5",
    }


def _by_flow(rate: int) -> dict[str, str]:
    select = "SELECT src, dst, SUM(length) AS bytes FROM packets"
    by, large = "GROUP BY src, dst", "HAVING SUM(length) >"
    return {
        "big_flows_10s": f"{select} [WINDOW 10 sec SLIDE 2 sec] {by} {large} {50 * rate} {_MOST} 10",
        "big_flows_30s": f"{select} [WINDOW 30 sec SLIDE 6 sec] {by} {large} {150 * rate} {_MOST} 10",
        "bulk_flows_20s": f"{select} [WINDOW 20 sec SLIDE 4 sec] WHERE length >= 1000 {by} {_MOST} 10",
    }


def expansion(text: str) -> int:
    """How many windows a tuple falls into: what Spark's window() would copy it to.

    >>> expansion("SELECT SUM(v) FROM s [WINDOW 10 sec SLIDE 4 sec]")
    3
    """
    window = re.search(r"\[WINDOW (\d+) sec SLIDE (\d+) sec\]", text)
    assert window is not None, text
    return -(-int(window[1]) // int(window[2]))
