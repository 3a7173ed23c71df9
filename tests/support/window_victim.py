"""A program that stores a window in files of a checkpoint and may be killed where that matters.

    python -m tests.support.window_victim DATA CHECKPOINT [STEP NUMBER]

With a step it kills itself (SIGKILL) when that is reached for the n-th time. Without one it runs to the end and prints
what the window holds, as JSON: the times and numbers of its rows, and what an aggregate counts.
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


def main(data: str, checkpoint: str, step: str | None, number: int) -> None:
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
    with sash.connect(checkpoint=checkpoint) as session:
        session.sql(
            f"CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{data}', "
            "maxFilesPerTrigger '1') TIMESTAMP ts KEEP 6 sec STORED IN CLUSTER"
        )
        session.run()
        rows = session.query("SELECT v FROM s [WINDOW 6 sec]")["v"].to_pylist()
        (counted,) = session.query("SELECT COUNT(*) AS n, SUM(v) AS t FROM s [WINDOW 6 sec]").to_pylist()
    print(json.dumps({"rows": sorted(rows), **counted}))


if __name__ == "__main__":
    main(*sys.argv[1:3], *((sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 4 else (None, 0)))
