"""CQL as a sqlglot dialect: Spark's SELECT and expressions, plus the window clause behind a stream's name.

Every ordinary call parses as `exp.Anonymous` under the name that was written: the allow-list is one of
written names, and the text that goes to Spark is the same call, never sqlglot's idea of an equivalent.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.language.cursor import Cursor, token_span
from sash.language.strings import unquote
from sash.language.window_clause import WindowClause, parse_window_clause

_WINDOW = "cql_window"
_KEPT_PARSERS = ("CAST", "TRY_CAST", "EXTRACT")


def _string(parser: Any, token: Token) -> exp.Expr:
    """A string and those that follow it: Spark joins neighbours, and reads '' inside of one as a quote."""
    text, end = unquote(parser.sql[token.start : token.end + 1]), token.end
    while parser._curr and parser._curr.token_type == TokenType.STRING:
        written = parser.sql[parser._curr.start : parser._curr.end + 1]
        doubled = parser._curr.start == end + 1 and written[0] == parser.sql[end]
        text += (written[0] if doubled else "") + unquote(written)
        end = parser._curr.end
        parser._advance()
    literal = parser.expression(exp.Literal(this=text, is_string=True), token)
    literal.meta["end"] = end
    return literal


class CqlParser(SparkParser):
    STRICT_CAST = True  # an ANSI cast that fails is an error; sqlglot would write TRY_CAST
    FUNCTIONS: ClassVar[Any] = {}
    FUNCTION_PARSERS: ClassVar[Any] = {name: SparkParser.FUNCTION_PARSERS[name] for name in _KEPT_PARSERS}
    NO_PAREN_FUNCTIONS: ClassVar[Any] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[Any] = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    PRIMARY_PARSERS: ClassVar[Any] = {
        **SparkParser.PRIMARY_PARSERS,
        TokenType.STRING: _string,
        TokenType.RAW_STRING: _string,
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
    }

    def raise_error(self, message: str, token: Any = None) -> None:
        """As sqlglot raises it, so that its backtracking works, with the token for our own message."""
        at_end = not token and self._index >= self._tokens_size
        error = ParseError(message)
        error.args = (message, None if at_end else token or self._curr)
        raise error

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        *rest: Any,
        **options: Any,
    ) -> exp.Expr | None:
        """A stream's name with its window clause, before or after the alias; anything else is sqlglot's."""
        if schema or not self._curr:
            return super()._parse_table(schema, joins, alias_tokens, *rest, **options)
        for kind, what in ((TokenType.L_PAREN, "sub-queries in FROM"), (TokenType.VALUES, "VALUES in FROM")):
            if self._curr.token_type == kind:
                raise NotSupportedError(what, self.sql, token_span(self._curr))
        if self._next and self._next.token_type == TokenType.L_PAREN:
            raise NotSupportedError("table functions", self.sql, token_span(self._curr))
        table = self._parse_table_parts()
        if not isinstance(table, exp.Table):
            return table
        clause = self._parse_stream_window()
        alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
        if alias:
            table.set("alias", alias)
        table.meta[_WINDOW] = clause or self._parse_stream_window()
        return table

    def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
        """A list without a gap; sqlglot would let a trailing comma pass."""

        def item() -> Any:
            found = parse_method()
            if found is None and self._prev and self._prev.token_type == sep:
                self.raise_error("Expected an expression after the comma")
            return found

        return super()._parse_csv(item, sep)

    def _parse_select(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Remembers where a query begins, for the errors about sub-queries."""
        first = self._curr
        query = super()._parse_select(*args, **options)
        if query is not None and first and "start" not in query.meta:
            query.update_positions(first)
        return query

    def _parse_stream_window(self) -> WindowClause | None:
        if not self._curr or self._curr.token_type != TokenType.L_BRACKET:
            return None
        cursor = Cursor(self._tokens, self.sql, self._index)
        clause = parse_window_clause(cursor)
        self._advance(cursor.position - self._index)
        return clause


class Cql(Spark):
    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[Any] = set()  # SHOW would swallow the rest of its statement as one string

    Parser = CqlParser


def tokenize(text: str) -> list[Token]:
    try:
        return Cql().tokenize(text)
    except TokenError:
        raise _unreadable(text) from None


def parse_query(tokens: list[Token], text: str) -> exp.Expr:
    """The tree of one SELECT (or set operation); its nodes keep their offsets in `text`."""
    return _parse(CqlParser._parse_statement, tokens, text)


def parse_type(tokens: list[Token], text: str) -> exp.Expr:
    return _parse(CqlParser._parse_types, tokens, text)


def _parse(method: Any, tokens: list[Token], text: str) -> exp.Expr:
    parser = CqlParser(dialect=Cql())
    try:
        trees = parser._parse(method, tokens, text)
    except ParseError as error:
        raise _syntax_error(error, tokens, text) from None
    except RecursionError:
        raise CqlError("nested too deeply", text, token_span(tokens[0])) from None
    if not trees or trees[0] is None:
        raise CqlError("nothing to read here", text, token_span(tokens[0]))
    return trees[0]


def _syntax_error(error: ParseError, tokens: list[Token], text: str) -> CqlError:
    message, token = error.args if len(error.args) == 2 else (str(error), None)
    if not token:
        end = tokens[-1].end + 1
        return CqlError(f"the statement ends too early: {_said(message)}", text, Span(end, end + 1))
    written = text[token.start : token.end + 1]
    return CqlError(f"{_said(message)} at '{written}'", text, token_span(token))


def _said(message: str) -> str:
    """sqlglot's words, without the names of its classes."""
    if message.startswith("Expected table name"):
        return "expected the name of a stream"
    if message.startswith("Required"):
        return "expected an expression"
    if message.startswith("Invalid expression"):
        return "unexpected word"
    message = message.replace("Expecting", "expected").replace("Expected", "expected")
    return message[:1].lower() + message[1:]


_WHOLE = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<open>/\*|['"`])""", re.DOTALL
)


def _unreadable(text: str) -> CqlError:
    """The tokenizer only fails on something that is opened and never closed."""
    for match in _WHOLE.finditer(text):
        if match["open"]:
            return CqlError(f"{match['open']} is never closed", text, Span(match.start(), match.end()))
    return CqlError("unreadable text", text, Span(0, 1))


def window_clause(table: exp.Expr) -> WindowClause | None:
    return table.meta.get(_WINDOW)


def span_of(node: exp.Expr) -> Span:
    """From the first to the last word that the parser marked in a tree."""
    places = [(part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta]
    if not places:
        return Span(0, 1)
    return Span(min(start for start, _ in places), max(end for _, end in places))


def word_of(node: exp.Expr) -> Span:
    """The node's own word, for example a function's name; else its whole extent."""
    if "start" in node.meta:
        return Span(node.meta["start"], node.meta["end"] + 1)
    return span_of(node)
