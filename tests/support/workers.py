"""How tests are spread over processes: a file at a time, and the tests with Spark in two processes only.

    two workers      tests with Spark, each worker with one Spark session; then what is left of the others
    one per core     tests without a JVM

Tests with Spark wait for Spark half of the time, so the other tests run beside them.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
from pathlib import Path

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[2]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MOST_JVMS = min(2, CORES)
_SPARK = "::spark"


def number_of_workers(config: pytest.Config) -> int:
    """One per core, and those that wait for Spark."""
    return CORES + (0 if "not spark" in config.option.markexpr else MOST_JVMS)


def why_no_java() -> str | None:
    """Why no test with Spark can run; None where Java is there."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and (Path(home) / "bin" / "java").exists()):
        return None
    return "Spark needs Java, and there is none (JAVA_HOME, PATH); make test installs it on Debian"


@functools.cache
def tests_with_spark(file: str) -> frozenset[str] | None:
    """The names of the tests of a file that are marked, None for all of them: read, as workers tell names only."""
    text = (ROOT / file).read_text()
    if re.search(r"^pytestmark = .*mark\.spark", text, re.MULTILINE):
        return None
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    marks = {node.name: [ast.unparse(decorator) for decorator in node.decorator_list] for node in functions}
    return frozenset(name for name, decorators in marks.items() if "pytest.mark.spark" in decorators)


def needs_spark(nodeid: str) -> bool:
    file, *_, name = nodeid.partition("[")[0].split("::")
    names = tests_with_spark(file)
    return names is None or name in names


class SparkBesideOthers(LoadFileScheduling):
    """Gives tests with Spark to the first workers, and the others to all, file by file."""

    def _split_scope(self, nodeid: str) -> str:
        return f"{nodeid.split('::')[0]}{_SPARK if needs_spark(nodeid) else ''}"

    def _assign_work_unit(self, node: WorkerController) -> None:
        with_spark = [scope for scope in self.workqueue if scope.endswith(_SPARK)]
        others = [scope for scope in self.workqueue if not scope.endswith(_SPARK)]
        choice = (with_spark if self.nodes.index(node) < MOST_JVMS else []) or others
        if not choice:
            node.shutdown()
            return
        self.workqueue.move_to_end(choice[0], last=False)
        super()._assign_work_unit(node)
