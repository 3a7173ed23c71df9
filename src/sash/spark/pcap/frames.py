"""Captured packets as columns: the headers of captured frames, read by one compiled loop.

    link layer                          network layer                         transport layer
    Ethernet, Linux cooked (both),  ──► [VLAN tags] IPv4 with options,    ──► TCP, UDP, UDP-Lite, SCTP, DCCP: ports
    BSD loopback, raw IP                IPv6 with extension headers           TCP: flags

Each header is read only as far as it was captured; a missing field is -1. A fragment has ports only if it is the first
of its datagram.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from sash.spark.pcap import frames
from sash.spark.pcap.capture import Bytes, Int64s, Records

# Rows of the fields.
VLAN, VERSION, PROTOCOL, TTL, SRC_PORT, DST_PORT, TCP_FLAGS = range(7)
# A protocol that is not one of IP's is its EtherType plus this.
ETHER = 0x10000
# An address is the version of IP, then 4 or 16 bytes.
ADDRESS_BYTES = 17

# Link types (LINKTYPE_ in the registry of the format).
_NULL, _ETHERNET, _LOOP, _SLL, _SLL2 = 0, 1, 108, 113, 276
_RAW = (12, 14, 101, 228, 229)
_IPV4, _IPV6 = 0x0800, 0x86DD
_HOP_BY_HOP, _TCP, _UDP, _DCCP, _ROUTING, _FRAGMENT, _AUTHENTICATION = 0, 6, 17, 33, 43, 44, 51
_DESTINATION, _SCTP, _MOBILITY, _UDP_LITE, _HIP, _SHIM6 = 60, 132, 135, 136, 139, 140

Int32s = NDArray[np.int32]


def fields_of(records: Records) -> tuple[Int32s, Bytes, Bytes]:
    """A row per field, and the addresses of sources and destinations."""
    count = len(records)
    fields = np.full((7, count), -1, np.int32)
    sources, targets = np.zeros((count, ADDRESS_BYTES), np.uint8), np.zeros((count, ADDRESS_BYTES), np.uint8)
    kernel_fields(records.data, records.starts, records.ends, records.links, fields, sources, targets)
    return fields, sources, targets


@njit(cache=True, nogil=True)
def kernel_fields(
    data: Bytes, starts: Int64s, ends: Int64s, links: Int64s, fields: Int32s, sources: Bytes, targets: Bytes
) -> None:
    for packet in range(len(starts)):
        end = ends[packet]
        kind, at = _network(data, starts[packet], end, links[packet])
        while (kind == 0x8100 or kind == 0x88A8 or kind == 0x9100) and at + 4 <= end:
            if fields[VLAN, packet] < 0:
                fields[VLAN, packet] = _u16(data, at) & 0xFFF
            kind, at = _u16(data, at + 2), at + 4
        if kind >= 0:
            fields[PROTOCOL, packet] = ETHER + kind
        version = data[at] >> 4 if at < end else 0
        protocol = -1
        if kind == _IPV4 and version == 4 and at + 20 <= end and data[at] & 15 >= 5:
            protocol, above = _ipv4(data, at, fields[:, packet])
            _address(data, at + 12, 4, sources[packet])
            _address(data, at + 16, 4, targets[packet])
        elif kind == _IPV6 and version == 6 and at + 40 <= end:
            protocol, above = _ipv6(data, at, end, fields[:, packet])
            _address(data, at + 8, 16, sources[packet])
            _address(data, at + 24, 16, targets[packet])
        if protocol >= 0:
            fields[PROTOCOL, packet] = protocol
            _transport(data, above, end, protocol, fields[:, packet])


@njit(cache=True, nogil=True)
def _network(data: Bytes, at: int, end: int, link: int) -> tuple[int, int]:
    """The EtherType of what a frame carries (-1: unknown), and where that begins."""
    if link == _ETHERNET and at + 14 <= end:
        kind = _u16(data, at + 12)
        # Less is a length: no EtherType, but IEEE 802.2.
        return (kind if kind >= 0x600 else -1), at + 14
    if link == _SLL and at + 16 <= end:
        return _u16(data, at + 14), at + 16
    if link == _SLL2 and at + 20 <= end:
        return _u16(data, at), at + 20
    if link in (_NULL, _LOOP) and at + 4 <= end:
        # In the byte order of the capturing machine, which is unknown; the number is small.
        family = data[at] if data[at] else data[at + 3]
        if family == 2:
            return _IPV4, at + 4
        return (_IPV6 if family == 10 or family == 24 or family == 28 or family == 30 else -1), at + 4
    if link in _RAW and at < end:
        version = data[at] >> 4
        return (_IPV4 if version == 4 else _IPV6 if version == 6 else -1), at
    return -1, end


@njit(cache=True, nogil=True)
def _ipv4(data: Bytes, at: int, fields: Int32s) -> tuple[int, int]:
    """The protocol above, and where it begins: nowhere in a later fragment."""
    fields[VERSION], fields[TTL] = 4, data[at + 8]
    is_later_fragment = _u16(data, at + 6) & 0x1FFF != 0
    return int(data[at + 9]), -1 if is_later_fragment else at + 4 * int(data[at] & 15)


@njit(cache=True, nogil=True)
def _ipv6(data: Bytes, at: int, end: int, fields: Int32s) -> tuple[int, int]:
    """The same; extension headers are passed over as far as they were captured."""
    fields[VERSION], fields[TTL] = 6, data[at + 7]
    protocol, at = int(data[at + 6]), at + 40
    while at + 8 <= end:
        if protocol == _FRAGMENT:
            is_later_fragment = _u16(data, at + 2) & 0xFFF8 != 0
            protocol, at = int(data[at]), at + 8
            if is_later_fragment:
                return protocol, -1
        elif protocol == _AUTHENTICATION:
            protocol, at = int(data[at]), at + 4 * (int(data[at + 1]) + 2)
        elif protocol in (_HOP_BY_HOP, _ROUTING, _DESTINATION, _MOBILITY, _HIP, _SHIM6):
            protocol, at = int(data[at]), at + 8 * (int(data[at + 1]) + 1)
        else:
            break
    return protocol, at


@njit(cache=True, nogil=True)
def _transport(data: Bytes, at: int, end: int, protocol: int, fields: Int32s) -> None:
    if at < 0 or not (protocol in (_TCP, _UDP, _DCCP, _SCTP, _UDP_LITE) and at + 4 <= end):
        return
    fields[SRC_PORT], fields[DST_PORT] = _u16(data, at), _u16(data, at + 2)
    if protocol == _TCP and at + 14 <= end:
        fields[TCP_FLAGS] = data[at + 13]


@njit(cache=True, nogil=True)
def _address(data: Bytes, at: int, size: int, address: Bytes) -> None:
    address[0] = 4 if size == 4 else 6
    for place in range(size):
        address[1 + place] = data[at + place]


@njit(cache=True, inline="always")
def _u16(data: Bytes, at: int) -> int:
    return int(data[at]) * 256 + data[at + 1]


SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("protocol", pa.string()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("length", pa.int32()),
        ("captured", pa.int32()),
        ("ip_version", pa.int32()),
        ("ttl", pa.int32()),
        ("tcp_flags", pa.int32()),
        ("vlan", pa.int32()),
        ("interface", pa.int32()),
    ]
)


# Common names; other protocols are called by their numbers.
_IP_PROTOCOLS = {
    1: "ICMP", 2: "IGMP", 4: "IPIP", 6: "TCP", 17: "UDP", 33: "DCCP", 41: "6IN4", 47: "GRE", 50: "ESP", 51: "AH",
    58: "ICMPv6", 89: "OSPF", 103: "PIM", 112: "VRRP", 132: "SCTP", 136: "UDPLite",
}  # fmt: skip
_ETHER_TYPES = {0x0800: "IPv4", 0x0806: "ARP", 0x86DD: "IPv6", 0x8847: "MPLS", 0x8863: "PPPoE", 0x8864: "PPPoE",
                0x888E: "EAPOL", 0x88CC: "LLDP"}  # fmt: skip
_NUMBERS = {
    "src_port": frames.SRC_PORT,
    "dst_port": frames.DST_PORT,
    "ip_version": frames.VERSION,
    "ttl": frames.TTL,
    "tcp_flags": frames.TCP_FLAGS,
    "vlan": frames.VLAN,
}


def packets_of(records: Records, names: Sequence[str]) -> pa.RecordBatch:
    """The columns of these names, in their order."""
    fields, sources, targets = fields_of(records)
    makers: dict[str, Callable[[], pa.Array]] = {
        "ts": lambda: pa.array(records.micros, mask=~records.timed).cast(SCHEMA.field("ts").type),
        "src": lambda: _addresses(sources),
        "dst": lambda: _addresses(targets),
        "protocol": lambda: _named(pa.array(fields[frames.PROTOCOL]), protocol_name),
        "length": lambda: pa.array(np.minimum(records.lengths, 2**31 - 1).astype(np.int32)),
        "captured": lambda: pa.array((records.ends - records.starts).astype(np.int32)),
        "interface": lambda: pa.array(records.interfaces.astype(np.int32)),
    }
    arrays = []
    for name in names:
        if name in _NUMBERS:
            numbers = fields[_NUMBERS[name]]
            arrays.append(pa.array(numbers, mask=numbers < 0))
        else:
            arrays.append(makers[name]())
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in names]))


def _addresses(addresses: Bytes) -> pa.Array:
    type = pa.binary(ADDRESS_BYTES)
    return _named(pa.Array.from_buffers(type, len(addresses), [None, pa.py_buffer(addresses)]), address_name)


def _named(values: pa.Array, name: Callable[[Any], str | None]) -> pa.Array:
    """Each different value is named once: a capture has far fewer of them than packets."""
    encoded = values.dictionary_encode()
    return pc.take(pa.array([name(value) for value in encoded.dictionary.to_pylist()], pa.string()), encoded.indices)


@lru_cache(maxsize=100_000)
def address_name(address: bytes) -> str | None:
    if address[0] == 4:
        return socket.inet_ntop(socket.AF_INET, address[1:5])
    return socket.inet_ntop(socket.AF_INET6, address[1:]) if address[0] else None


@cache
def protocol_name(protocol: int) -> str | None:
    """
    >>> protocol_name(6), protocol_name(253), protocol_name(ETHER + 0x0806), protocol_name(ETHER + 0x22F0)
    ('TCP', '253', 'ARP', '0x22F0')
    """
    if protocol < 0:
        return None
    if protocol >= ETHER:
        return _ETHER_TYPES.get(protocol - ETHER, f"0x{protocol - ETHER:04X}")
    return _IP_PROTOCOLS.get(protocol, str(protocol))
