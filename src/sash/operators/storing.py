"""How an operator stores one of its inputs: under which name, and in the buffer that the input's pattern asks for."""

from __future__ import annotations

from dataclasses import dataclass

from sash.core.pattern import UpdatePattern
from sash.state import Buffer, Linear, buffer_for
from sash.state.buffers import adapted
from sash.state.state import Working


@dataclass(frozen=True)
class Storing:
    """`span` is about how long tuples live: the time that a calendar queue's partitions share.

    `partitions` of a calendar queue or slots of a hashed buffer; by default as many as its size asks for. A chunk knows
    when its last tuple expires, so their number may change while it is stored.
    `plain` is the direct approach: a list, whatever the pattern.
    """

    name: str
    pattern: UpdatePattern
    span: int
    partitions: int | None = None
    plain: bool = False

    def open(self, state: Working) -> Buffer:
        if self.plain:
            return Linear(state.chunks(self.name))
        chunks = state.chunks(self.name)
        partitions = self.partitions or adapted(sum(map(len, chunks)))
        return buffer_for(self.pattern, chunks, span=self.span, partitions=partitions)

    def close(self, state: Working, buffer: Buffer) -> None:
        state.store(self.name, buffer.chunks)
