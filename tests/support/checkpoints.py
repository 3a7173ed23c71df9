"""Checkpoints for the tests of later versions: the files of one version, and its answers when it went on.

    python -m tests.support.checkpoints        writes the checkpoints of the format of now, with the code of now

    first half of the story ──► checkpoint ──► copied into the archive
                                    └────────► second half of the story ──► answers, beside it in the archive

The test (test_restart.py) unpacks a checkpoint, tells the second half, and compares. One story has every kind of
state. It is written twice: as entries alone, and as snapshots with entries after them.

The directory of the data and the sink stands in the catalog, in Spark's part, and in the name of the directory of
unwritten answers. All of them are replaced when a checkpoint is packed and when it is unpacked.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import sash
import sash.storage.epochs
from sash.core.clock import ManualClock
from sash.core.time import SECOND
from sash.runtime.records.checkpoint import FORMAT
from sash.spark.sinks import Sink
from sash.storage.files import sealed, unsealed
from tests.support.files import placed
from tests.support.streams import START

CHECKPOINTS = Path(__file__).parents[1] / "runtime" / "checkpoints"
# How many entries there are between two snapshots, by the name of the checkpoint.
SNAPSHOTS = {"entries": 1_000, "snapshots": 4}
# Stands for the directory of data and sink in a packed checkpoint.
_PLACE = "/place"
_OUT = "out"
# The files of both runs of the first half, and of the second half.
_PARTS = (range(4), range(5, 8), range(8, 11))

STREAMS = {"s": "DELAY 1 sec KEEP 6 sec", "t": "DELAY 1 sec KEEP 6 sec STORED IN CLUSTER"}
TABLES = """
    CREATE NONRETROACTIVE TABLE ports (k INT, name STRING, PRIMARY KEY (k));
    CREATE TABLE labels (k INT PRIMARY KEY, label STRING);
    INSERT INTO ports VALUES (0, 'zero'), (1, 'one');
    INSERT INTO labels VALUES (0, 'first'), (1, 'second')
