"""Logs of earlier versions: executions beside slides are repeated as they were.

`beside_slides.json` has what a version with workers did in one micro-batch, under each isolation level: slides in the
middle of executions, restarts, SLIDE EXACTLY, a failure.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sash.core.time import SECOND, to_micros
from sash.runtime.periodic.advance import RepeatedPace
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.records.journal import GroupService
from sash.runtime.settings import Settings
from tests.support.duck_pass import aggregate
from tests.support.feed import compiled
from tests.support.streams import START, stream, to_table

RECORDED = json.loads((Path(__file__).parent / "beside_slides.json").read_text())


def second(number: int) -> pa.Table:
    """Tuples of one pane, which ends with this second; their sum distinguishes it from all others."""
    return to_table([(START + number * SECOND, k, None, k, 10**number, None) for k in range(3)])


@pytest.mark.parametrize("level", RECORDED["levels"])
def test_it_is_repeated_as_it_was(level: str) -> None:
    recorded: dict[str, Any] = RECORDED["levels"][level]
    declared = stream()
    runtime = StreamRuntime(declared, Settings("conservative"))
    runtime.synchronise(compiled(RECORDED["queries"], declared))
    for number in range(10):
        runtime.apply(aggregate(declared, runtime.tables(), second(number)))
    facts = aggregate(declared, runtime.tables(), pa.concat_tables([second(number) for number in range(10, 16)]))
    services = [[GroupService(*each) for each in part] for part in recorded["services"]]
    progress = runtime.apply(facts, pace=RepeatedPace(services))
    told = [
        [a.query, (to_micros(a.as_of) - START) // SECOND, a.complete, a.scheduled, a.table.to_pylist()]
        for a in progress.answers
    ]
    assert told == recorded["answers"]
    assert (progress.outcome.failed, progress.outcome.ended) == (recorded["failed"], recorded["ended"])
    schedules = [group.schedule.local.snapshot() for group in runtime.ordered()]
    assert json.loads(json.dumps(schedules)) == recorded["schedules"]
    assert not any(group.under_way for group in runtime.ordered())
