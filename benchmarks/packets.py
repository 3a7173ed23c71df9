"""A seeded packet stream as Parquet files in the order of time, for benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_US = 1_700_000_000_000_000
DDL = "ts TIMESTAMP, src INT, dst INT, protocol INT, port INT, length INT"
_RANGES = {"src": (0, 1_000), "dst": (0, 1_000), "protocol": (0, 100), "port": (0, 100), "length": (40, 1_500)}


def generate(directory: Path, tuples: int, rate: int, files: int) -> Path:
    """Uniform packets at a constant rate; does nothing when the directory holds them already."""
    facts = {"tuples": tuples, "rate": rate, "files": files}
    stamp = directory / "facts.json"
    if stamp.exists() and json.loads(stamp.read_text()) == facts:
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    each = tuples // files
    for part in range(files):
        micros = START_US + np.arange(part * each, (part + 1) * each) * 1_000_000 // rate
        columns = {"ts": pa.array(micros, pa.timestamp("us", "UTC"))}
        columns |= {n: pa.array(random.integers(low, high, each, dtype=np.int32)) for n, (low, high) in _RANGES.items()}
        pq.write_table(pa.table(columns), directory / f"part-{part:05d}.parquet")
    stamp.write_text(json.dumps(facts))
    return directory


def parts(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.parquet"))


def rows_of(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def seconds_of(files: list[Path]) -> float:
    """How much event time some files span."""
    first = pq.read_table(files[0], columns=["ts"])["ts"][0].value
    last = pq.read_table(files[-1], columns=["ts"])["ts"][-1].value
    return float(last - first) / 1e6
