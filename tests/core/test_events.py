"""Events: a sentence for people, the same facts as fields for programs."""

from __future__ import annotations

import json
import logging

import pytest

from sash.core.events import JsonFormatter, report

logger = logging.getLogger("sash.tests")


def test_an_event_is_a_sentence_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sash"):
        report(logger, logging.INFO, "stream.started", "stream %(stream)s: 100%% of %(tuples)d", stream="s", tuples=3)
        report(logger, logging.DEBUG, "batch.slow", "not at this level: %(stream)s", stream="s")
    (record,) = caplog.records
    assert record.getMessage() == "stream s: 100% of 3"
    assert record.__dict__["sash"] == {"event": "stream.started", "stream": "s", "tuples": 3}
    assert record.funcName == "test_an_event_is_a_sentence_and_its_fields", "the place of the caller"


def test_json_has_the_fields_and_never_loses_its_own(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        report(logger, logging.ERROR, "batch.failed", "failed at %(time)s", exception=True, time="noon", stream='a"b')
    logger.warning("no event")
    failed, plain = (json.loads(JsonFormatter().format(record)) for record in caplog.records)
    assert failed["event"] == "batch.failed" and failed["stream"] == 'a"b' and failed["time"] != "noon"
    assert failed["message"] == "failed at noon" and "ValueError: why" in failed["exception"]
    assert plain.keys() == {"time", "level", "logger", "message"}
