"""Files for Spark's file source, which reads them in the order of their times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def placed(path: Path, number: int) -> Iterator[Path]:
    """Where to write a file, which then comes to its place at once: whole, and with the time of its number.

    A live stream that saw a file before it has its time would take the next ones for a week too old, and skip them.
    """
    draft = path.with_name(f".{path.name}")
    yield draft
    os.utime(draft, (1_600_000_000 + number,) * 2)
    draft.rename(path)
