"""Reads tokens with sqlglot, and turns its complaints into errors at a word."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, Span
from sash.sql.reading.cursor import token_span
from sash.sql.reading.limits import (
    STATEMENTS,
    Limits,
    check_text,
    check_tokens,
    check_tree,
    check_windows,
    unclosed,
    within_stack,
)
from sash.sql.reading.parser import Cql, CqlParser

# Spark's functions for windows, and those of SQL for streams.
_WINDOW_FUNCTIONS = ("window", "window_time", "hop", "hop_start", "hop_end", "tumble", "tumble_start", "tumble_end")


def tokenize(text: str, limits: Limits = STATEMENTS) -> list[Token]:
    check_text(text, limits)
    try:
        tokens = Cql().tokenize(text)
    except TokenError:
        # The tokenizer only fails on something that is opened and never closed.
        raise unclosed(text) or CqlError("unreadable text", text, Span(0, 1)) from None
    check_tokens(tokens, text, limits)
    return tokens


def parse_query(tokens: list[Token], text: str) -> exp.Expr:
    """The tree of one SELECT (or set operation); its nodes keep their offsets in `text`."""
    _refuse_window_functions(tokens, text)
    return _parse(CqlParser._parse_statement, tokens, text)


def _refuse_window_functions(tokens: list[Token], text: str) -> None:
    """Refuse other systems' functions for windows, in FROM and in GROUP BY: the message shows CQL's form."""
    for token, following in pairwise(tokens):
        is_call = following.token_type == TokenType.L_PAREN and token.token_type != TokenType.IDENTIFIER
        if is_call and token.text.lower() in _WINDOW_FUNCTIONS:
            ways = "FROM packets [WINDOW 10 sec SLIDE 5 sec]; an answer's as_of is the end of its window"
            reason = f"{token.text.upper()} is refused: a window stands behind the name of its stream, {ways}"
            raise CqlError(reason, text, token_span(token))


def parse_expression(tokens: list[Token], text: str) -> exp.Expr:
    return _parse(CqlParser._parse_assignment, tokens, text)


def parse_type(tokens: list[Token], text: str) -> exp.Expr:
    return _parse(CqlParser._parse_types, tokens, text)


def _parse(method: Any, tokens: list[Token], text: str) -> exp.Expr:
    parser = CqlParser(dialect=Cql())
    try:
        with within_stack(text, token_span(tokens[0])):
            trees = parser._parse(method, tokens, text)
    except ParseError as error:
        raise _syntax_error(error, tokens, text) from None
    except (TokenError, IndexError) as error:
        # A hint is read separately; a hint without a word is an error of its own.
        hint = next((token for token in tokens if token.token_type == TokenType.HINT), None)
        if hint is None and isinstance(error, IndexError):
            raise
        raise CqlError(
            "a hint that cannot be read: leave it out, hints do not reach Spark", text, token_span(hint or tokens[0])
        ) from None
    if not trees or trees[0] is None:
        raise CqlError("nothing to read here", text, token_span(tokens[0]))
    check_tree(trees[0], text)
    check_windows(trees[0], text)
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
