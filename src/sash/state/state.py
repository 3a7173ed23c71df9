"""The whole state of one bucket of a plan: buffers by name, and counters. An epoch turns one into the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sash.state.chunk import Chunk


@dataclass(frozen=True)
class State:
    """`buffers` are lists of chunks by the name of an operator's input, `counters` numbers that operators gave out.

    `memory` is what operators made of their buffers to save time, by their names. It is never stored, and handed out
    once: whoever takes it may change it. Neither is `results`, how many the epoch's join gave: what its work is judged
    by. `own` is what one of several tasks on the bucket has added, and the others do not know of.
    """

    buffers: Mapping[str, tuple[Chunk, ...]] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    results: int = field(default=0, compare=False, repr=False)
    own: Mapping[str, tuple[Chunk, ...]] = field(default_factory=dict)

    def chunks(self, name: str) -> tuple[Chunk, ...]:
        return self.buffers.get(name, ())

    def with_own(self, parts: Iterable[Mapping[str, tuple[Chunk, ...]]]) -> State:
        """The state with what tasks have added to it."""
        buffers = dict(self.buffers)
        for own in parts:
            for name, chunks in own.items():
                buffers[name] = (*buffers.get(name, ()), *chunks)
        return replace(self, buffers=buffers, own={})

    @property
    def tuples(self) -> int:
        return _number(self.buffers)

    @property
    def own_tuples(self) -> int:
        return _number(self.own)


def _number(buffers: Mapping[str, tuple[Chunk, ...]]) -> int:
    return sum(len(chunk) for chunks in buffers.values() for chunk in chunks)


class Working:
    """A state while an epoch works on it: operators replace their buffers, the old state stays as it was.

    It is that of one of several buckets, whose numbers may meet in another stage.
    """

    def __init__(self, state: State, bucket: int = 0, buckets: int = 1) -> None:
        self._buffers = dict(state.buffers)
        self._counters = dict(state.counters)
        self._recalled = state.memory
        self._memory: dict[str, Any] = {}
        self._own: dict[str, tuple[Chunk, ...]] = {}
        self.results = 0
        self._bucket = bucket
        self._buckets = buckets

    def chunks(self, name: str) -> tuple[Chunk, ...]:
        return self._buffers.get(name, ())

    def store(self, name: str, chunks: list[Chunk]) -> None:
        self._buffers[name] = tuple(chunks)

    def add_own(self, name: str, chunk: Chunk) -> None:
        """To a buffer to which every task on the bucket adds what it has found."""
        self._own[name] = (*self._own.get(name, ()), chunk)

    def numbers(self, name: str, more: int) -> NDArray[np.int64]:
        """Give out `more` numbers, in order, that neither an epoch before nor another bucket gives out.

        >>> Working(State(), bucket=2, buckets=5).numbers("0", 3).tolist()
        [2, 7, 12]
        """
        first = self._counters.get(name, 0)
        self._counters[name] = first + more
        return np.arange(first, first + more) * self._buckets + self._bucket

    def recalled(self, name: str) -> Any:
        """What the epoch before remembered, or None: the process has changed, or the epoch is processed again.

        It may belong to another epoch than the buffers do; whoever asks compares.
        """
        return self._recalled.pop(name, None)

    def remember(self, name: str, memory: Any) -> None:
        self._memory[name] = memory

    def finished(self) -> State:
        buffers = {name: chunks for name, chunks in self._buffers.items() if chunks}
        return State(buffers, self._counters, self._memory, self.results, self._own)
