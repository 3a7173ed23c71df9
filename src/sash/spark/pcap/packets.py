"""Captured packets as columns."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sash.spark.pcap import frames
from sash.spark.pcap.capture import Bytes, Records
from sash.spark.pcap.frames import ADDRESS_BYTES, ETHER, fields_of
from sash.spark.pcap.schema import SCHEMA

# As people call them; others go by their number.
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
