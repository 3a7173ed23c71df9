"""Events: log records with a sentence for people, and fields for programs.

An event is one record of Python's logging. Its message reads well; `record.sash` is a dictionary with the event's name
under `event` and the same facts as the message. The list of events is in docs/operations.md.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any


def report(
    logger: logging.Logger, level: int, event: str, message: str, *, exception: bool = False, **fields: Any
) -> None:
    """Log an event. The message names its fields as `%(field)s`; `exception` adds the one that is being handled."""
    if logger.isEnabledFor(level):
        logger.log(level, message, fields, exc_info=exception, extra={"sash": {"event": event, **fields}}, stacklevel=2)


class JsonFormatter(logging.Formatter):
    """One JSON object per record: time, level, logger and message, and the fields of an event.

    >>> record = logging.LogRecord("sash.runtime", logging.INFO, "", 0, "stream %(stream)s has started", (), None)
    >>> record.args, record.sash, record.created = {"stream": "s"}, {"event": "stream.started", "stream": "s"}, 0.0
    >>> print(JsonFormatter().format(record))
    {"time": "1970-01-01T00:00:00+00:00", "level": "INFO", "logger": "sash.runtime",
     "message": "stream s has started", "event": "stream.started", "stream": "s"}
    """

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= {name: value for name, value in getattr(record, "sash", {}).items() if name not in told}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)
