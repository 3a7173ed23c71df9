"""Captures of nothing but sections and interfaces: neither time nor memory may depend on them as they please."""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from sash.core.errors import SourceError
from sash.spark.pcap import capture, pcapng
from sash.spark.pcap.capture import read_capture
from sash.spark.pcap.pcapng import MOST_INTERFACES, Blocks
from tests.spark.pcap.test_captures import PACKET, read
from tests.support.captures import ETHERNET, RAW, block, enhanced, interface, rows_of, section, simple

TENS = [None, 0, 3, 9]
# Times in powers of two are made exact one by one.
ALL = [None, 0, 9, 128 + 10]


def sections(count: int, interfaces: int = 3, resolutions: Sequence[int | None] = TENS) -> bytes:
    """In both byte orders; every interface has an offset of its own, and a packet."""
    parts = []
    for number in range(count):
        order = "<>"[number % 2]
        parts.append(section(order))
        for place in range(interfaces):
            link = RAW if place % 2 else ETHERNET
            parts.append(interface(order, link, 24 * place, resolutions[number % 4], number * interfaces - place))
            parts.append(enhanced(order, place, 3_000 + number, PACKET))
        parts.append(simple(order, PACKET))
    return b"".join(parts)


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and others."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def test_no_section_and_no_interface_has_work_of_its_own() -> None:
    """Compiled loops go over interfaces once; the rest does not depend on their number."""
    few, many = (np.frombuffer(sections(count), np.uint8) for count in (8, 4_000))
    Blocks().take(few)
    assert calls_of(lambda: Blocks().take(many)) < 2 * calls_of(lambda: Blocks().take(few))


def test_the_interfaces_of_a_section_are_forgotten_with_it() -> None:
    blocks = Blocks()
    for _ in range(3):
        blocks.take(np.frombuffer(sections(500, interfaces=7), np.uint8))
        assert len(blocks.interfaces) == 7
        assert blocks.interfaces.links.base is None, "a part of an array keeps the whole"


def test_an_option_that_goes_past_its_block_is_left_out(tmp_path: Path) -> None:
    """It says that it has eight bytes, and its block ends after four."""
    cut = block("<", 1, struct.pack("<HHIHHI", ETHERNET, 0, 0, 14, 8, 77))
    (tmp_path / "cut").write_bytes(section("<") + cut + enhanced("<", 0, 3_000, PACKET))
    (tmp_path / "without").write_bytes(section("<") + interface("<", ETHERNET) + enhanced("<", 0, 3_000, PACKET))
    assert read(tmp_path / "cut") == read(tmp_path / "without")


@pytest.mark.parametrize("piece", [512, 10_000, 2**24])
def test_many_sections_are_read_as_packet_by_packet(tmp_path: Path, piece: int) -> None:
    data = sections(200, resolutions=ALL)
    (tmp_path / "many").write_bytes(data)
    with patch.object(capture, "PIECE", piece):
        assert read(tmp_path / "many") == rows_of(data)


@pytest.mark.parametrize("piece", [64, 2**24])
def test_a_section_has_so_many_interfaces_and_no_more(tmp_path: Path, piece: int) -> None:
    path, one = tmp_path / "wide.pcapng", interface("<", RAW)
    with patch.object(capture, "PIECE", piece), patch.object(pcapng, "MOST_INTERFACES", 1_000):
        full = section() + one * 1_000
        path.write_bytes((full + enhanced("<", 999, 1, PACKET)) * 2)
        assert [row["interface"] for row in read(path)] == [999, 999]
        path.write_bytes(full + full + one * 2)
        reason = rf"wide\.pcapng is broken at byte {2 * len(full)}: a section of more than 1,000 interfaces"
        with pytest.raises(SourceError, match=reason):
            list(read_capture(path))


def test_the_limit_is_beyond_what_any_machine_has() -> None:
    blocks = Blocks()
    blocks.take(np.frombuffer(section() + interface("<", RAW) * MOST_INTERFACES, np.uint8))
    assert len(blocks.interfaces) == MOST_INTERFACES == 65_536
