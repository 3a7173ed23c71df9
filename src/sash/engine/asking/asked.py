"""How a one-time question is asked: how much it matters, for how long it may take, how much of its answer is wanted.

Those who answer look these things up where they matter; the layers between do not pass them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import pyarrow as pa

from sash.core.errors import SashError
from sash.core.stopping import QUESTION, Cancellation
from sash.engine.asking.ask_stored import MOST_ROWS
from sash.engine.stored.kept import PRIORITY


def asked(
    ask: Callable[[], pa.Table],
    priority: int,
    timeout: float | None,
    cancellation: Cancellation | None,
    max_rows: int | None,
) -> pa.Table:
    """The answer; an error that comes of being told to stop is told as that."""
    if timeout is not None and not timeout > 0:
        raise SashError(f"a timeout is a number of seconds above 0, not {timeout}")
    if max_rows is not None and max_rows < 0:
        raise SashError(f"max_rows is 0 at least, not {max_rows}")
    question = cancellation or Cancellation()
    with ExitStack() as held:
        for variable, value in ((PRIORITY, priority), (QUESTION, question), (MOST_ROWS, max_rows)):
            held.enter_context(_holding(variable, value))
        held.enter_context(question.within(timeout))
        try:
            question.check()
            return _cut(ask(), max_rows)
        except Exception as error:
            if question.why is None or question.why is error:
                raise
            raise question.why from error


@contextmanager
def _holding(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def _cut(table: pa.Table, most: int | None) -> pa.Table:
    """Not more rows than wanted; then the metadata says `truncated`."""
    if most is None or len(table) <= most:
        return table
    return table.slice(0, most).replace_schema_metadata({**(table.schema.metadata or {}), "truncated": "true"})
