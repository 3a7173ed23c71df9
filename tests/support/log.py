"""The log of a session as programs read it: the fields of events."""

from __future__ import annotations

from typing import Any

import pytest


def events(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.__dict__["sash"] for record in caplog.records if hasattr(record, "sash")]
