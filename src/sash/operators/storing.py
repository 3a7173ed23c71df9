"""How an operator stores one of its inputs: under which name, and in the buffer that the input's pattern asks for."""

from __future__ import annotations

from dataclasses import dataclass

from sash.core.pattern import UpdatePattern
from sash.state import Buffer, Linear, buffer_for
from sash.state.buffers import PARTITIONS
from sash.state.state import Working


@dataclass(frozen=True)
class Storing:
    """`span` is about how long tuples live: the time that a calendar queue's partitions share.

    `plain` is the direct approach: a list, whatever the pattern.
    """

    name: str
    pattern: UpdatePattern
    span: int
    partitions: int = PARTITIONS
    plain: bool = False

    def open(self, state: Working) -> Buffer:
        if self.plain:
            return Linear(state.chunks(self.name))
        return buffer_for(self.pattern, state.chunks(self.name), span=self.span, partitions=self.partitions)

    def close(self, state: Working, buffer: Buffer) -> None:
        state.store(self.name, buffer.chunks)
