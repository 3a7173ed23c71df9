"""Queries whose source a Python process plans: on a busy machine Spark gives up waiting for that process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from sash.spark.pipeline import start_python_source

NEVER_CALLED = "terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


@dataclass
class Query:
    """One that ends with an error while its source starts, or goes on."""

    error: str | None
    looks: int = 3

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.error is None or self.looks > 0

    @property
    def status(self) -> dict[str, str]:
        self.looks -= 1
        return {"message": "Initializing sources" if self.looks > 0 else "Processing new data"}

    def exception(self) -> Exception | None:
        return None if self.error is None else RuntimeError(self.error)


@dataclass
class Writer:
    errors: list[str | None]
    started: list[Query] = field(default_factory=list)

    def start(self) -> Query:
        self.started.append(Query(self.errors[len(self.started)]))
        return self.started[-1]


@pytest.mark.parametrize(
    ("errors", "starts"),
    [
        ([None], 1),
        ([NEVER_CALLED, NEVER_CALLED, None], 3),
        (["there is no file a.pcap", None], 1),
        ([NEVER_CALLED] * 9, 5),
    ],
)
def test_a_process_that_never_called_back_is_started_again(errors: list[str | None], starts: int) -> None:
    writer = Writer(errors)
    query = cast(Any, start_python_source(cast(Any, writer)))
    assert len(writer.started) == starts and query is writer.started[-1]
