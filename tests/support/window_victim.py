"""A program that stores a window, or panes, in files of a checkpoint and may be killed where that matters.

    python -m tests.support.window_victim window|panes DATA CHECKPOINT [STEP NUMBER]

With a step it kills itself (SIGKILL) when that is reached for the n-th time. Without one it runs to the end and prints
what the window holds, as JSON: the times and numbers of its rows, and what an aggregate counts. With panes, every
answer is a line of CHECKPOINT.jsonl, and a directory of CHECKPOINT.sink.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import sash
from sash.storage.epochs import EpochLog
from sash.storage.window_files import WindowFiles

STEPS = ("written", "committed", "let go")


def main(what: str, data: str, checkpoint: str, step: str | None, number: int) -> None:
    seen = 0

    def killed_after(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            result = function(*args, **kwargs)
            seen += name == step
            if name == step and seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    WindowFiles.found = killed_after(STEPS[0], WindowFiles.found)  # type: ignore[method-assign]
    EpochLog.append = killed_after(STEPS[1], EpochLog.append)  # type: ignore[method-assign]
    WindowFiles.let_go = killed_after(STEPS[2], WindowFiles.let_go)  # type: ignore[method-assign]
    WindowFiles.retain = killed_after(STEPS[2], WindowFiles.retain)  # type: ignore[method-assign]
    (store_window if what == "window" else store_panes)(data, checkpoint)


def store_window(data: str, checkpoint: str) -> None:
    with sash.connect(checkpoint=checkpoint) as session:
        session.sql(
            f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{data}', "
            "maxFilesPerTrigger '1') TIMESTAMP ts KEEP 6 sec STORED IN CLUSTER"
        )
        session.run()
        rows = session.query("SELECT v FROM s [WINDOW 6 sec]")["v"].to_pylist()
        (counted,) = session.query("SELECT COUNT(*) AS n, SUM(v) AS t FROM s [WINDOW 6 sec]").to_pylist()
    print(json.dumps({"rows": sorted(rows), **counted}))


def store_panes(data: str, checkpoint: str) -> None:
    with sash.connect(checkpoint=checkpoint) as session, open(f"{checkpoint}.jsonl", "a") as file:

        def record(answer: sash.Answer) -> None:
            """Write in one call: a killed process leaves whole lines."""
            line = {"as_of": answer.as_of.isoformat(), "complete": answer.complete, "rows": answer.table.to_pylist()}
            os.write(file.fileno(), (json.dumps(line) + "\n").encode())

        session.sql(
            f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{data}', "
            "maxFilesPerTrigger '1') TIMESTAMP ts"
        )
        select = "SELECT k, SUM(v) AS t, COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE 3 sec] GROUP BY k ORDER BY k"
        query = session.register(select, name="q", synopsis="cluster")
        query.subscribe(record)
        query.write_to("json", path=f"{checkpoint}.sink")
        session.run()


if __name__ == "__main__":
    main(*sys.argv[1:4], *((sys.argv[4], int(sys.argv[5])) if len(sys.argv) > 5 else (None, 0)))
