"""Overload that lasts: input at twice the rate that can be sustained, then little of it; memory, lag and recovery.

    python -m benchmarks.run_soak                  half an hour
    python -m benchmarks.run_soak --minutes 2      a short one
    python -m benchmarks.run_soak --keep 1         no load is shed: the rest waits in the source

First the sustainable rate is measured: files of packets, forty queries, drained. Then another process writes files at
twice that rate for four fifths of the time, and at a quarter of it for the last fifth, while the session runs live. The
source gives at most --files files to a micro-batch (back-pressure: the rest waits on disk), and the stream keeps a part
of the tuples while it is overloaded. Every second the memory of the Sash process and of the JVM is looked at. Memory is
flat when in the last third of the overload neither process needs a tenth more than in the middle third. Recovered:
overload has ended by itself, and nine tenths or more of what was written have been taken (sampled or not). Goes to
benchmarks/out/soak.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import sash
from benchmarks.packets import DDL, START_US, generate

OUT = Path(__file__).parent / "out"
TRIGGER = 2
FILES_PER_SECOND = 2
SECOND_US = 1_000_000
KEYS = ("src", "dst", "port", "protocol", "src, protocol")
CONDITIONS = ("", "WHERE length > 100", "WHERE port < 50", "WHERE protocol = 6")
WINDOWS = ("[WINDOW 10 sec SLIDE 2 sec]", "[WINDOW 60 sec SLIDE 4 sec]")


def declare(session: sash.Session, data: Path, files: int, keep: float) -> None:
    shed = "" if keep == 1 else f"SHED RANDOM {keep}"
    options = f"OPTIONS (path '{data}', maxFilesPerTrigger '{files}', cleanSource 'delete', pathGlobFilter '*.parquet')"
    session.sql(f"CREATE STREAM packets ({DDL}) FROM parquet {options} TIMESTAMP ts {shed}")
    for i, (keys, condition, window) in enumerate((k, c, w) for k in KEYS for c in CONDITIONS for w in WINDOWS):
        select = f"SELECT {keys}, SUM(length) AS bytes, COUNT(*) AS packets, AVG(length) AS mean"
        session.register(f"{select} FROM packets {window} {condition} GROUP BY {keys}", name=f"q{i}")


def sustainable(directory: Path, tuples: int, files: int) -> float:
    """Tuples per second of a session that has nothing to wait for, when its code is warm."""
    with sash.connect(keep_answers=2) as session:
        data = generate(directory, files * 3 * tuples, 100_000, files * 3)
        declare(session, data, files, 1)
        marks: list[tuple[float, int]] = []
        session.queries["q0"].subscribe(
            lambda answer: marks.append((time.perf_counter(), session.stats()["streams"]["packets"]["micro_batches"]))
        )
        session.run()
    # By the last two of three micro-batches: the first warms up.
    ends = {batch: moment for moment, batch in marks}
    batches = sorted(ends)
    return (batches[-1] - batches[0]) * files * tuples / (ends[batches[-1]] - ends[batches[0]])


def produce(directory: Path, rate: float, busy: float, calm: float) -> None:
    """Files at twice a rate, then at a quarter of it; each comes into the directory as a whole."""
    chance, number, begun, micros = np.random.default_rng(7), 0, time.monotonic(), START_US
    while (passed := time.monotonic() - begun) < busy + calm:
        tuples = round((2 * rate if passed < busy else rate / 4) / FILES_PER_SECOND)
        stamps = micros + np.arange(tuples) * (SECOND_US // FILES_PER_SECOND) // tuples
        micros += SECOND_US // FILES_PER_SECOND
        ranges = {"src": 1_000, "dst": 1_000, "protocol": 100, "port": 100, "length": 1_500}
        columns = {"ts": pa.array(stamps, pa.timestamp("us", "UTC"))}
        columns |= {name: pa.array(chance.integers(0, most, tuples, dtype=np.int32)) for name, most in ranges.items()}
        draft = directory.parent / "draft.parquet"
        pq.write_table(pa.table(columns), draft)
        draft.rename(directory / f"part-{number:07d}.parquet")
        number += 1
        time.sleep(max(0.0, begun + number / FILES_PER_SECOND - time.monotonic()))


def looked_at(session: sash.Session, begun: float) -> dict[str, Any]:
    own = psutil.Process()
    jvm = sum(child.memory_info().rss for child in own.children(recursive=True) if "java" in child.name())
    stats = session.stats()["streams"]["packets"]
    names = ("tuples", "shed_tuples", "micro_batches", "slow_batches", "overloaded", "kept_part")
    memory = {"python": own.memory_info().rss, "jvm": jvm}
    return {"at": time.monotonic() - begun, **memory, **{name: stats[name] for name in names}}


def soak(rate: float, minutes: float, files: int, keep: float) -> dict[str, Any]:
    busy, calm = minutes * 48, minutes * 12
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        data.mkdir()
        command = [sys.executable, "-m", "benchmarks.run_soak", "--produce", str(data), str(rate), str(busy), str(calm)]
        with sash.connect(checkpoint=f"{scratch}/checkpoint", keep_answers=2) as session:
            declare(session, data, files, keep)
            producer, begun = subprocess.Popen(command), time.monotonic()
            samples: list[dict[str, Any]] = []
            session.start(trigger=f"{TRIGGER} seconds")
            # Wait for the rest as long as it took to come.
            while producer.poll() is None or (samples[-1]["overloaded"] and time.monotonic() - begun < minutes * 120):
                if session.wait(1):
                    break
                samples.append(looked_at(session, begun))
            say(f"stopped after {time.monotonic() - begun:.0f} s")
            session.stop()
    return judged(samples, rate, busy, calm)


def judged(samples: list[dict[str, Any]], rate: float, busy: float, calm: float) -> dict[str, Any]:
    hot = [sample for sample in samples if sample["at"] < busy]
    third = len(hot) // 3
    growth = {
        name: statistics.median(s[name] for s in hot[-third:]) / statistics.median(s[name] for s in hot[third:-third])
        for name in ("python", "jvm")
    }
    last = samples[-1]
    produced = 2 * rate * busy + rate / 4 * calm
    return {
        "rate": rate,
        "seconds": last["at"],
        "produced": produced,
        "taken": last["tuples"] / produced,
        "shed": last["shed_tuples"] / max(1, last["tuples"]),
        "overloaded": sum(sample["overloaded"] for sample in hot) / len(hot),
        "slow_batches": last["slow_batches"] / max(1, last["micro_batches"]),
        "memory": {name: last[name] / 2**20 for name in ("python", "jvm")},
        "growth": growth,
        "flat": all(ratio < 1.1 for ratio in growth.values()),
        "recovered": not last["overloaded"] and last["tuples"] > 0.9 * produced,
        "samples": samples,
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30, help="in all (default %(default)s)")
    parser.add_argument("--files", type=int, default=8, help="most files of a micro-batch (default %(default)s)")
    parser.add_argument(
        "--keep", type=float, default=0.1, help="part that is kept under overload (default %(default)s)"
    )
    parser.add_argument("--produce", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.produce:
        produce(Path(given.produce[0]), *map(float, given.produce[1:]))
        return
    with tempfile.TemporaryDirectory() as scratch:
        rate = sustainable(Path(scratch) / "calibration", 50_000, given.files)
    say(f"sustainable: {rate:,.0f} tuples per second")
    found = soak(rate, given.minutes, given.files, given.keep)
    OUT.mkdir(exist_ok=True)
    (OUT / "soak.json").write_text(json.dumps(found, indent=1))
    print(json.dumps({name: value for name, value in found.items() if name != "samples"}))
    raise SystemExit(0 if found["flat"] and found["recovered"] else 1)


if __name__ == "__main__":
    main()
