"""A script of statements, separated by semicolons, read one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, Span, nearest
from sash.plan.continuous import EXECUTIONS
from sash.sql.reading.create import (
    parse_alter_archive,
    parse_create_archive,
    parse_create_index,
    parse_create_stream,
    parse_create_table,
    parse_drop_index,
)
from sash.sql.reading.cursor import Cursor
from sash.sql.reading.dialect import parse_query, tokenize
from sash.sql.reading.limits import STATEMENTS, Limits, check_statement
from sash.sql.reading.output_clause import accept_output, finish_output
from sash.sql.reading.places import set_output
from sash.sql.reading.statements import (
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    Describe,
    DropArchive,
    DropQuery,
    DropStream,
    DropTable,
    Explain,
    RegisterQuery,
    Select,
    SelectStatement,
    SetExecution,
    ShowArchives,
    ShowIndexes,
    ShowQueries,
    ShowTables,
    Statement,
)
from sash.sql.reading.table_statements import parse_delete, parse_insert, parse_update

_STATEMENTS = (
    "CREATE STREAM",
    "CREATE TABLE",
    "CREATE INDEX",
    "CREATE ARCHIVE",
    "ALTER ARCHIVE",
    "REGISTER QUERY",
    "SHOW QUERIES",
    "SHOW TABLES",
    "SHOW INDEXES",
    "SHOW ARCHIVES",
    "DESCRIBE",
    "DROP",
    "INSERT",
    "UPDATE",
    "DELETE",
    "SET EXECUTION",
    "EXPLAIN",
    "SELECT",
)
_CHANGES: dict[str, Callable[[Cursor], Statement]] = {
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
}
_DROPS: dict[str, Callable[[str], Statement]] = {
    "QUERY": DropQuery,
    "STREAM": DropStream,
    "TABLE": DropTable,
    "ARCHIVE": DropArchive,
}
_SHOWN: dict[str, Callable[[], Statement]] = {
    "QUERIES": ShowQueries,
    "TABLES": ShowTables,
    "INDEXES": ShowIndexes,
    "ARCHIVES": ShowArchives,
}
_LATER = {"WITH": "common table expressions (WITH)"}
_REGISTER_CLAUSES = ("LIFETIME", "PRIORITY", "SYNOPSIS", "STORED")
_SYNOPSES = ("AUTO", "BASIC", "RUNNING", "INTERVAL", "LANDMARK", "CLUSTER")


def parse_script(text: str, limits: Limits = STATEMENTS) -> list[Statement]:
    """All statements of a script; CqlError at the first word that is wrong. `limits` are those of the whole.

    >>> [type(s).__name__ for s in parse_script("SHOW QUERIES; -- all\\nDROP QUERY q;")]
    ['ShowQueries', 'DropQuery']
    """
    statements: list[list[Token]] = [[]]
    for token in tokenize(text, limits):
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    present = [tokens for tokens in statements if tokens]
    for tokens in present:
        check_statement(tokens, text)
    return [_statement(Cursor(tokens, text)) for tokens in present]


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
    if cursor.accept("ALTER"):
        cursor.expect("ARCHIVE", "ARCHIVE after ALTER")
        return parse_alter_archive(cursor)
    if cursor.accept("EXPLAIN"):
        return Explain(_select(cursor, cursor.tokens[cursor.position :]))
    if cursor.at("SELECT") or cursor.at("(") or _at_output(cursor):
        return SelectStatement(_select(cursor, cursor.tokens))
    return _command(cursor)


def _command(cursor: Cursor) -> Statement:
    for word, what in _LATER.items():
        if cursor.at(word):
            raise cursor.unsupported(what)
    for word, read in _CHANGES.items():
        if cursor.accept(word):
            return read(cursor)
    if cursor.accept("SHOW"):
        shown = next((made for word, made in _SHOWN.items() if cursor.accept(word)), None)
        if shown is None:
            raise cursor.error(f"expected one of {', '.join(_SHOWN)} after SHOW, got {cursor.found()}")
        cursor.expect_end()
        return shown()
    if cursor.accept("SET"):
        cursor.expect("EXECUTION")
        chosen = next((name for name in EXECUTIONS if cursor.accept(name.upper())), None)
        if chosen is None:
            raise cursor.error(f"expected one of {', '.join(EXECUTIONS)} after SET EXECUTION, got {cursor.found()}")
        cursor.expect_end()
        return SetExecution(chosen)
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        name = cursor.name("the name of a query, stream or table")
        cursor.expect_end()
        return Describe(name)
    word = cursor.found().strip("'")
    hint = nearest(word, _STATEMENTS).split("; known")[0]
    raise cursor.error(f"expected a statement ({', '.join(_STATEMENTS)}), got '{word}'{hint}")


def _create(cursor: Cursor) -> CreateStream | CreateTable | CreateIndex | CreateArchive:
    if cursor.accept("INDEX"):
        return parse_create_index(cursor)
    if cursor.accept("ARCHIVE"):
        return parse_create_archive(cursor)
    later = cursor.accept("NONRETROACTIVE")
    if later or cursor.at("TABLE"):
        cursor.expect("TABLE")
        return parse_create_table(cursor, retroactive=not later)
    cursor.expect("STREAM", "STREAM, TABLE, NONRETROACTIVE TABLE, INDEX or ARCHIVE")
    return parse_create_stream(cursor)


def _drop(cursor: Cursor) -> Statement:
    if cursor.accept("INDEX"):
        return parse_drop_index(cursor)
    for word, statement in _DROPS.items():
        if cursor.accept(word):
            name = cursor.name(f"the {word.lower()}'s name")
            cursor.expect_end()
            return statement(name)
    raise cursor.error(f"expected QUERY, STREAM, TABLE, INDEX or ARCHIVE, got {cursor.found()}")


def _register(cursor: Cursor) -> RegisterQuery:
    name = cursor.name("the query's name")
    cursor.expect("AS", "AS and a SELECT")
    tokens = cursor.tokens[cursor.position :]
    end = _end_of_select(tokens)
    select = _select(cursor, tokens[:end])
    return RegisterQuery(name, select, **_register_clauses(Cursor(tokens, cursor.text, end)))


def _end_of_select(tokens: list[Token]) -> int:
    """Where LIFETIME, PRIORITY, SYNOPSIS or STORED IN CLUSTER begins, outside of parentheses."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and token.token_type == TokenType.VAR and _begins_clause(tokens[i : i + 4]):
            return i
    return len(tokens)


