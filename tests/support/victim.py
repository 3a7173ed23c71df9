"""A program that runs a stream with a checkpoint and may be killed at any of its own steps.

    python -m tests.support.victim DATA CHECKPOINT OUT [KILL_AT]

Every answer is appended to OUT as a JSON line. With KILL_AT the process kills itself (SIGKILL) at that step; steps are
the writes and renames of the checkpoint, the start and end of each Spark action, each delivered answer. Without it the
number of steps is the last line.
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
from sash.engine.history import CatalogHistory
from sash.spark.pipeline import Pipeline

QUERIES = {
    "totals": "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [WINDOW 10 sec SLIDE 2 sec] GROUP BY k",
    "overall": "SELECT COUNT(*) AS n, MAX(v) AS hi, STDDEV(v) AS spread FROM s [WINDOW 7 sec SLIDE EXACTLY 3 sec]",
    "names": "SELECT g, MIN(g) AS lo FROM s [WINDOW 4 sec SLIDE 4 sec] WHERE v > 20 GROUP BY g",
}
CONTINUOUS = {
    "pairs": "SELECT a.v, b.v AS w FROM s [RANGE 1 sec] a, s [RANGE 1 sec] b WHERE a.k = b.k AND a.v < b.v - 90",
    "lonely": "SELECT k, v FROM s [RANGE 3 sec] WHERE v > 60 AND NOT EXISTS "
    "(SELECT 1 FROM s [RANGE 2 sec] t WHERE t.k = s.k AND t.v = s.v - 60)",
}
LATER = "SELECT k, AVG(v) AS mean FROM s [WINDOW 6 sec SLIDE 2 sec] WHERE v % 2 = 0 GROUP BY k"


def main(data: str, checkpoint: str, out: str, kill_at: int | None) -> None:
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

    os.replace = around(os.replace)  # type: ignore[assignment]
    CatalogHistory.append = around(CatalogHistory.append)  # type: ignore[method-assign]
    Pipeline.aggregate = around(Pipeline.aggregate)  # type: ignore[method-assign]
    with open(out, "a") as file:

        def record(answer: sash.Answer) -> None:
            step()
            rows = answer.table.to_pylist()
            line = {"query": answer.query, "as_of": answer.as_of.isoformat(), "complete": answer.complete, "rows": rows}
            file.write(json.dumps(line, default=str) + "\n")
            file.flush()

        session = sash.connect(checkpoint=checkpoint)
        session.sql(
            f"CREATE STREAM s (ts TIMESTAMP, k INT, g STRING, v INT) FROM parquet "
            f"OPTIONS (path '{data}', maxFilesPerTrigger '1') TIMESTAMP ts DELAY 1 sec"
        )
        for name, text in {**QUERIES, **CONTINUOUS}.items():
            session.register(text, name=name).subscribe(record)
        if "later" in session.queries:
            session.queries["later"].subscribe(record)

        def register_later(answer: sash.Answer) -> None:
            if answer.as_of.second >= 40 and "later" not in session.queries:
                session.register(LATER, name="later").subscribe(record)

        session.queries["totals"].subscribe(register_later)
        session.run()
        session.close()
    print(next(steps) - 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else None)
