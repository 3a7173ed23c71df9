"""Server-sent events as a browser reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    kind: str
    data: Any
    id: str | None = None


def events(lines: Iterable[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields.keys() & {"event", "data"}:
            yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}
