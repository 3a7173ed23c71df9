"""How fast captures are read: compiled loops beside a Python loop over `struct`, and through Spark with --spark.

python -m benchmarks.run_captures [--packets 300000] [--spark] [--json]
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sash.spark.pcap.capture import read_capture
from sash.spark.pcap.frames import SCHEMA, packets_of
from tests.support.captures import START, classic, enhanced, ethernet, interface, ipv4, rows_of, section, tcp, udp

HOSTS = 5_000


def made_up(count: int) -> list[tuple[int, bytes]]:
    """Packets of some sizes between some hosts, two of three TCP."""
    chance = random.Random(1)
    hosts = [f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}" for _ in range(HOSTS)]
    packets = []
    for number in range(count):
        is_tcp = number % 3 > 0
        body = tcp(chance.randrange(65536), 443) if is_tcp else udp(53, chance.randrange(65536))
        body += bytes(chance.choice([0, 60, 500]))
        packet = ipv4(chance.choice(hosts), chance.choice(hosts), 6 if is_tcp else 17, body)
        packets.append((START + number * 10, ethernet(packet)))
    return packets


def rate(count: int, read: Callable[[], object]) -> int:
    """Packets a second, the best of three."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - began)
    return round(count / min(seconds))


def read_all(path: Path) -> int:
    return sum(packets_of(records, SCHEMA.names).num_rows for records in read_capture(path))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=300_000)
    parser.add_argument("--spark", action="store_true", help="also through spark.read")
    parser.add_argument("--json", action="store_true", help="the result as one JSON object")
    options = parser.parse_args()
    packets = made_up(options.packets)
    pcap = classic(packets)
    pcapng = section() + interface("<", 1) + b"".join(enhanced("<", 0, *packet) for packet in packets)
    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, data in (("pcap", pcap), ("pcapng", pcapng), ("pcap.gz", gzip.compress(pcap, 1))):
            path = Path(directory) / name
            path.write_bytes(data)
            found[name] = rate(options.packets, lambda path=path: read_all(path))  # type: ignore[misc]
        found["struct, pcap"] = rate(options.packets, lambda: rows_of(pcap))
        if options.spark:
            found["Spark, pcap"] = through_spark(Path(directory) / "pcap", options.packets)
    if options.json:
        print(json.dumps(found))
        return
    for name, per_second in found.items():
        print(f"{name:>14} {per_second:>12,} packets/s")


def through_spark(path: Path, count: int) -> int:
    from sash.spark.pcap.source import PcapSource
    from sash.spark.spark_session import acquire_own_session, release_own_session

    spark = acquire_own_session()
    try:
        spark.dataSource.register(PcapSource)
        frame = spark.read.format("pcap").load(str(path)).selectExpr("max(src)", "sum(length)")
        return rate(count, frame.collect)
    finally:
        release_own_session()


if __name__ == "__main__":
    main()
