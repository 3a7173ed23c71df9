"""An explanation: sections with titles. The text of EXPLAIN is printed from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from sash.catalog import Stream
from sash.plan.expressions import with_short_calls


class Section(NamedTuple):
    """`text` stands behind the title, `lines` below it, indented. `apart`: after an empty line.

    >>> print(Section("Synopsis", "basic", ["  its only reader"]).printed)
    Synopsis: basic
      its only reader
    """

    title: str
    text: str = ""
    lines: Sequence[str] = ()
    apart: bool = False

    @property
    def printed(self) -> str:
        head = f"{self.title}: {self.text}" if self.text else self.title
        return "\n".join([*([""] if self.apart else []), head, *self.lines])

    @property
    def for_people(self) -> Section:
        """With calls of the program's functions as they were written."""
        title, text, *lines = map(with_short_calls, (self.title, self.text, *self.lines))
        return Section(title, text, lines, self.apart)


class Explanation(str):
    """The text of EXPLAIN: a string that a notebook shows in lines, made of `parts`.

    >>> made = Explanation([Section("Plan", lines=["  Window s"]), Section("Synopsis", "basic", ["  its only reader"])])
    >>> made.sections
    {'plan': '  Window s', 'synopsis': 'basic\\n  its only reader'}
    """

    __slots__ = ("parts",)
    parts: tuple[Section, ...]

    def __new__(cls, parts: Iterable[Section]) -> Explanation:
        parts = tuple(part.for_people for part in parts)
        made = super().__new__(cls, "\n".join(part.printed for part in parts))
        made.parts = parts
        return made

    def __getnewargs__(self) -> tuple[tuple[Section, ...]]:  # type: ignore[override]
        """Copies, and other processes, get the sections."""
        return (self.parts,)

    @property
    def sections(self) -> dict[str, str]:
        """By title, in lower case; sections of one title are joined."""
        found: dict[str, list[str]] = {}
        for part in self.parts:
            found.setdefault(part.title.lower(), []).extend((part.text, *part.lines))
        return {title: "\n".join(lines).strip("\n") for title, lines in found.items()}

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def time_sections(streams: Iterable[Stream]) -> Iterator[Section]:
    """For each stream without timestamps of its own: where its timestamps come from."""
    for stream in {each.name: each for each in streams if each.implicit}.values():
        yield Section(
            "Time", f"of arrival, one for each micro-batch, in the column {stream.timestamp} of {stream.name}"
        )
