"""A program that runs a stream with a checkpoint and may be killed at any of its own steps.

    python -m tests.support.victim DATA CHECKPOINT OUT EXECUTOR_ROWS [KILL_AT]

Every answer is appended to OUT as a JSON line. With KILL_AT the process kills itself (SIGKILL) at that step; steps are
before and after each write, sync, rename and removal in the checkpoint, the start and end of each Spark action, each
delivered answer. Without it the number of steps is the last line. Micro-batches with more than EXECUTOR_ROWS tuples go
through Spark's executors.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import sash
import sash.storage.epochs
from sash.core.faults import listening
from sash.core.time import SECOND, to_micros
from sash.spark.pipeline import Pipeline
from tests.support.streams import START

QUERIES = {
    "totals": "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k",
    "overall": "SELECT COUNT(*) AS n, MAX(v) AS hi, STDDEV(v) AS spread FROM s [WINDOW 7 sec SLIDE EXACTLY 3 sec]",
    "names": "SELECT g, MIN(g) AS lo FROM s [WINDOW 4 sec SLIDE 4 sec] WHERE v > 20 GROUP BY g",
}
CONTINUOUS = {
    "pairs": "SELECT a.v, b.v AS w FROM s [RANGE 1 sec] a, s [RANGE 1 sec] b WHERE a.k = b.k AND a.v < b.v - 90",
    "lonely": "SELECT k, v FROM s [RANGE 3 sec] WHERE v > 60 AND NOT EXISTS "
    "(SELECT 1 FROM s [RANGE 2 sec] t WHERE t.k = s.k AND t.v = s.v - 60)",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS hi FROM s [RANGE 2 sec] GROUP BY k",
    "last": "SELECT k, v FROM s [PARTITION BY k ROWS 3] WHERE v > 30",
    "labelled": "SELECT s.v, l.label FROM s [RANGE 1 sec], labels l WHERE s.k = l.k AND s.v > 50",
    "sampled": "SELECT a.v, b.v AS w FROM s [RANGE 1 sec SLIDE 3 sec] a, s [RANGE 2 sec SLIDE 3 sec] b "
    "WHERE a.k = b.k AND a.v < b.v - 90",
    "kinds": "SELECT DISTINCT k, g FROM s [RANGE 1 sec]",
    "met": "SELECT a.k, MAX(b.v) AS hi, COUNT(*) AS n FROM s [WINDOW 1 sec SLIDE 1 sec] a, "
    "s [WINDOW 2 sec SLIDE 1 sec] b WHERE a.k = b.k AND a.v < 20 GROUP BY a.k",
    "met_sooner": "SELECT SUM(b.v) AS total FROM s [WINDOW 1 sec SLIDE 2 sec] a, s [WINDOW 1 sec SLIDE 2 sec] b "
    "WHERE a.k = b.k AND a.v < 20",
}
# Asked of the stored window when all is done.
QUESTIONS = {
    "stored": "SELECT k, g, v FROM s [WINDOW 8 sec] WHERE k = 3",
    "found": "SELECT k, g, v FROM s [WINDOW 5 sec] WHERE v IN (7, 8)",
    "middle": "SELECT MEDIAN(v) AS m, COUNT(DISTINCT v) AS n FROM s [WINDOW 8 sec]",
}
# Archives of a stream, of results that expire and of answers, and the questions to them at the end.
ARCHIVES = {
    "old": "FROM s KEY k LIFETIME v UP TO 8 sec UPDATE EVERY 2 sec PARTITION 2 x 2",
    "old_pairs": "FROM pairs KEY w LIFETIME UP TO 2 sec UPDATE EVERY 1 sec PARTITION 2 x 2 NOREBUILD",
    "old_totals": "FROM totals KEY k LIFETIME UP TO 12 sec UPDATE EVERY 3 sec",
}
ARCHIVED = {
    "archived": "SELECT k, g, v FROM old",
    "archived_pairs": "SELECT v, w FROM old_pairs",
    "archived_totals": "SELECT k, total, n FROM old_totals WHERE k = 2",
}
# How a row of the table changes, by the seconds of event time after which it is said.
LABELS = {15: "one", 30: "uno", 45: "eins"}
LATER = "SELECT k, AVG(v) AS mean FROM s [WINDOW 6 sec SLIDE 2 sec] WHERE v % 2 = 0 GROUP BY k"


def main(data: str, checkpoint: str, out: str, executor_rows: int, kill_at: int | None) -> None:
    steps = itertools.count(1)

    def step() -> None:
        if next(steps) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            step()
            result = function(*args, **kwargs)
            step()
            return result

        return call

    # Several times in a run, which is to be short.
    sash.storage.epochs.SNAPSHOT_EVERY = 4
    Pipeline.aggregate = around(Pipeline.aggregate)  # type: ignore[method-assign]
    with open(out, "a") as file, listening(lambda moment, path: step()):

        def write(line: dict[str, Any]) -> None:
            """Write in one call: a killed process leaves whole lines."""
            os.write(file.fileno(), (json.dumps(line, default=str) + "\n").encode())

        def record(answer: sash.Answer) -> None:
            step()
            rows = answer.table.to_pylist()
            line = {"query": answer.query, "as_of": answer.as_of.isoformat(), "complete": answer.complete, "rows": rows}
            write(line)

        session = sash.connect(checkpoint=checkpoint, executor_rows=executor_rows)
        session.sql(
            f"CREATE STREAM s (ts TIMESTAMP, k INT, g STRING, v INT) FROM parquet "
            f"OPTIONS (path '{data}', maxFilesPerTrigger '1') TIMESTAMP ts DELAY 1 sec KEEP 8 sec"
        )
        session.sql("CREATE INDEX ON s (v)")
        session.sql("CREATE INDEX ON s (v) USING tree")
        session.sql("CREATE TABLE labels (k INT PRIMARY KEY, label STRING)")
        session.sql("INSERT INTO labels VALUES (1, 'first'), (2, 'second'), (3, 'third')")
        for name, text in {**QUERIES, **CONTINUOUS}.items():
            session.register(text, name=name).subscribe(record)
        for name, clauses in ARCHIVES.items():
            session.sql(f"CREATE ARCHIVE {name} {clauses}")
        if "later" in session.queries:
            session.queries["later"].subscribe(record)

        def register_later(answer: sash.Answer) -> None:
            if answer.as_of.second >= 40 and "later" not in session.queries:
                session.register(LATER, name="later").subscribe(record)

        def change_label(answer: sash.Answer) -> None:
            said = [label for second, label in LABELS.items() if to_micros(answer.as_of) >= START + second * SECOND]
            if said:
                session.update_table("labels", [{"k": 1, "label": said[-1]}, {"k": 4, "label": said[-1]}])

        session.queries["totals"].subscribe(register_later)
        session.queries["totals"].subscribe(change_label)
        session.run()
        for name, text in {**QUESTIONS, **ARCHIVED}.items():
            table = session.query(text)
            told = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
            write({"query": name, "as_of": told["as_of"], "complete": told["complete"], "rows": table.to_pylist()})
        session.close()
    print(next(steps) - 1)


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else None)