def _begins_clause(tokens: list[Token]) -> bool:
    """Whether four words, or all that are left, begin a clause behind a query: not a column of such a name.

    A column is never followed by a number, and a column that is sorted by at the end of a query by ASC or DESC.
    """
    word, *rest = (token.text.upper() for token in tokens)
    following = tokens[1].token_type if len(tokens) > 1 else None
    if word == "SYNOPSIS":
        is_name = following is not None and rest[0] not in ("ASC", "DESC") and rest[0][:1].isalpha()
        return is_name and (len(tokens) == 2 or rest[1] in _REGISTER_CLAUSES)
    if word == "STORED":
        return rest[:2] == ["IN", "CLUSTER"]
    if word == "LIFETIME":
        return following in (TokenType.NUMBER, TokenType.DASH)
    if word == "PRIORITY" and following == TokenType.DASH:
        return len(tokens) <= 3 or rest[2] in _REGISTER_CLAUSES
    return word == "PRIORITY" and following == TokenType.NUMBER


def _register_clauses(cursor: Cursor) -> dict[str, Any]:
    readers: dict[str, Callable[[Cursor], Any]] = {
        "LIFETIME": lambda c: c.duration("a LIFETIME", least=1),
        "PRIORITY": lambda c: c.integer("a whole number after PRIORITY"),
        "SYNOPSIS": _synopsis,
        "STORED": _stored,
    }
    found: dict[str, Any] = {}
    while cursor.token is not None:
        word = next((clause for clause in _REGISTER_CLAUSES if cursor.at(clause)), None)
        if word is None or word.lower() in found:
            expected = ", ".join(_REGISTER_CLAUSES)
            raise cursor.error(f"expected {expected} (once each) or the end of the statement, got {cursor.found()}")
        at = cursor.span
        cursor.accept(word)
        found[word.lower()] = readers[word](cursor)
        if found.get("stored") and found.get("synopsis"):
            raise cursor.error("a query says SYNOPSIS or STORED IN CLUSTER, not both", at)
    # Panes in the cluster are a kind of synopsis.
    stored = found.pop("stored", None)
    return {**found, "synopsis": stored} if stored else found


def _stored(cursor: Cursor) -> str:
    cursor.expect("IN", "IN CLUSTER behind STORED")
    cursor.expect("CLUSTER", "CLUSTER behind STORED IN")
    return "cluster"


def _synopsis(cursor: Cursor) -> str | None:
    for kind in _SYNOPSES:
        if cursor.accept(kind):
            return None if kind == "AUTO" else kind.lower()
    word = cursor.found()
    raise cursor.error(f"expected one of {', '.join(_SYNOPSES)} after SYNOPSIS, got {word}")


def _select(cursor: Cursor, tokens: list[Token]) -> Select:
    inner = Cursor(tokens, cursor.text)
    if _at_output(inner):
        return _select_with_output(inner)
    if inner.at("WITH"):
        raise inner.unsupported(_LATER["WITH"])
    if not (inner.at("SELECT") or inner.at("(")):
        where = inner.span if tokens else cursor.span
        raise cursor.error(f"expected SELECT, got {inner.found()}", where)
    return Select(parse_query(tokens, cursor.text), cursor.text, Span(tokens[0].start, tokens[-1].end + 1))


def _at_output(cursor: Cursor) -> bool:
    return accept_output(Cursor(cursor.tokens, cursor.text, cursor.position)) is not None


def _select_with_output(cursor: Cursor) -> Select:
    """`Istream(SELECT ..)`: the operator around a whole query."""
    clause = accept_output(cursor)
    assert clause is not None
    first = cursor.position
    cursor.position = _closing(cursor)
    inner = _select(cursor, cursor.tokens[first : cursor.position])
    cursor.expect(")", f") behind the SELECT in {clause.title}(..)")
    clause = finish_output(cursor, clause)
    cursor.expect_end()
    if inner.output is not None:
        raise cursor.error(f"there is {inner.output.title} inside already: one says how the answer is given", clause.at)
    set_output(inner.tree, clause)
    return Select(inner.tree, cursor.text, Span(cursor.tokens[0].start, cursor.tokens[-1].end + 1))


def _closing(cursor: Cursor) -> int:
    """The place of the parenthesis that closes the one before the cursor, or the end."""
    depth = 1
    for place in range(cursor.position, len(cursor.tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(cursor.tokens[place].token_type, 0)
        if depth == 0:
            return place
    return len(cursor.tokens)
