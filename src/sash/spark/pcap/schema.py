"""The columns of a captured packet."""

from __future__ import annotations

import pyarrow as pa

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
