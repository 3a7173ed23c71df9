"""Captures against a reader that goes from packet to packet."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import SourceError
from sash.core.time import LATEST
from sash.spark.pcap import capture
from sash.spark.pcap.capture import read_capture
from sash.spark.pcap.frames import SCHEMA, packets_of
from sash.spark.pcap.source import CaptureStreamReader, PcapPart, ReadAllAvailable, ReadMaxFiles, read_part
from tests.support.captures import (
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    SLL,
    SLL2,
    START,
    block,
    classic,
    enhanced,
    ethernet,
    interface,
    ipv4,
    ipv6,
    rows_of,
    section,
    simple,
    tcp,
    udp,
)

LINKS = [ETHERNET, RAW, SLL, SLL2, NULL, LOOP, 228, 229, 147]
PACKET = ipv4("10.0.0.1", "10.0.0.2", 6, tcp(1234, 443))


def read(path: Path, after: int = 0, until: int | None = None) -> list[dict[str, Any]]:
    rows = []
    for batch in read_part(PcapPart(str(path), after, until), SCHEMA.names):
        times = batch.column("ts").cast("int64").to_pylist()
        rows += [row | {"ts": time} for row, time in zip(batch.to_pylist(), times, strict=True)]
    return rows


def one(packet: bytes, link: int, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "one").write_bytes(classic([(START, packet)], link))
    (row,) = read(tmp_path / "one")
    return row


# -- what the headers say -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "frame"),
    [
        (ETHERNET, ethernet(PACKET)),
        (RAW, PACKET),
        (228, PACKET),
        (SLL, bytes(14) + b"\x08\x00" + PACKET),
        (SLL2, b"\x08\x00" + bytes(18) + PACKET),
        (NULL, b"\x02\0\0\0" + PACKET),
        (LOOP, b"\0\0\0\x02" + PACKET),
    ],
)
def test_every_link_type_leads_to_the_packet(link: int, frame: bytes, tmp_path: Path) -> None:
    row = one(frame, link, tmp_path)
    assert row == {
        "ts": START, "src": "10.0.0.1", "dst": "10.0.0.2", "protocol": "TCP", "src_port": 1234, "dst_port": 443,
        "length": len(frame), "captured": len(frame), "ip_version": 4, "ttl": 64, "tcp_flags": 0x18, "vlan": None,
        "interface": 0,
    }  # fmt: skip


def test_vlan_tags_options_and_fragments(tmp_path: Path) -> None:
    tagged = one(ethernet(PACKET, vlans=[100, 7]), ETHERNET, tmp_path)
    assert (tagged["vlan"], tagged["dst_port"]) == (100, 443)
    with_options = one(ipv4("1.2.3.4", "5.6.7.8", 17, udp(53, 5353), options=bytes(8)), RAW, tmp_path)
    assert (with_options["protocol"], with_options["src_port"]) == ("UDP", 53)
    first = one(ipv4("1.2.3.4", "5.6.7.8", 17, udp(53, 5353), fragment=0x2000), RAW, tmp_path)
    later = one(ipv4("1.2.3.4", "5.6.7.8", 17, udp(53, 5353), fragment=0x2001), RAW, tmp_path)
    assert (first["src_port"], later["src_port"]) == (53, None) and later["protocol"] == "UDP"


def test_ipv6_with_extension_headers(tmp_path: Path) -> None:
    hop_by_hop = bytes([60, 0, *[0] * 6])
    options = bytes([44, 1, *[0] * 14])
    for place, port in ((0, 8080), (8, None)):
        fragment = bytes([6, 0, 0, place, 0, 0, 0, 1])
        row = one(ipv6("2001:db8::1", "::1", 0, hop_by_hop + options + fragment + tcp(9, 8080)), RAW, tmp_path)
        assert (row["src"], row["dst"], row["protocol"], row["ttl"]) == ("2001:db8::1", "::1", "TCP", 63)
        assert row["dst_port"] == port


def test_what_is_not_ip_or_was_not_captured(tmp_path: Path) -> None:
    assert one(ethernet(bytes(28), kind=0x0806), ETHERNET, tmp_path)["protocol"] == "ARP"
    assert one(ethernet(PACKET[:19]), ETHERNET, tmp_path)["protocol"] == "IPv4"
    assert one(ethernet(bytes(46), kind=46), ETHERNET, tmp_path)["protocol"] is None
    assert one(PACKET, 147, tmp_path)["protocol"] is None, "a link type that is not known here"
    assert one(ethernet(PACKET[:33]), ETHERNET, tmp_path)["tcp_flags"] is None
    (tmp_path / "snapped").write_bytes(classic([(START, PACKET)], RAW, snap=24))
    (row,) = read(tmp_path / "snapped")
    assert (row["length"], row["captured"], row["dst_port"], row["tcp_flags"]) == (40, 24, 443, None)


# -- files ----------------------------------------------------------------------------------------------


def test_pcapng_with_sections_of_both_byte_orders_and_units_of_their_own(tmp_path: Path) -> None:
    parts = []
    for order in "<>":
        parts += [
            section(order),
            interface(order, RAW, resolution=9, offset=1_000),
            enhanced(order, 0, (START - 10**9) * 1_000 + 999, PACKET, length=1_500),
            interface(order, ETHERNET, snap=40, resolution=128 + 10),
            enhanced(order, 1, 1024 + 512, ethernet(PACKET)),
            simple(order, PACKET[:40]),
        ]
    (tmp_path / "ng").write_bytes(b"".join(parts))
    rows = read(tmp_path / "ng")
    assert [(row["ts"], row["interface"]) for row in rows] == [(START, 0), (1_500_000, 1), (None, 0)] * 2
    assert {row["dst_port"] for row in rows} == {443} and rows[0]["length"] == 1_500


def test_a_time_beyond_all_calendars_stays_beyond_them(tmp_path: Path) -> None:
    for resolution in (0, 6, 9, 128, 138):
        start = section() + interface("<", RAW, 0, resolution, 2**62)
        (tmp_path / "far").write_bytes(start + enhanced("<", 0, 2**64 - 1, PACKET))
        (records,) = read_capture(tmp_path / "far")
        assert records.micros[0] > LATEST and packets_of(records, ["ts"]).num_rows == 1


frame = st.one_of(
    st.binary(max_size=80),
    st.builds(
        lambda inner, kind, vlans: ethernet(inner, kind, vlans),
        st.one_of(st.just(PACKET), st.just(ipv6("::1", "::2", 17, udp(1, 2))), st.binary(max_size=60)),
        st.sampled_from([0x0800, 0x86DD, 0x0806, 100]),
        st.lists(st.integers(0, 0xFFFF), max_size=3),
    ),
    st.builds(
        ipv4,
        st.just("9.8.7.6"),
        st.just("0.0.0.1"),
        st.sampled_from([1, 6, 17, 132, 200]),
        st.binary(max_size=24),
        st.sampled_from([0, 0x2000, 0x2003]),
        st.sampled_from([b"", bytes(4), bytes(40)]),
    ),
    st.builds(
        lambda next, body: ipv6("2001:db8::ff", "::ffff:1.2.3.4", next, body),
        st.sampled_from([0, 6, 17, 43, 44, 51, 58, 59, 60]),
        st.one_of(st.binary(max_size=60), st.just(bytes([44, 0, *[0] * 6, 6, *[0] * 7]) + tcp(5, 6))),
    ),
)


@st.composite
def captures(draw: st.DrawFn) -> bytes:
    link = draw(st.sampled_from(LINKS))
    packets = draw(st.lists(st.tuples(st.integers(0, 2**31 * 10**6), frame), max_size=8))
    if draw(st.booleans()):
        return classic(packets, link, draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from([20, 65_535])))
    parts = []
    for order in draw(st.lists(st.sampled_from("<>"), min_size=1, max_size=3)):
        parts.append(section(order))
        links = draw(st.lists(st.sampled_from(LINKS), min_size=1, max_size=3))
        resolutions = [draw(st.sampled_from([None, 0, 3, 6, 9, 20, 128 + 1, 128 + 30])) for _ in links]
        snaps = st.sampled_from([0, 33])
        parts += [
            interface(order, *each) for each in zip(links, (draw(snaps) for _ in links), resolutions, strict=True)
        ]
        for micros, data in packets:
            if draw(st.booleans()):
                number = draw(st.integers(0, len(links) - 1))
                resolution = 6 if resolutions[number] is None else resolutions[number]
                units = 2 ** (resolution - 128) if resolution > 127 else 10**resolution
                parts.append(enhanced(order, number, min(micros * units // 10**6, 2**64 - 1), data))
            else:
                # No more bytes than the interface's snap length, as writers have it.
                parts.append(simple(order, data[:33], len(data)))
    return b"".join(parts)


@given(data=captures(), cut=st.integers(0, 40), piece=st.sampled_from([64, 1_000, 2**20]), zipped=st.booleans())
def test_any_capture_is_read_as_packet_by_packet(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int, piece: int, zipped: bool
) -> None:
    """Also where it ends too early, in whatever pieces, and compressed."""
    data = data[: max(0, len(data) - cut)]
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(gzip.compress(data) if zipped else data)
    with patch.object(capture, "PIECE", piece):
        assert read(path) == (rows_of(data) if len(data) >= 4 else [])


@given(data=captures(), cuts=st.lists(st.integers(0, 2_000), max_size=5), piece=st.sampled_from([64, 2**20]))
def test_ranges_that_follow_each_other_have_every_packet_once(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int], piece: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "growing"
    path.write_bytes(data)
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    with patch.object(capture, "PIECE", piece):
        parts = [read(path, after, until) for after, until in pairwise(bounds)]
    assert [row for part in parts for row in part] == rows_of(data)


def broken() -> Iterator[tuple[bytes, int, str]]:
    good = classic([(START, PACKET)], RAW)
    yield b"what is this", 0, "neither pcap nor pcapng"
    yield good + b"\xff" * 16, len(good), "a packet of 4294967295 captured bytes"
    start = section() + interface("<", RAW)
    for length in (7, 18, 2**28):  # less than any, no multiple of four, more than any
        yield start + struct.pack("<II", 6, length) + bytes(12), len(start), "a block whose length is none"
    yield start + enhanced("<", 0, 1, PACKET)[:-4] + bytes(4), len(start), "two lengths differ"
    yield start + enhanced("<", 1, 1, PACKET), len(start), "an interface that its section does not have"
    yield section() + simple("<", PACKET), 28, "an interface that its section does not have"
    yield start + section() + enhanced("<", 0, 1, PACKET), len(start) + 28, "an interface that its section does not"
    early = enhanced("<", 1, 1, PACKET) + interface("<", RAW)
    yield start + early, len(start), "an interface that its section does not have before it"
    yield section() + block("<", 1, bytes(4)), 28, "an interface block that is shorter than its own fields"


@pytest.mark.parametrize(("data", "at", "reason"), list(broken()))
def test_a_broken_file_is_named_with_the_byte(data: bytes, at: int, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.pcap"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=rf"broken\.pcap is broken at byte {at}: .*{reason}"):
        list(read_capture(path))


def test_a_broken_compression_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(classic([(START, PACKET)] * 50, RAW), mtime=0)
    path = tmp_path / "b.gz"
    path.write_bytes(whole[:20] + bytes(20) + whole[40:])
    with pytest.raises(SourceError, match=r"b\.gz cannot be decompressed"):
        list(read_capture(path))
    path.write_bytes(whole[:-8])
    assert len(read(path)) == 50, "cut off, not broken"


def test_only_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(classic([(START, PACKET)], RAW))
    (records,) = read_capture(tmp_path / "one")
    assert packets_of(records, ["dst_port", "ts"]).schema.names == ["dst_port", "ts"]


# -- the offsets of a stream ----------------------------------------------------------------------------


def parts(reader: CaptureStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int | None]]:
    found = reader.partitions(start, end)
    return [(Path(part.path).name, part.after, part.until) for part in found if isinstance(part, PcapPart)]


def test_new_and_grown_files_are_taken_once(tmp_path: Path) -> None:
    reader = CaptureStreamReader({"path": str(tmp_path)}, SCHEMA.names)
    (tmp_path / "_hidden").write_bytes(b"x")
    (tmp_path / "a").write_bytes(b"12345")
    first = reader.latestOffset({}, ReadAllAvailable())
    assert parts(reader, {}, first) == [("a", 0, 5)]
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    (tmp_path / "a").write_bytes(b"12345678")
    (tmp_path / "b").write_bytes(b"12")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"123"))
    second = reader.latestOffset(first, ReadAllAvailable())
    assert parts(reader, first, second) == [("a", 5, 8), ("b", 0, 2), ("c.gz", 0, None)]
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_bytes(b"1")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"123456789"))
    third = reader.latestOffset(second, ReadAllAvailable())
    assert parts(reader, second, third) == [("b", 0, 1)], "begun anew; what is compressed is taken once"
    assert {Path(path).name for path in third} == {"b", "c.gz"}


def test_the_oldest_files_come_first_and_at_most_so_many(tmp_path: Path) -> None:
    for name, time in (("b", 1), ("a", 2), ("c", 3)):
        (tmp_path / name).write_bytes(b"1234")
        os.utime(tmp_path / name, (time, time))
    reader = CaptureStreamReader({"path": str(tmp_path / "*"), "maxFilesPerTrigger": "2"}, SCHEMA.names)
    assert reader.getDefaultReadLimit() == ReadMaxFiles(2)
    reader.prepareForTriggerAvailableNow()
    (tmp_path / "later").write_bytes(b"1")
    first = reader.latestOffset({}, ReadMaxFiles(2))
    second = reader.latestOffset(first, ReadMaxFiles(2))
    assert [part[0] for part in parts(reader, {}, first)] == ["b", "a"]
    assert [part[0] for part in parts(reader, first, second)] == ["c"]
    assert reader.latestOffset(second, ReadMaxFiles(2)) == second
