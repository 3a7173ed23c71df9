"""Writes twelve minutes of made-up packets, always the same ones: packets/part-1.csv to packets/part-4.csv.

A few hosts send most of the bytes. Connections begin with SYN, which is answered by SYN-ACK within a second. But

    10.0.0.99 knocks at one port after the other, from minute 6 to minute 8
    10.0.0.66 sends SYN to 10.0.1.5 and never answers, from minute 9 on: these connections stay half open
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2026, 3, 2, 9)
PORTS = {443: 60, 80: 20, 53: 15, 22: 5}
Packet = tuple[float, str, str, str, int, str, int]


def connections(chance: random.Random) -> list[Packet]:
    packets: list[Packet] = []
    for _ in range(1_500):
        second = chance.uniform(0, 715)
        src, dst = f"10.0.0.{1 + int(30 * chance.random() ** 3)}", f"10.0.1.{1 + int(8 * chance.random() ** 2)}"
        port = chance.choices(list(PORTS), list(PORTS.values()))[0]
        protocol = "UDP" if port == 53 else "TCP"
        if protocol == "TCP":
            packets.append((second, src, dst, protocol, port, "SYN", 40))
            packets.append((second + chance.uniform(0.01, 0.4), dst, src, protocol, port, "SYN-ACK", 40))
            packets.append((second + chance.uniform(0.5, 0.9), src, dst, protocol, port, "ACK", 40))
        sizes = [100 + 20 * chance.randrange(70) for _ in range(1 + int(8 * chance.random() ** 2))]
        packets += [(second + 1 + 0.3 * n, src, dst, protocol, port, "DATA", size) for n, size in enumerate(sizes)]
    return packets


def attacks() -> list[Packet]:
    knocks = [(360 + n / 5, "10.0.0.99", "10.0.1.3", "TCP", 1 + n, "SYN", 40) for n in range(600)]
    refusals = [(360 + n / 5 + 0.05, "10.0.1.3", "10.0.0.99", "TCP", 1 + n, "SYN-ACK", 40) for n in range(600)]
    half_open = [(540 + n / 2, "10.0.0.66", "10.0.1.5", "TCP", 20_000 + n, "SYN", 40) for n in range(350)]
    return knocks + refusals + half_open


def main() -> None:
    packets = sorted(packet for packet in connections(random.Random(11)) + attacks() if packet[0] < 720)
    Path("packets").mkdir(exist_ok=True)
    for part in range(4):
        inside = [packet for packet in packets if part * 180 <= packet[0] < (part + 1) * 180]
        lines = [",".join(map(str, (START + timedelta(milliseconds=int(1_000 * p[0])), *p[1:]))) for p in inside]
        Path("packets", f"part-{part + 1}.csv").write_text("\n".join(lines) + "\n")
    print(f"{len(packets)} packets in packets/")


if __name__ == "__main__":
    main()
