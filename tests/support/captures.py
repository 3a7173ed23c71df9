"""Captures: a small writer, and a reader that goes from packet to packet with `struct`, to compare with."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from sash.spark.pcap.frames import ETHER, SCHEMA, protocol_name

START = 1_767_225_600_000_000  # 2026-01-01 00:00 UTC
ETHERNET, RAW, SLL, SLL2, NULL, LOOP = 1, 101, 113, 276, 0, 108

# -- headers --------------------------------------------------------------------------------------------


def ethernet(payload: bytes, kind: int = 0x0800, vlans: Sequence[int] = ()) -> bytes:
    tags = b"".join(struct.pack(">HH", 0x88A8 if i + 1 < len(vlans) else 0x8100, vlan) for i, vlan in enumerate(vlans))
    return b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" + tags + struct.pack(">H", kind) + payload


def ipv4(src: str, dst: str, protocol: int, payload: bytes, fragment: int = 0, options: bytes = b"") -> bytes:
    words = 5 + len(options) // 4
    head = struct.pack(">BBHHHBBH", 0x40 | words, 0, 4 * words + len(payload), 1, fragment, 64, protocol, 0)
    return head + socket.inet_aton(src) + socket.inet_aton(dst) + options + payload


def ipv6(src: str, dst: str, protocol: int, payload: bytes) -> bytes:
    addresses = b"".join(ipaddress.IPv6Address(each).packed for each in (src, dst))
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 63) + addresses + payload


def tcp(src: int, dst: int, flags: int = 0x18) -> bytes:
    return struct.pack(">HHIIBBHHH", src, dst, 1, 1, 5 << 4, flags, 1024, 0, 0)


def udp(src: int, dst: int) -> bytes:
    return struct.pack(">HHHH", src, dst, 8, 0)


# -- files ----------------------------------------------------------------------------------------------


def classic(
    packets: Sequence[tuple[int, bytes]],
    link: int = ETHERNET,
    big: bool = False,
    nanos: bool = False,
    snap: int = 65535,
) -> bytes:
    """Packets are (time, bytes), the time in micro- or nanoseconds."""
    order, second = ">" if big else "<", 10**9 if nanos else 10**6
    parts = [struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nanos else 0xA1B2C3D4, 2, 4, 0, 0, snap, link)]
    for time, data in packets:
        kept = data[:snap]
        parts += [struct.pack(f"{order}IIII", time // second, time % second, len(kept), len(data)), kept]
    return b"".join(parts)


def block(order: str, type: int, body: bytes) -> bytes:
    padded = body + bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(padded) + 12)
    return struct.pack(f"{order}I", type) + size + padded + size


def section(order: str = "<") -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, link: int, snap: int = 0, resolution: int | None = None, offset: int | None = None) -> bytes:
    options = b"" if resolution is None else struct.pack(f"{order}HHBxxx", 9, 1, resolution)
    options += b"" if offset is None else struct.pack(f"{order}HHq", 14, 8, offset)
    return block(order, 1, struct.pack(f"{order}HHI", link, 0, snap) + options + (bytes(4) if options else b""))


def enhanced(order: str, number: int, ticks: int, data: bytes, length: int | None = None) -> bytes:
    high, low = divmod(ticks, 2**32)
    wire = len(data) if length is None else length
    return block(order, 6, struct.pack(f"{order}IIIII", number, high, low, len(data), wire) + data)


def simple(order: str, data: bytes, length: int | None = None) -> bytes:
    return block(order, 3, struct.pack(f"{order}I", len(data) if length is None else length) + data)


# -- the obvious way to read them -----------------------------------------------------------------------


def rows_of(capture: bytes) -> list[dict[str, Any]]:
    reader = blocks_one_by_one if capture[:4] == b"\x0a\x0d\x0d\x0a" else records_one_by_one
    rows = []
    for micros, link, number, length, data in reader(capture):
        row = dict.fromkeys(SCHEMA.names) | headers(data, link)
        row |= {"ts": micros, "interface": number, "length": length, "captured": len(data)}
        rows.append(row)
    return rows


def records_one_by_one(capture: bytes) -> Iterator[tuple[int | None, int, int, int, bytes]]:
    order = "<" if capture[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    parts = 1_000 if b"\x3c" in capture[:4] else 1
    if len(capture) < 24:
        return
    (link,) = struct.unpack_from(f"{order}I", capture, 20)
    at = 24
    while at + 16 <= len(capture):
        seconds, fraction, captured, length = struct.unpack_from(f"{order}IIII", capture, at)
        at += 16 + captured
        if at <= len(capture):
            yield seconds * 10**6 + fraction // parts, link, 0, length, capture[at - captured : at]


def blocks_one_by_one(capture: bytes) -> Iterator[tuple[int | None, int, int, int, bytes]]:
    at, order = 0, "<"
    interfaces: list[tuple[int, int, int, int]] = []
    while at + 12 <= len(capture):
        if capture[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            order, interfaces = ("<" if capture[at + 8] == 0x4D else ">"), []
        type, size = struct.unpack_from(f"{order}II", capture, at)
        body, at = capture[at + 8 : at + size - 4], at + size
        if at > len(capture):
            return
        if type == 1:
            interfaces.append(declared(body, order))
        elif type == 3:
            (length,) = struct.unpack_from(f"{order}I", body)
            link, snap, _, _ = interfaces[0]
            yield None, link, 0, length, body[4 : 4 + min(length, snap or length)]
        elif type == 6:
            number, high, low, captured, length = struct.unpack_from(f"{order}IIIII", body)
            link, _, resolution, offset = interfaces[number]
            units = 2 ** (resolution - 128) if resolution > 127 else 10**resolution
            micros = (high * 2**32 + low) * 10**6 // units + offset * 10**6
            yield micros, link, number, length, body[20 : 20 + captured]


def declared(body: bytes, order: str) -> tuple[int, int, int, int]:
    link, _, snap = struct.unpack_from(f"{order}HHI", body)
    at, resolution, offset = 8, 6, 0
    while at + 4 <= len(body):
        code, size = struct.unpack_from(f"{order}HH", body, at)
        if code == 9:
            resolution = body[at + 4]
        elif code == 14:
            (offset,) = struct.unpack_from(f"{order}q", body, at + 4)
        at += 4 + size + -size % 4
    return link, snap, resolution, offset


def headers(data: bytes, link: int) -> dict[str, Any]:
    kind, rest = network(data, link)
    row: dict[str, Any] = {}
    while kind in (0x8100, 0x88A8, 0x9100) and len(rest) >= 4:
        tag, kind = struct.unpack_from(">HH", rest)
        row.setdefault("vlan", tag & 0xFFF)
        rest = rest[4:]
    row["protocol"] = protocol_name(-1 if kind is None else ETHER + kind)
    if kind == 0x0800 and len(rest) >= 20 and rest[0] >> 4 == 4 and rest[0] & 15 >= 5:
        src, dst = (socket.inet_ntoa(rest[at : at + 4]) for at in (12, 16))
        row |= {"ip_version": 4, "ttl": rest[8], "src": src, "dst": dst}
        first = struct.unpack_from(">H", rest, 6)[0] & 0x1FFF == 0
        row |= transport(rest[9], rest[4 * (rest[0] & 15) :] if first else b"")
    elif kind == 0x86DD and len(rest) >= 40 and rest[0] >> 4 == 6:
        src, dst = (socket.inet_ntop(socket.AF_INET6, rest[at : at + 16]) for at in (8, 24))
        row |= {"ip_version": 6, "ttl": rest[7], "src": src, "dst": dst}
        row |= transport(*behind_extensions(rest[6], rest[40:]))
    return row


def network(data: bytes, link: int) -> tuple[int | None, bytes]:
    for known, size, at in ((ETHERNET, 14, 12), (SLL, 16, 14), (SLL2, 20, 0)):
        if link == known and len(data) >= size:
            (kind,) = struct.unpack_from(">H", data, at)
            return (None if link == ETHERNET and kind < 1536 else kind), data[size:]
    if link in (NULL, LOOP) and len(data) >= 4:
        return {2: 0x0800, 10: 0x86DD, 24: 0x86DD, 28: 0x86DD, 30: 0x86DD}.get(data[0] or data[3]), data[4:]
    if link in (RAW, 12, 14, 228, 229) and data:
        return {4: 0x0800, 6: 0x86DD}.get(data[0] >> 4), data
    return None, b""


def behind_extensions(protocol: int, rest: bytes) -> tuple[int, bytes]:
    while len(rest) >= 8 and protocol in (0, 43, 44, 51, 60, 135, 139, 140):
        if protocol == 44:
            if struct.unpack_from(">H", rest, 2)[0] >> 3:
                return rest[0], b""
            size = 8
        else:
            size = 4 * (rest[1] + 2) if protocol == 51 else 8 * (rest[1] + 1)
        protocol, rest = rest[0], rest[size:]
    return protocol, rest


def transport(protocol: int, rest: bytes) -> dict[str, Any]:
    row: dict[str, Any] = {"protocol": protocol_name(protocol)}
    if protocol in (6, 17, 33, 132, 136) and len(rest) >= 4:
        row["src_port"], row["dst_port"] = struct.unpack_from(">HH", rest)
        if protocol == 6 and len(rest) >= 14:
            row["tcp_flags"] = rest[13]
    return row
