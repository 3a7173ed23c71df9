"""The answers of a query over HTTP: remembered ones and new ones, as server-sent events or as an Arrow stream.

    id: 2026-01-01T00:00:05+00:00        as of when; `Last-Event-ID` goes on behind it (windows of rows, of which
    event: answer                        several answers may be as of one time: `<as of>/<tuples counted>`)
    data: {"query": .., "rows": [..]}

    event: gap                           the client was behind
    data: {"answers": 3}

    event: end                           nothing more comes
    data: {"reason": ".."}

In an Arrow stream each answer is a record batch with the column `as_of` first; the batch's own metadata has `as_of`,
`complete` and `scheduled`, so that an answer without rows can be seen, too. It ends with the stream.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sash.core.errors import SashError
from sash.runtime.answers.answer import Answer
from sash.server.followers import Beat, End, Follower, Gap, Happening
from sash.server.wire import EVENTS, cut, described, rows_of

AS_OF = "as_of"


class FollowingResponse(StreamingResponse):
    """Frees the client's place, whatever ends the response."""

    def __init__(self, follower: Follower, form: str, max_rows: int) -> None:
        self._follower = follower
        chunks = _as_events if form == EVENTS else _as_arrow
        # nginx would collect answers until it has many.
        super().__init__(chunks(follower, max_rows), media_type=form, headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._follower.leave()


# -- which answers -------------------------------------------------------------------------------------


def event_id(answer: Answer) -> str:
    counted = "" if answer.rows is None else f"/{answer.rows}"
    return f"{answer.as_of.isoformat()}{counted}"


def behind(last_id: str, remembered: Sequence[Answer]) -> list[Answer]:
    """The remembered answers after an event."""
    place = next((i for i in reversed(range(len(remembered))) if event_id(remembered[i]) == last_id), None)
    if place is not None:
        return list(remembered[place + 1 :])
    try:
        time = datetime.fromisoformat(last_id.partition("/")[0])
        return [answer for answer in remembered if answer.as_of > time]
    except (ValueError, TypeError):
        raise SashError(f"Last-Event-ID is the id of an event of this stream, not '{last_id[:100]}'") from None


def newest_of(answers: Sequence[Answer], last: int) -> list[Answer]:
    """The last `last` of them, or all.

    >>> [newest_of("abc", last) for last in (0, 2, 3, 4)]
    [[], ['b', 'c'], ['a', 'b', 'c'], ['a', 'b', 'c']]
    """
    return list(answers[-last:]) if last else []


def newest(answers: Sequence[Answer], last: int, max_rows: int) -> list[dict[str, Any]]:
    """The last answers, oldest first, as long as all their rows together are not too many."""
    told: list[dict[str, Any]] = []
    for answer in reversed(newest_of(answers, last)):
        told.append(to_json(answer, max_rows))
        max_rows -= answer.table.num_rows
        if max_rows <= 0:
            break
    return told[::-1]


# -- forms ---------------------------------------------------------------------------------------------


def to_json(answer: Answer, max_rows: int) -> dict[str, Any]:
    table, truncated = cut(answer.table, max_rows)
    return {
        "query": answer.query,
        "as_of": answer.as_of.isoformat(),
        "complete": answer.complete,
        "scheduled": answer.scheduled,
        "counted": answer.rows,
        "columns": described(table.schema),
        "rows": rows_of(table),
        "truncated": truncated,
    }


async def _as_events(follower: Follower, max_rows: int) -> AsyncIterator[bytes]:
    async for happening in follower.happenings():
        # Large answers take time: other clients are served meanwhile.
        yield await run_in_threadpool(_event, happening, max_rows)


def _event(happening: Happening, max_rows: int) -> bytes:
    match happening:
        case Answer() as answer:
            return f"id: {event_id(answer)}\nevent: answer\ndata: {_line(to_json(answer, max_rows))}\n\n".encode()
        case Gap(answers=answers):
            return f"event: gap\ndata: {_line({'answers': answers})}\n\n".encode()
        case End(reason=reason):
            return f"event: end\ndata: {_line({'reason': reason})}\n\n".encode()
        case Beat():
            return b": nothing new\n\n"


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


async def _as_arrow(follower: Follower, max_rows: int) -> AsyncIterator[bytes]:
    """The schema comes with the first answer. An answer with other columns, of a query that was replaced, ends it."""
    writer: _ArrowChunks | None = None
    async for happening in follower.happenings():
        if isinstance(happening, Answer):
            writer = writer or _ArrowChunks(happening)
            if not writer.holds(happening):
                break
            yield await run_in_threadpool(writer.answer, happening, max_rows)
    if writer is not None:
        yield writer.end()


class _ArrowChunks:
    """An IPC stream, piece by piece."""

    def __init__(self, first: Answer) -> None:
        self._sink = io.BytesIO()
        self._schema = _with_as_of(first).schema
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), self._schema)

    def holds(self, answer: Answer) -> bool:
        return bool(_with_as_of(answer).schema.equals(self._schema))

    def answer(self, answer: Answer, max_rows: int) -> bytes:
        table, truncated = cut(_with_as_of(answer), max_rows)
        facts = {AS_OF: answer.as_of.isoformat(), "complete": answer.complete, "scheduled": answer.scheduled}
        metadata = {name: json.dumps(value) if name != AS_OF else value for name, value in facts.items()}
        metadata |= {"truncated": "true"} if truncated else {}
        batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        for batch in batches:
            self._writer.write_batch(batch, custom_metadata=metadata)
        return self._taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        """The bytes that were written since the last call."""
        piece = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return piece


def _with_as_of(answer: Answer) -> pa.Table:
    """The table with the column `as_of`; a column of the query with that name gets another name."""
    table, clash = answer.table, AS_OF
    names = [name.lower() for name in table.column_names]
    while clash in names:
        clash += "_"
    renamed = [clash if name.lower() == AS_OF else name for name in table.column_names]
    times = pa.array([answer.as_of] * table.num_rows, pa.timestamp("us", "UTC"))
    return table.rename_columns(renamed).add_column(0, AS_OF, times).replace_schema_metadata(None)