"""
ARCHIVE = "CREATE ARCHIVE old FROM s KEY k LIFETIME UP TO 12 sec UPDATE EVERY 2 sec"
# Queries with answers.
ANSWERED = {
    "totals": "SELECT k, SUM(v) AS t, COUNT(*) AS n, AVG(v) AS a FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k",
    "some": "SELECT MAX(v) AS hi FROM s [WINDOW 4 sec SLIDE 2 sec] WHERE v > 3 OR k = 1",
    "exact": "SELECT COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE EXACTLY 3 sec LAG 1 sec]",
    "of_rows": "SELECT SUM(v) AS t, COUNT(*) AS n FROM s [ROWS 7 SLIDE 3]",
    "last": "SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 2 SLIDE 4] GROUP BY k",
    "named": "SELECT p.name, COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] JOIN ports p USING (k) GROUP BY p.name",
    "far": "SELECT k + 0 AS k, SUM(v) AS t FROM s [WINDOW 6 sec SLIDE 2 sec] GROUP BY k + 0 STORED IN CLUSTER",
    "bad": "SELECT SUM(10 / (v - 8)) AS t FROM s [WINDOW 4 sec SLIDE 2 sec]",
    "short": "SELECT COUNT(*) AS n FROM s [WINDOW 2 sec SLIDE 2 sec] LIFETIME 4 sec",
    "met": "SELECT s.k, COUNT(*) AS n, MAX(t.v) AS hi FROM s [RANGE 3 sec SLIDE 1 sec], t [RANGE 2 sec SLIDE 1 sec] "
    "WHERE s.k = t.k GROUP BY s.k",
    "met_seldom": "SELECT SUM(s.v) AS t FROM s [RANGE 2 sec SLIDE 2 sec], t [RANGE 4 sec SLIDE 2 sec] WHERE s.k = t.k",
    "both": "SELECT v FROM s [RANGE 3 sec SLIDE 1 sec] INTERSECT SELECT v FROM t [RANGE 2 sec SLIDE 1 sec]",
}
# Queries with changes.
CHANGED = {
    "kinds": "SELECT DISTINCT k FROM s [RANGE 1 sec]",
    "pairs": "SELECT s.v, t.v AS w FROM s [RANGE 2 sec], t [RANGE 1 sec] WHERE s.k = t.k AND s.v < t.v",
    "labelled": "SELECT s.v, l.label FROM s [RANGE 2 sec], labels l WHERE s.k = l.k",
}
# Registered between the runs of the first half.
LATER = {
    "later": "SELECT k, MIN(v) AS lo FROM s [WINDOW 5 sec SLIDE 1 sec] GROUP BY k",
    "met_later": "SELECT s.k, MAX(t.v) AS hi FROM s [RANGE 1 sec SLIDE 1 sec], t [RANGE 2 sec SLIDE 1 sec] "
    "WHERE s.k = t.k GROUP BY s.k",
}
QUESTIONS = [
    "SELECT k, v FROM s [WINDOW 6 sec] WHERE v > 4",
    "SELECT k, v FROM t [WINDOW 4 sec] WHERE v > 4",
    "SELECT COUNT(*) AS n, SUM(v) AS t FROM s [WINDOW 3 sec]",
    "SELECT k, v FROM old",
    "SELECT k, label FROM labels",
]
COUNTERS = ("tuples", "micro_batches", "late_tuples", "watermark")


def told_first(directory: Path) -> None:
    """The first half: two runs, a heartbeat in between, queries that come and go, an answer that cannot be written."""
    _feed(directory, _PARTS[0])
    (directory / _OUT).write_text("in the way")
    with _opened(directory) as session:
        session.script(TABLES)
        for name, text in {**ANSWERED, **CHANGED}.items():
            session.sql(f"REGISTER QUERY {name} AS {text}")
        session.sql(ARCHIVE)
        _write(session, directory)
        session.run()
        for name in STREAMS:
            session.advance(name, START + 9 * SECOND)
        for name, text in LATER.items():
            session.sql(f"REGISTER QUERY {name} AS {text}")
        session.queries["exact"].drop()
        session.update_table("labels", [{"k": 1, "label": "uno"}, {"k": 2, "label": "due"}])
        _feed(directory, _PARTS[1])
        session.run()
    assert any((directory / "state" / "unwritten").rglob("*.arrow")), "no answer waits for its sink"


def told_second(directory: Path, spark: Any = None) -> dict[str, Any]:
    """The second half, with a checkpoint of the first: all that can be seen of it."""
    with _opened(directory, spark) as session:
        session.script(TABLES)
        _write(session, directory)
        found = {"before": _asked(session), "remembered": _told(session)}
        _feed(directory, _PARTS[2])
        session.run()
        found |= {"after": _asked(session), "told": _told(session)}
        found["failed"] = {name: str(query.error) for name, query in session.queries.items() if query.error}
        stats = session.stats()
        tables = [table for stream in stats["streams"].values() for table in stream["pane_tables"]]
        joint, separate = (sum(table[cost] for table in tables) for cost in ("joint_cost", "separate_cost"))
        found["executed"] = [stats["executions"], stats["joint_executions"], 1 - joint / separate]
        found["counted"] = {name: [str(stats["streams"][name][each]) for each in COUNTERS] for name in STREAMS}
    found["written"] = _rows(pq.read_table(directory / _OUT))
    return found


def _sink(directory: Path) -> tuple[str, dict[str, str]]:
    return "parquet", {"path": str(directory / _OUT)}


def _write(session: sash.Session, directory: Path) -> None:
    format, options = _sink(directory)
    session.queries["totals"].write_to(format, **options)


def _opened(directory: Path, spark: Any = None) -> sash.Session:
    session = sash.connect(spark=spark, checkpoint=directory / "state", clock=ManualClock())
    for name, clauses in STREAMS.items():
        session.sql(
            f"CREATE STREAM {name} (ts TIMESTAMP, k INT, v INT) FROM parquet "
            f"OPTIONS (path '{directory / name}', maxFilesPerTrigger '1') TIMESTAMP ts {clauses}"
        )
    return session


def _feed(directory: Path, parts: range) -> None:
    """Files of two seconds with ten tuples each, the second of which is late by less than the DELAY."""
    for stream, name in enumerate(STREAMS):
        (directory / name).mkdir(parents=True, exist_ok=True)
        for part in parts:
            places = [1, 0, *range(2, 10)]
            times = [START + part * 2 * SECOND + place * SECOND // 5 + (stream + 1) * SECOND // 20 for place in places]
            numbers = range(part * 10, part * 10 + 10)
            columns = [
                pa.array(times, pa.timestamp("us", "UTC")),
                pa.array([(number * 7 + stream) % 3 for number in numbers], pa.int32()),
                pa.array([(number * 5 + number // 9 + stream) % 11 for number in numbers], pa.int32()),
            ]
            with placed(directory / name / f"part-{part:03d}.parquet", part) as path:
                pq.write_table(pa.table(columns, ["ts", "k", "v"]), path)


def _asked(session: sash.Session) -> dict[str, list[str]]:
    return {text: _rows(session.query(text)) for text in QUESTIONS}


def _told(session: sash.Session) -> dict[str, Any]:
    """What each query remembers."""
    changed = {name: _rows(session.queries[name].changes()) for name in CHANGED}
    rest = {name: query for name, query in session.queries.items() if name not in changed}
    return changed | {
        name: [[str(each.as_of), each.complete, each.scheduled, _rows(each.table)] for each in query.answers()]
        for name, query in rest.items()
    }


def _rows(table: pa.Table) -> list[str]:
    return sorted(str(list(row.values())) for row in table.to_pylist())


# -- packing ---------------------------------------------------------------------------------------------


def unpacked(name: str, directory: Path, spark: Any) -> dict[str, Any]:
    """A packed checkpoint, in a directory where the second half goes on with it; and its earlier answers."""
    with tarfile.open(CHECKPOINTS / f"format-{FORMAT}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    (directory / name / "state").rename(directory / "state")
    _relocate(directory / "state", _PLACE, str(directory), Sink(spark, *_sink(directory)).digest)
    for parts in _PARTS[:2]:
        _feed(directory, parts)
    told: dict[str, Any] = json.loads((directory / name / "told.json").read_text())
    return told


def _relocate(checkpoint: Path, before: str, after: str, sink: str) -> None:
    """Write another directory into the catalog and into Spark's part; `sink` is what the sink is called there."""
    catalog = checkpoint / "catalog.jsonl"
    lines = [json.dumps(unsealed(line)).replace(before, after) for line in catalog.read_text().splitlines()]
    catalog.write_text("".join(f"{sealed(json.loads(line))}\n" for line in lines))
    for path in [path for path in (checkpoint / "spark").rglob("*") if path.is_file()]:
        if path.suffix == ".crc":
            path.unlink()
        else:
            path.write_text(path.read_text().replace(before, after))
    ((waiting,),) = [list(query.iterdir()) for query in (checkpoint / "unwritten").iterdir()]
    waiting.rename(waiting.with_name(sink))


def pack() -> None:
    with tempfile.TemporaryDirectory() as scratch, sash.connect() as keeps_spark:
        keeps_spark.spark.range(1).count()
        for name, entries in SNAPSHOTS.items():
            sash.storage.epochs.SNAPSHOT_EVERY = entries
            directory, packed = Path(scratch) / name, Path(scratch) / "packed" / name
            directory.mkdir()
            told_first(directory)
            shutil.copytree(directory / "state", packed / "state")
            _relocate(packed / "state", str(directory), _PLACE, "sink")
            (directory / _OUT).unlink()
            (packed / "told.json").write_text(json.dumps(told_second(directory), indent=1))
        with tarfile.open(CHECKPOINTS / f"format-{FORMAT}.tar.gz", "w:gz") as archive:
            for path in sorted((Path(scratch) / "packed").iterdir()):
                archive.add(path, path.name)


if __name__ == "__main__":
    pack()
