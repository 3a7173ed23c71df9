"""The demo's queries: what somebody who watches a network keeps on a wall of dashboards."""

from __future__ import annotations

import re

BYTES_PER_SECOND = "bytes_per_second"
TOP_TALKERS = "top_talkers_10s"
PROTOCOLS = "protocols_10s"
PORTS = "busy_ports_10s"
FLOODERS = "flooders_5s"
SIZES = "packet_sizes_30s"

_BY_SOURCE = "SELECT src, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
_BY_PROTOCOL = "SELECT protocol, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
_BY_PORT = "SELECT port, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
_BY_TARGET = "SELECT dst, SUM(length) AS bytes, COUNT(*) AS packets FROM packets"
_BY_FLOW = "SELECT src, dst, SUM(length) AS bytes FROM packets"
_SIZES = "AVG(length) AS average, STDDEV(length) AS deviation, MAX(length) AS largest FROM packets"
_MOST = "ORDER BY bytes DESC LIMIT"


def demo_queries(rate: int) -> dict[str, str]:
    """Names and texts; thresholds follow the rate."""
    return {
        BYTES_PER_SECOND: "SELECT SUM(length) AS bytes, COUNT(*) AS packets FROM packets [WINDOW 1 sec SLIDE 1 sec]",
        "traffic_60s": "SELECT SUM(length) AS bytes, COUNT(*) AS packets FROM packets [WINDOW 60 sec SLIDE 10 sec]",
        SIZES: f"SELECT {_SIZES} [WINDOW 30 sec SLIDE 5 sec]",
        "full_packets_20s": "SELECT COUNT(*) AS packets FROM packets [WINDOW 20 sec SLIDE 2 sec] WHERE length >= 1400",
        TOP_TALKERS: f"{_BY_SOURCE} [WINDOW 10 sec SLIDE 1 sec] GROUP BY src {_MOST} 10",
        "top_talkers_30s": f"{_BY_SOURCE} [WINDOW 30 sec SLIDE 2 sec] GROUP BY src {_MOST} 10",
        "top_talkers_60s": f"{_BY_SOURCE} [WINDOW 60 sec SLIDE 5 sec] GROUP BY src {_MOST} 10",
        "top_tcp_talkers_20s": f"{_BY_SOURCE} [WINDOW 20 sec SLIDE 5 sec] WHERE protocol = 'TCP' GROUP BY src {_MOST} 10",
        FLOODERS: f"{_BY_SOURCE} [WINDOW 5 sec SLIDE 1 sec] WHERE protocol = 'UDP' GROUP BY src "
        f"HAVING COUNT(*) > {5 * rate // 10} {_MOST} 3",
        PROTOCOLS: f"{_BY_PROTOCOL} [WINDOW 10 sec SLIDE 1 sec] GROUP BY protocol ORDER BY bytes DESC",
        "protocols_60s": f"{_BY_PROTOCOL} [WINDOW 60 sec SLIDE 10 sec] GROUP BY protocol ORDER BY bytes DESC",
        "sizes_by_protocol_30s": f"SELECT protocol, {_SIZES} [WINDOW 30 sec SLIDE 5 sec] GROUP BY protocol",
        PORTS: f"{_BY_PORT} [WINDOW 10 sec SLIDE 2 sec] GROUP BY port {_MOST} 5",
        "busy_ports_60s": f"{_BY_PORT} [WINDOW 60 sec SLIDE 10 sec] GROUP BY port {_MOST} 20",
        "web_20s": f"{_BY_PORT} [WINDOW 20 sec SLIDE 4 sec] WHERE port IN (80, 443, 8080) GROUP BY port",
        "name_lookups_15s": "SELECT port, COUNT(*) AS packets FROM packets [WINDOW 15 sec SLIDE 3 sec] "
        "WHERE protocol = 'UDP' AND port = 53 GROUP BY port",
        "top_targets_15s": f"{_BY_TARGET} [WINDOW 15 sec SLIDE 3 sec] GROUP BY dst {_MOST} 10",
        "targets_under_load_5s": f"{_BY_TARGET} [WINDOW 5 sec SLIDE 1 sec] GROUP BY dst HAVING COUNT(*) > {rate} {_MOST} 5",
        "big_flows_10s": f"{_BY_FLOW} [WINDOW 10 sec SLIDE 2 sec] GROUP BY src, dst HAVING SUM(length) > {50 * rate} {_MOST} 10",
        "big_flows_30s": f"{_BY_FLOW} [WINDOW 30 sec SLIDE 6 sec] GROUP BY src, dst HAVING SUM(length) > {150 * rate} {_MOST} 10",
        "bulk_flows_20s": f"{_BY_FLOW} [WINDOW 20 sec SLIDE 4 sec] WHERE length >= 1000 GROUP BY src, dst {_MOST} 10",
    }


def expansion(text: str) -> int:
    """How many windows a tuple falls into: what Spark's window() would copy it to.

    >>> expansion("SELECT SUM(v) FROM s [WINDOW 10 sec SLIDE 4 sec]")
    3
    """
    window = re.search(r"\[WINDOW (\d+) sec SLIDE (\d+) sec\]", text)
    assert window is not None, text
    return -(-int(window[1]) // int(window[2]))
