"""What a name may mean at one place of a SELECT: the stream's columns, aliases, and whether aggregates may stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sash.catalog import Stream
from sash.core.errors import CqlError, NotSupportedError, Span
from sash.language.terms import Term


@dataclass(frozen=True)
class Scope:
    """`no_aggregates` is why an aggregate may not stand here, or empty where it may."""

    script: str
    stream: Stream
    alias: str
    no_aggregates: str = ""
    aliases: Mapping[str, Term] = field(default_factory=dict)
    aliases_first: bool = False

    def without_aggregates(self, reason: str) -> Scope:
        return replace(self, no_aggregates=reason, aliases={})

    def with_aliases(self, aliases: Mapping[str, Term], *, first: bool = False, no_aggregates: str = "") -> Scope:
        return replace(self, aliases=aliases, aliases_first=first, no_aggregates=no_aggregates)

    def error(self, reason: str, span: Span) -> CqlError:
        return CqlError(reason, self.script, span)

    def unsupported(self, what: str, span: Span) -> NotSupportedError:
        return NotSupportedError(what, self.script, span)
