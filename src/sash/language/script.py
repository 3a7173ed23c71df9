"""A script of statements, separated by semicolons, read one after the other."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, Span, nearest
from sash.core.time import Micros
from sash.language.create_stream import parse_create_stream
from sash.language.cursor import Cursor
from sash.language.dialect import parse_query, tokenize
from sash.language.statements import (
    CreateStream,
    Describe,
    DropQuery,
    DropStream,
    Explain,
    RegisterQuery,
    Select,
    SelectStatement,
    ShowQueries,
    Statement,
)

_STATEMENTS = ("CREATE STREAM", "REGISTER QUERY", "SHOW QUERIES", "DESCRIBE", "DROP", "EXPLAIN", "SELECT")
_LATER_CREATE = {
    "TABLE": "relations (CREATE TABLE)",
    "NONRETROACTIVE": "non-retroactive relations (CREATE NONRETROACTIVE TABLE)",
    "ARCHIVE": "archives (CREATE ARCHIVE)",
    "INDEX": "indexes (CREATE INDEX)",
}
_LATER = {"INSERT": "INSERT", "UPDATE": "UPDATE", "DELETE": "DELETE", "WITH": "common table expressions (WITH)"}
_STREAM_OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM", "WSTREAM", "ISTREAM_RESTORE", "RSTREAM_RESTORE")


def parse_script(text: str) -> list[Statement]:
    """All statements of a script; CqlError at the first word that is wrong.

    >>> [type(s).__name__ for s in parse_script("SHOW QUERIES; -- all\\nDROP QUERY q;")]
    ['ShowQueries', 'DropQuery']
    """
    statements: list[list[Token]] = [[]]
    for token in tokenize(text):
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [_statement(Cursor(tokens, text)) for tokens in statements if tokens]


def parse(text: str) -> Statement:
    """Exactly one statement."""
    statements = parse_script(text)
    if len(statements) != 1:
        raise CqlError(f"expected one statement, got {len(statements)}", text, Span(0, 1))
    return statements[0]


def _statement(cursor: Cursor) -> Statement:
    if cursor.accept("CREATE"):
        return _create(cursor)
    if cursor.accept("REGISTER"):
        cursor.expect("QUERY")
        return _register(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.accept("EXPLAIN"):
        return Explain(_select(cursor, cursor.tokens[cursor.position :]))
    if cursor.at("SELECT") or cursor.at("("):
        return SelectStatement(_select(cursor, cursor.tokens))
    return _command(cursor)


def _command(cursor: Cursor) -> Statement:
    for word, what in _LATER.items():
        if cursor.at(word):
            raise cursor.unsupported(what)
    _refuse_stream_operators(cursor)
    if cursor.accept("SHOW"):
        cursor.expect("QUERIES")
        cursor.expect_end()
        return ShowQueries()
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        name = cursor.name("the name of a query or stream")
        cursor.expect_end()
        return Describe(name)
    word = cursor.found().strip("'")
    hint = nearest(word, _STATEMENTS).split("; known")[0]
    raise cursor.error(f"expected a statement ({', '.join(_STATEMENTS)}), got '{word}'{hint}")


def _create(cursor: Cursor) -> CreateStream:
    for word, what in _LATER_CREATE.items():
        if cursor.at(word):
            raise cursor.unsupported(what)
    cursor.expect("STREAM")
    return parse_create_stream(cursor)


def _drop(cursor: Cursor) -> Statement:
    is_query = cursor.accept("QUERY")
    if not is_query:
        cursor.expect("STREAM", "QUERY or STREAM")
    name = cursor.name(f"the {'query' if is_query else 'stream'}'s name")
    cursor.expect_end()
    return DropQuery(name) if is_query else DropStream(name)


def _register(cursor: Cursor) -> RegisterQuery:
    name = cursor.name("the query's name")
    cursor.expect("AS", "AS and a SELECT")
    tokens = cursor.tokens[cursor.position :]
    end = _end_of_select(tokens)
    select = _select(cursor, tokens[:end])
    priority, lifetime = _register_clauses(Cursor(tokens, cursor.text, end))
    return RegisterQuery(name, select, priority, lifetime)


def _end_of_select(tokens: list[Token]) -> int:
    """Where LIFETIME or PRIORITY begins. A column of that name is never followed by a number."""
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else None
        named = token.token_type == TokenType.VAR and token.text.upper() in ("LIFETIME", "PRIORITY")
        if named and following is not None and following.token_type in (TokenType.NUMBER, TokenType.DASH):
            if following.token_type == TokenType.NUMBER or token.text.upper() == "LIFETIME":
                return i
            if i + 3 >= len(tokens) or tokens[i + 3].text.upper() == "LIFETIME":
                return i
    return len(tokens)


def _register_clauses(cursor: Cursor) -> tuple[int, Micros | None]:
    priority: int | None = None
    lifetime: Micros | None = None
    while cursor.token is not None:
        if cursor.at("LIFETIME") and lifetime is None:
            cursor.accept("LIFETIME")
            lifetime = cursor.duration("a LIFETIME", least=1)
        elif cursor.at("PRIORITY") and priority is None:
            cursor.accept("PRIORITY")
            priority = cursor.integer("a whole number after PRIORITY")
        else:
            raise cursor.error(f"expected LIFETIME, PRIORITY or the end of the statement, got {cursor.found()}")
    return priority or 0, lifetime


def _select(cursor: Cursor, tokens: list[Token]) -> Select:
    inner = Cursor(tokens, cursor.text)
    _refuse_stream_operators(inner)
    if inner.at("WITH"):
        raise inner.unsupported(_LATER["WITH"])
    if not (inner.at("SELECT") or inner.at("(")):
        where = inner.span if tokens else cursor.span
        raise cursor.error(f"expected SELECT, got {inner.found()}", where)
    return Select(parse_query(tokens, cursor.text), cursor.text, Span(tokens[0].start, tokens[-1].end + 1))


def _refuse_stream_operators(cursor: Cursor) -> None:
    for word in _STREAM_OPERATORS:
        if cursor.at(word):
            raise cursor.unsupported(f"continuous queries ({word.capitalize()})")
