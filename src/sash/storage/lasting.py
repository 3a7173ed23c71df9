"""Files of lasting tables, put together as they grow old: a window of a day has a few dozen files, not one per second.

    micro-batches     | 0 0 0 .. 0 |   sixteen of a level become one of the next
    after a snapshot  | 1 |            a file goes when nothing in it is needed any more

The files are in the order in which their rows came, the highest level first, and stay in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sash.core.errors import CheckpointError
from sash.core.events import report

logger = logging.getLogger("sash.storage")

# A file with its checksum, until when it is needed, and its level.
Lasting = tuple[list[Any], int, int]
FAN_IN = 16
# Files of this level are large enough, and go soon enough after the last of their rows is needed.
TOP_LEVEL = 3


def merged(
    files: Sequence[Lasting],
    read: Callable[[list[Any]], pa.Table],
    write: Callable[[int, pa.Table], list[Any]],
) -> list[Lasting]:
    """The same rows in fewer files; `write` takes the level and gives the new file with its checksum."""
    found = list(files)
    for level in range(TOP_LEVEL):
        run = [each for each in found if each[2] == level]
        if len(run) < FAN_IN:
            continue
        try:
            table = pa.concat_tables([read(file) for file, _, _ in run])
        except CheckpointError as error:
            # What is in memory is whole: the stream goes on, and the next recovery decides.
            told = "%(why)s; files are not put together"
            report(logger, logging.WARNING, "files.unmerged", told, files=len(run), why=str(error))
            return found
        one = (write(level + 1, table), max(lasts for _, lasts, _ in run), level + 1)
        place = found.index(run[0])
        found[place : place + len(run)] = [one]
    return found
