"""How long, how wide and how deep text may be; larger text is refused before it costs anything.

    text ──► characters, tokens (estimated) ──► tokenizer ──► words, nesting, IN lists ──► parser ──► depth, windows

The parser and everything behind it are recursive, and slow where there are many tokens: a user who sends text to a
session must not be able to keep it busy, or to exhaust its stack. An error names the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, Span
from sash.sql.reading.cursor import token_span
from sash.sql.reading.places import word_of


@dataclass(frozen=True)
class Limits:
    """The limits of a whole text: about as much as can be parsed within a second."""

    characters: int = 250_000
    tokens: int = 20_000


STATEMENTS = Limits()
# For scripts that the owner of a session runs from a file: they may take a while.
SCRIPTS = Limits(5_000_000, 400_000)
# A level of parentheses takes about twenty frames of the parser's, of the thousand that Python has.
MOST_NESTED = 32
# A level of the tree takes about three frames of the binder's.
MOST_DEEP = 200
MOST_VALUES = 1_000
# In FROM of one SELECT, and in all of a query. The number of join orders, and the time to price each, grow with them;
# the plan of a continuous query has every NOT IN several times, and is counted once more.
MOST_JOINED = 16
MOST_READ = 64
# Longer than the name of any column, and than any number that Spark can hold.
LONGEST_WORD = 1_000
# An INTERVAL is a whole number, of 18 digits at most, and a unit.
LONGEST_INTERVAL = 50

# A token of the dialect, or text that takes the tokenizer as long; `open` is a token without an end.
_TOKEN = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`
    |--[^\n]*|/\*(?!\+).*?\*/|(?P<open>/\*(?!\+)|['"`])|\w+|\S""",
    re.DOTALL | re.VERBOSE,
)
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.INTERVAL)
_CLOSED_BY = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.CASE: TokenType.END,
}


def check_text(text: str, limits: Limits) -> None:
    """Check a text before the tokenizer: its length, its characters, about how many tokens it has."""
    if len(text) > limits.characters:
        raise CqlError(f"the text has {len(text):,} characters; at most {limits.characters:,} are read")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="replace").decode()
        raise CqlError("half a character (a lone surrogate)", shown, Span(error.start, error.end)) from None
    if "\0" in text:
        at = text.index("\0")
        raise CqlError("a character that cannot be read (NUL)", text, Span(at, at + 1))
    # Comments may lie inside of others, where each is looked at again.
    allowed = limits.tokens - text.count("/*")
    crowded = next(islice(_TOKEN.finditer(text), max(0, allowed), None), None)
    if crowded is not None:
        raise _crowded(text, crowded.start(), limits)


def unclosed(text: str) -> CqlError | None:
    """The first thing that is opened and never closed."""
    for match in _TOKEN.finditer(text):
        if match["open"]:
            return CqlError(f"{match['open']} is never closed", text, Span(match.start(), match.end()))
    return None


def check_tokens(tokens: Sequence[Token], text: str, limits: Limits) -> None:
    """Check tokens before the parser."""
    if len(tokens) > limits.tokens:
        raise _crowded(text, tokens[limits.tokens].start, limits)
    open_here = _Nesting()
    for token in tokens:
        if len(token.text) > LONGEST_WORD and token.token_type != TokenType.STRING:
            reason = f"a word of {len(token.text):,} characters; the longest that is read has {LONGEST_WORD:,}"
            raise CqlError(reason, text, token_span(token))
        open_here.take(token.token_type)
        if open_here.depth > MOST_NESTED:
            raise CqlError(f"nested too deeply: at most {MOST_NESTED} levels are read", text, token_span(token))
        if open_here.values > MOST_VALUES:
            reason = f"an IN list of more than {MOST_VALUES:,} values; put them into a table, and join it"
            raise CqlError(reason, text, token_span(token))


def check_statement(tokens: Sequence[Token], text: str) -> None:
    """Check one statement of a script: after a restart it may be read by itself again."""
    if len(tokens) > STATEMENTS.tokens:
        raise _crowded(text, tokens[STATEMENTS.tokens].start, STATEMENTS)
    length = tokens[-1].end + 1 - tokens[0].start
    if length > STATEMENTS.characters:
        reason = f"a statement of {length:,} characters; at most {STATEMENTS.characters:,} are read"
        raise CqlError(reason, text, token_span(tokens[0]))


class _Nesting:
    """What is open at a token: parentheses, each with its values so far if it is an IN list; CASE; prefixes."""

    def __init__(self) -> None:
        self._levels: list[tuple[TokenType, int]] = []
        self._prefixes = 0
        self._before: TokenType | None = None

    def take(self, kind: TokenType) -> None:
        top = self._levels[-1][0] if self._levels else None
        if kind == TokenType.SEMICOLON:
            self._levels.clear()
        elif kind in _CLOSED_BY:
            self._levels.append((kind, int(self._before == TokenType.IN)))
        elif top is not None and kind == _CLOSED_BY[top]:
            self._levels.pop()
        elif kind == TokenType.COMMA and self.values:
            self._levels[-1] = (self._levels[-1][0], self.values + 1)
        self._prefixes = self._prefixes + 1 if kind in _PREFIXES else 0
        self._before = kind

    @property
    def depth(self) -> int:
        return len(self._levels) + self._prefixes

    @property
    def values(self) -> int:
        """How many values the open IN list has."""
        return self._levels[-1][1] if self._levels else 0


def check_tree(tree: exp.Expr, text: str) -> None:
    """Check a tree before the binder. Level by level, since a tree may be deeper than Python's stack."""
    level, depth = [tree], 1
    while level:
        if depth > MOST_DEEP:
            reason = f"an expression of more than {MOST_DEEP} levels; a + b + c has three"
            raise CqlError(reason, text, word_of(level[0]))
        level, depth = [child for node in level for child in _below(node)], depth + 1


def check_windows(tree: exp.Expr, text: str) -> None:
    """Check before the binder how many windows, tables and sub-queries are joined, and how many are read in all."""
    nodes = list(tree.find_all(exp.Select, exp.Table))
    for select in nodes:
        joins = select.args.get("joins") or [] if isinstance(select, exp.Select) else []
        if len(joins) >= MOST_JOINED:
            reason = f"a SELECT joins at most {MOST_JOINED} windows, tables and sub-queries"
            raise CqlError(f"{reason}: ask for less, in several queries", text, _named_at(joins[MOST_JOINED - 1].this))
    found = [node for node in nodes if isinstance(node, exp.Table)]
    if len(found) > MOST_READ:
        named = sorted(found, key=lambda table: _named_at(table).start)
        reason = f"a query reads at most {MOST_READ} windows and tables"
        raise CqlError(f"{reason}: ask for less, in several queries", text, _named_at(named[MOST_READ]))


def _named_at(source: exp.Expr) -> Span:
    return word_of(source.this if isinstance(source, exp.Table) else source)


def _below(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a node; a chain of ANDs, or of ORs, is one, because it is read in a loop."""
    while isinstance(node, exp.And | exp.Or) and type(node.this) is type(node):
        yield node.expression
        node = node.this
    yield from node.iter_expressions()


@contextmanager
def within_stack(text: str, at: Span) -> Iterator[None]:
    """A last resort: a program may call from deep inside of its own stack."""
    try:
        yield
    except RecursionError:
        raise CqlError("nested too deeply", text, at) from None


def _crowded(text: str, start: int, limits: Limits) -> CqlError:
    reason = f"more than {limits.tokens:,} words and signs, which are the most that are read at once"
    return CqlError(reason, text, Span(start, start + 1))
