"""All errors that Sash raises for a user's mistake.

One root, `SashError`, so that a program can catch all of it; one subclass per kind of mistake.
A message names the wrong word and a solution.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

# Codes of refusals: the SELECT would have to be registered; a stream would have to store its rows.
NEEDS_REGISTRATION, NEEDS_KEEP = "needs-registration", "needs-keep"
# A statement may be one long line.
_WIDEST = 400


class SashError(Exception):
    """The root of all errors that Sash raises on purpose."""


class RefusalError(SashError):
    """Why a query that is understood cannot be answered. `word` is the word at fault, if any."""

    def __init__(self, reason: str, word: str = "") -> None:
        super().__init__(reason)
        self.word = word


@dataclass(frozen=True)
class Span:
    """Where a word stands in a statement: character offsets, end exclusive."""

    start: int
    end: int


class CqlError(SashError):
    """A statement that cannot be understood or cannot work, with the word at fault.

    >>> print(CqlError("expected a duration", "SELECT 1 FROM s [WINDOW x]", Span(24, 25)))
    expected a duration (line 1, column 25)
      SELECT 1 FROM s [WINDOW x]
                              ^
    """

    def __init__(self, reason: str, text: str = "", span: Span | None = None, code: str = "") -> None:
        """`code` is for programs, if a refusal has one: the reason is for people alone."""
        self.reason = reason
        self.code = code
        self.text = text
        self.span = span
        self.line: int | None = None
        self.column: int | None = None
        if span is None:
            super().__init__(reason)
            return
        start = min(span.start, len(text))
        self.line = text.count("\n", 0, start) + 1
        line_start = text.rfind("\n", 0, start) + 1
        self.column = start - line_start + 1
        source, first = _excerpt(text[line_start:].split("\n", 1)[0], start - line_start)
        width = max(1, min(span.end - span.start, len(source) - first))
        caret = " " * first + "^" * width
        super().__init__(f"{reason} (line {self.line}, column {self.column})\n  {source}\n  {caret}")


def _excerpt(line: str, first: int) -> tuple[str, int]:
    """The shown part of a line, and the place of the word in it: for a very long line the part around the word."""
    if len(line) <= _WIDEST:
        return line, first
    start = max(0, first - _WIDEST // 2)
    end = start + _WIDEST
    before, after = ".. " if start else "", " .." if end < len(line) else ""
    return f"{before}{line[start:end]}{after}", first - start + len(before)


class NotSupportedError(CqlError):
    """Well-formed, but not in this version: says `not supported yet: X`."""

    def __init__(self, what: str, text: str = "", span: Span | None = None) -> None:
        super().__init__(f"not supported yet: {what}", text, span)
        self.what = what


class CatalogError(SashError):
    """An unknown or duplicate stream or query."""


class SourceError(SashError):
    """A source that cannot be opened or has gone away."""


class CheckpointError(SashError):
    """A checkpoint that cannot be used: another version, other streams, another owner, damage."""


class ArchiveError(SashError):
    """An archive that cannot be made, opened or updated: bad parameters or records, another writer, damage."""


class QueryFailedError(SashError):
    """An error in one query's expression while it ran; the query has failed, its neighbours have not."""


class QuestionStoppedError(SashError):
    """A one-time question that was stopped before it had an answer."""


class QuestionCancelledError(QuestionStoppedError):
    """The question was cancelled."""


class QuestionTimedOutError(QuestionStoppedError):
    """Its time was over."""


def missing_extra(what: str, package: str | None, extra: str) -> SashError:
    """The error about a package that an extra of Sash has. Sash is in no package registry: its checkout has the extra.

    >>> print(missing_extra("plot()", "matplotlib", "notebook"))
    plot() needs matplotlib: pip install '.[notebook]' in the folder of Sash's repository
    """
    return SashError(f"{what} needs {package}: pip install '.[{extra}]' in the folder of Sash's repository")


def nearest(word: str, candidates: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known one, else the list of known ones, else nothing.

    >>> nearest("lenght", ["length", "src"])
    "; did you mean 'length'?"
    >>> nearest("xyz", ["length", "src"])
    '; known: length, src'
    """
    known = sorted(candidates)
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{lowered[close[0]]}'?"
    return f"; known: {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}" if known else ""
