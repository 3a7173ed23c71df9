"""State buffers of continuous operators: immutable chunks, ordered as the update pattern of their input asks."""

from sash.state.buffers import Buffer, CalendarQueue, Fifo, Hashed, Linear, buffer_for
from sash.state.chunk import Chunk
from sash.state.state import State, Working

__all__ = ["Buffer", "CalendarQueue", "Chunk", "Fifo", "Hashed", "Linear", "State", "Working", "buffer_for"]
