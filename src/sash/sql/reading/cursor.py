"""A cursor over the tokens of a script, for the grammar that is Sash's own.

sqlglot's parser knows expressions and SELECT; this cursor reads statements such as CREATE STREAM and the window clause,
because the errors of a hand-written grammar can say exactly what was expected.
All tokens keep their offset in the whole script, so every error shows the right line.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.time import LONGEST, SECOND, Micros, format_duration, parse_duration, unit_list
from sash.sql.strings import unquote

# A string may be as long as the text.
_LONGEST_QUOTED = 60
_NO_WORDS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)


@dataclass(frozen=True)
class Name:
    """An identifier as it was written, with its place."""

    text: str
    span: Span


def token_span(token: Token) -> Span:
    return Span(token.start, token.end + 1)


class Cursor:
    def __init__(self, tokens: list[Token], text: str, position: int = 0) -> None:
        self.tokens = tokens
        self.text = text
        self.position = position

    @property
    def token(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def span(self) -> Span:
        """The current token, or the place just after the last one."""
        if self.token is not None:
            return token_span(self.token)
        end = self.tokens[-1].end + 1 if self.tokens else len(self.text)
        return Span(end, end + 1)

    @property
    def previous(self) -> Span:
        return token_span(self.tokens[self.position - 1])

    def found(self) -> str:
        if self.token is None:
            return "the end of the statement"
        written = self.text[self.token.start : self.token.end + 1]
        return f"'{written}'" if len(written) <= _LONGEST_QUOTED else f"'{written[:_LONGEST_QUOTED]} ..'"

    def error(self, reason: str, span: Span | None = None) -> CqlError:
        return CqlError(reason, self.text, span or self.span)

    def unsupported(self, what: str, span: Span | None = None) -> NotSupportedError:
        return NotSupportedError(what, self.text, span or self.span)

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words, in any case."""
        if self.position + len(words) > len(self.tokens):
            return False
        for place, word in enumerate(words, self.position):
            token = self.tokens[place]
            found = token.text.upper()
            # A keyword of several words is one token, with any spaces in it.
            if (found != word and " ".join(found.split()) != word) or token.token_type in _NO_WORDS:
                return False
        return True

    def follows(self, *words: str) -> bool:
        """Whether the token behind the current one is one of these words."""
        behind = Cursor(self.tokens, self.text, self.position + 1)
        return any(behind.at(word) for word in words)

    def accept(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        self.position += len(words)
        return True

    def expect(self, word: str, reason: str = "") -> None:
        if not self.accept(word):
            raise self.error(f"expected {reason or word}, got {self.found()}")

    def expect_end(self, reason: str = "the end of the statement") -> None:
        if self.token is not None:
            raise self.error(f"expected {reason}, got {self.found()}")

    def name(self, what: str) -> str:
        """An identifier; almost every keyword may be one, as in Spark."""
        token = self.token
        if token is None or not (token.token_type == TokenType.IDENTIFIER or _is_word(token)):
            raise self.error(f"expected {what}, got {self.found()}")
        self.position += 1
        return token.text

    def until(self, *words: str, is_type: bool = False) -> list[Token]:
        """The tokens up to the next of these words outside of parentheses; in a type, < and > are parentheses, too."""
        opening, closing = [TokenType.L_PAREN], [TokenType.R_PAREN]
        if is_type:
            opening, closing = [*opening, TokenType.LT], [*closing, TokenType.GT]
        start, depth = self.position, 0
        while self.token is not None and not (depth == 0 and any(self.at(word) for word in words)):
            depth += self.token.token_type in opening
            depth -= self.token.token_type in closing
            self.position += 1
        return self.tokens[start : self.position]

    def named(self, what: str) -> Name:
        return Name(self.name(what), self.previous)

    def string(self, what: str) -> str:
        token = self.token
        if token is None or token.token_type != TokenType.STRING:
            raise self.error(f"expected {what} in quotes, got {self.found()}")
        self.position += 1
        try:
            return unquote(self.text[token.start : token.end + 1])
        except ValueError as reason:
            raise self.error(str(reason), self.previous) from None

    def integer(self, what: str) -> int:
        negative = self.accept("-")
        token = self.token
        if token is None or token.token_type != TokenType.NUMBER or not token.text.isdecimal():
            raise self.error(f"expected {what}, got {self.found()}")
        self.position += 1
        return -int(token.text) if negative else int(token.text)

    def seconds(self, what: str, *, least: Micros = 0) -> Micros:
        """A whole number of seconds, without a unit."""
        return self._checked(self.integer(what) * SECOND, what, least, self.previous)

    def duration(self, what: str, *, least: Micros = 0) -> Micros:
        """`10 sec`, `1.5m`, `INTERVAL '5' MINUTE`; at least `least`, and not absurdly long."""
        start = self.position
        expected = f"expected {what} such as '10 sec' (units: {unit_list()})"
        quoted = self.accept("INTERVAL") and self.token is not None and self.token.token_type == TokenType.STRING
        self.accept("-")
        token = self.token
        if token is None or not (quoted or token.text[:1].isdigit()):
            raise self.error(f"{expected}, got {self.found()}")
        self.position += 1
        if self.token is not None and self.token.start == token.start:
            # The tokenizer takes 10s for a SMALLINT: 10, ::, s.
            self.position += 2
        elif token.text[-1:].isdigit():
            if self.token is None or not _is_word(self.token):
                raise self.error(f"{expected}, got {self.found()}")
            self.position += 1
        span = Span(self.tokens[start].start, self.previous.end)
        try:
            micros = parse_duration(self.text[span.start : span.end].replace("- ", "-"))
        except ValueError as reason:
            raise self.error(str(reason), span) from None
        return self._checked(micros, what, least, span)

    def _checked(self, micros: Micros, what: str, least: Micros, span: Span) -> Micros:
        if micros < least:
            must = "must be greater than zero" if least else "must not be negative"
            raise self.error(f"{what} {must}, got {format_duration(micros)}", span)
        if micros > LONGEST:
            raise self.error(f"{what} is absurdly long; the longest is {format_duration(LONGEST)}", span)
        return micros


def _is_word(token: Token) -> bool:
    return token.token_type not in _NO_WORDS and (token.text[:1].isalpha() or token.text[:1] == "_")
