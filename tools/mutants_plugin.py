"""The pytest plugin of tools/mutants.py: runs the tests that it asks for, and says which test runs and which failed.

The environment variable MUTANTS names a file, with which the two processes talk. The time of its last change tells the
waiting process how long the running test takes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

MEMORY = 6 << 30  # bytes; a mutant that appends for ever must not take the machine down


def function_of(test: str) -> str:
    """The id of a test without its parameters."""
    return test.partition("[")[0]


class Watch:
    def __init__(self, path: Path) -> None:
        self.path, asked = path, json.loads(path.read_text())
        self.only, self.skip = asked["only"], set(asked["skip"])
        package = importlib.util.find_spec("sash")
        self.package = str(Path(package.origin or "").parent) if package else None
        self.failed: list[str] = []
        self.tell("the collection")

    def tell(self, running: str) -> None:
        draft = self.path.with_suffix(".new")  # a reader finds a whole file
        draft.write_text(json.dumps({"package": self.package, "failed": self.failed, "running": running}))
        draft.replace(self.path)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if not {item.nodeid, function_of(item.nodeid)} & self.skip]
        if self.only is not None:
            order = {test: index for index, test in enumerate(self.only)}
            places = [order.get(item.nodeid, order.get(function_of(item.nodeid), -1)) for item in items]
            chosen = sorted((place, index) for index, place in enumerate(places) if place >= 0)
            items[:] = [items[index] for _, index in chosen]

    def pytest_collectreport(self, report: Any) -> None:
        self.tell("the collection")
        self.pytest_runtest_logreport(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
            self.tell(report.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell(nodeid)
        switch_context(function_of(nodeid))

    def pytest_runtest_logfinish(self) -> None:
        switch_context("")


def switch_context(name: str) -> None:
    """Lines from here on belong to this test, if a map is being made."""
    if (coverage := sys.modules.get("coverage")) and (current := coverage.Coverage.current()):
        current.switch_context(name)


def pytest_load_initial_conftests(early_config: Any) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))
    early_config.pluginmanager.register(Watch(Path(os.environ["MUTANTS"])))
