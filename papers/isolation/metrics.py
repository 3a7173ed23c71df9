"""What the experiments of section 7.5 measure of one execution (figure 7.7)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Execution:
    """Times of one answer: when its query began, when it was there, when the latest update in it was due."""

    start: float
    end: float
    reflected: float
    aborts: int = 0
    query: int = 0
    once: bool = False

    @property
    def staleness(self) -> float:
        return self.end - self.reflected

    @property
    def response_time(self) -> float:
        return self.end - self.start
