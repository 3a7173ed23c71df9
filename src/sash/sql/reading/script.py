"""A script of statements, separated by semicolons, read one after the other; `create` reads CREATE and ALTER.

INSERT INTO t [(a, b)] VALUES (1, 'x'), (2, 'y')        all columns, or those that are named; the others are NULL
UPDATE t SET b = 'z' WHERE a = 1                        a = 1 is the whole key: one row
DELETE FROM t WHERE a = 1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, Span, nearest
from sash.plan.continuous import EXECUTIONS
from sash.sql.reading.alteration import EDITED, EXAMPLE
from sash.sql.reading.create import (
    parse_alter_archive,
    parse_create_archive,
    parse_create_index,
    parse_create_stream,
    parse_create_table,
    parse_drop_index,
)
from sash.sql.reading.cursor import Cursor, Name, token_span
from sash.sql.reading.dialect import parse_expression, parse_query, tokenize
from sash.sql.reading.limits import STATEMENTS, Limits, check_statement
from sash.sql.reading.output_clause import accept_output, finish_output
from sash.sql.reading.places import set_output
from sash.sql.reading.statements import (
    AlterQuery,
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    Delete,
    Describe,
    Drop,
    DropIndex,
    Explain,
    Insert,
    PauseOrResume,
    RegisterQuery,
    Select,
    SelectStatement,
    SetExecution,
    Setting,
    Show,
    Statement,
    Update,
)

_STATEMENTS = (
    "CREATE STREAM",
    "CREATE TABLE",
    "CREATE INDEX",
    "CREATE ARCHIVE",
    "ALTER ARCHIVE",
    "ALTER QUERY",
    "REGISTER QUERY",
    "REGISTER OR REPLACE QUERY",
    "PAUSE QUERY",
    "RESUME QUERY",
    "SHOW QUERIES",
    "SHOW STREAMS",
    "SHOW TABLES",
    "SHOW INDEXES",
    "SHOW ARCHIVES",
    "SHOW FUNCTIONS",
    "DESCRIBE",
    "DROP",
    "INSERT",
    "UPDATE",
    "DELETE",
    "SET EXECUTION",
    "EXPLAIN",
    "SELECT",
)
_DROPPED = ("QUERY", "STREAM", "TABLE", "ARCHIVE")
_SHOWN = ("QUERIES", "STREAMS", "TABLES", "INDEXES", "ARCHIVES", "FUNCTIONS")
# How a query begins.
_QUERY = ("SELECT", "WITH", "(")
_REGISTER_CLAUSES = ("LIFETIME", "PRIORITY", "SYNOPSIS", "STORED", "KEEP", "COMMENT")
_CLAUSE_WORDS = (TokenType.VAR, TokenType.KEEP, TokenType.COMMENT)
_OPTIONS = ("PRIORITY", "LIFETIME", "COMMENT")
_SYNOPSES = ("AUTO", "BASIC", "RUNNING", "INTERVAL", "LANDMARK", "CLUSTER")


def parse_script(text: str, limits: Limits = STATEMENTS) -> list[Statement]:
    """All statements of a script; CqlError at the first word that is wrong. `limits` are those of the whole.

    >>> [type(s).__name__ for s in parse_script("SHOW QUERIES; -- all\\nDROP QUERY q;")]
    ['Show', 'Drop']
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
        return _register(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.accept("ALTER"):
        if cursor.accept("QUERY"):
            return _alter_query(cursor)
        cursor.expect("ARCHIVE", "ARCHIVE or QUERY after ALTER")
        return parse_alter_archive(cursor)
    if cursor.accept("EXPLAIN"):
        return Explain(_question(cursor, cursor.tokens[cursor.position :]))
    if any(cursor.at(word) for word in _QUERY) or _at_output(cursor):
        return SelectStatement(_question(cursor, cursor.tokens))
    return _command(cursor)


def _command(cursor: Cursor) -> Statement:
    for word, read in _CHANGES.items():
        if cursor.accept(word):
            return read(cursor)
    if (is_pause := cursor.accept("PAUSE")) or cursor.accept("RESUME"):
        cursor.expect("QUERY")
        query = cursor.named("the query's name")
        cursor.expect_end()
        return PauseOrResume(query, "PAUSE" if is_pause else "RESUME", cursor.text)
    if cursor.accept("SHOW"):
        shown = next((word for word in _SHOWN if cursor.accept(word)), None)
        if shown is None:
            raise cursor.error(f"expected one of {', '.join(_SHOWN)} after SHOW, got {cursor.found()}")
        like = cursor.string("a pattern such as 'date*'") if shown == "FUNCTIONS" and cursor.accept("LIKE") else None
        cursor.expect_end()
        return Show(shown.lower(), like)
    if cursor.accept("SET"):
        cursor.expect("EXECUTION")
        chosen = next((name for name in EXECUTIONS if cursor.accept(name.upper())), None)
        if chosen is None:
            raise cursor.error(f"expected one of {', '.join(EXECUTIONS)} after SET EXECUTION, got {cursor.found()}")
        cursor.expect_end()
        return SetExecution(chosen)
    if cursor.accept("DESCRIBE") or cursor.accept("DESC"):
        extended = cursor.at("EXTENDED") and len(cursor.tokens) > cursor.position + 1 and cursor.accept("EXTENDED")
        name = cursor.name("the name of a query" if extended else "the name of a query, stream or table")
        cursor.expect_end()
        return Describe(name, extended)
    word = cursor.found().strip("'")
    hint = nearest(word, _STATEMENTS).split("; known")[0]
    raise cursor.error(f"expected a statement ({', '.join(_STATEMENTS)}), got '{word}'{hint}")


def _create(cursor: Cursor) -> CreateStream | CreateTable | CreateIndex | CreateArchive:
    read: Callable[[Cursor], CreateStream | CreateTable | CreateIndex | CreateArchive]
    if cursor.accept("INDEX"):
        read = parse_create_index
    elif cursor.accept("ARCHIVE"):
        read = parse_create_archive
    elif (later := cursor.accept("NONRETROACTIVE")) or cursor.at("TABLE"):
        cursor.expect("TABLE")
        read = partial(parse_create_table, retroactive=not later)
    else:
        cursor.expect("STREAM", "STREAM, TABLE, NONRETROACTIVE TABLE, INDEX or ARCHIVE")
        read = parse_create_stream
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    return replace(read(cursor), if_not_exists=if_not_exists)


def _drop(cursor: Cursor) -> Drop | DropIndex:
    kind = next((word for word in (*_DROPPED, "INDEX") if cursor.accept(word)), None)
    if kind is None:
        raise cursor.error(f"expected QUERY, STREAM, TABLE, INDEX or ARCHIVE, got {cursor.found()}")
    if_exists = cursor.accept("IF", "EXISTS")
    if kind == "INDEX":
        return replace(parse_drop_index(cursor), if_exists=if_exists)
    name = cursor.name(f"the {kind.lower()}'s name")
    cursor.expect_end()
    return Drop(kind.lower(), name, if_exists)


def _register(cursor: Cursor) -> RegisterQuery:
    start = cursor.span.start
    replace_at = Span(start, cursor.previous.end) if cursor.accept("OR", "REPLACE") else None
    cursor.expect("QUERY", "QUERY" if replace_at else "QUERY or OR REPLACE QUERY")
    if_at = cursor.span
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if if_not_exists and replace_at is not None:
        raise cursor.error("OR REPLACE registers in any case: leave out IF NOT EXISTS, or OR REPLACE", if_at)
    name = cursor.name("the query's name")
    cursor.expect("AS", "AS and a SELECT")
    tokens = cursor.tokens[cursor.position :]
    end = _end_of_select(tokens)
    select = _select(cursor, tokens[:end])
    clauses = _register_clauses(Cursor(tokens, cursor.text, end))
    return RegisterQuery(name, select, **clauses, if_not_exists=if_not_exists, replace_at=replace_at)


def _alter_query(cursor: Cursor) -> AlterQuery:
    """The cursor stands behind the words ALTER QUERY."""
    name = cursor.named("the query's name")
    cursor.expect("SET", "SET (..)")
    cursor.expect("(", f"({EXAMPLE})")
    edits, options = dict[str, Setting](), dict[str, Any]()
    while True:
        word = next((each for each in (*EDITED, *_OPTIONS) if cursor.at(each)), None)
        if word is None or word in edits or word.lower() in options:
            expected = ", ".join((*EDITED, *_OPTIONS))
            raise cursor.error(f"expected one of {expected} (once each), got {cursor.found()}")
        cursor.accept(word)
        if word in _OPTIONS:
            options[word.lower()] = _CLAUSES[word](cursor)
        else:
            edits[word] = _setting(cursor, word)
        if not cursor.accept(","):
            break
    cursor.expect(")", ", or )")
    allows_incomplete = cursor.accept("ALLOW", "INCOMPLETE")
    cursor.expect_end("ALLOW INCOMPLETE or the end of the statement")
    return AlterQuery(name, tuple(edits.values()), options, cursor.text, allows_incomplete)


def _setting(cursor: Cursor, word: str) -> Setting:
    """A condition, a duration, or a number for windows that count tuples or whose seconds have no unit."""
    start = cursor.span.start
    if word == "WHERE":
        _expression(cursor.until(",", ")"), cursor, "a condition")
    elif cursor.token is not None and cursor.token.text.isdecimal() and cursor.follows(",", ")"):
        cursor.integer(f"a {word}")
    else:
        cursor.duration(f"a {word}", least=1)
    at = Span(start, cursor.previous.end)
    return Setting(word, cursor.text[at.start : at.end], at)


def _end_of_select(tokens: list[Token]) -> int:
    """Where a clause such as LIFETIME, KEEP or STORED IN CLUSTER begins, outside of parentheses."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and token.token_type in _CLAUSE_WORDS and _begins_clause(tokens[i : i + 4]):
            return i
    return len(tokens)


def _begins_clause(tokens: list[Token]) -> bool:
    """Whether four words, or all that are left, begin a clause behind a query: not a column of such a name.

    A column is never followed by a number or a text, and a column that is sorted by at the end of a query by ASC or
    DESC.
    """
    word, *rest = (token.text.upper() for token in tokens)
    following = tokens[1].token_type if len(tokens) > 1 else None
    if word == "SYNOPSIS":
        is_name = following is not None and rest[0] not in ("ASC", "DESC") and rest[0][:1].isalpha()
        return is_name and (len(tokens) == 2 or rest[1] in _REGISTER_CLAUSES)
    if word == "STORED":
        return rest[:2] == ["IN", "CLUSTER"]
    if word == "COMMENT":
        return following == TokenType.STRING
    if word in ("LIFETIME", "KEEP"):
        return bool(rest) and (following in (TokenType.DASH, TokenType.INTERVAL) or rest[0][:1].isdigit())
    if word == "PRIORITY" and following == TokenType.DASH:
        return len(tokens) <= 3 or rest[2] in _REGISTER_CLAUSES
    return word == "PRIORITY" and following == TokenType.NUMBER


def _register_clauses(cursor: Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while cursor.token is not None:
        word = next((clause for clause in _REGISTER_CLAUSES if cursor.at(clause)), None)
        if word is None or word.lower() in found:
            expected = ", ".join(_REGISTER_CLAUSES)
            raise cursor.error(f"expected {expected} (once each) or the end of the statement, got {cursor.found()}")
        at = cursor.span
        cursor.accept(word)
        found[word.lower()] = _CLAUSES[word](cursor)
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


_CLAUSES: dict[str, Callable[[Cursor], Any]] = {
    "LIFETIME": lambda c: c.duration("a LIFETIME", least=1),
    "PRIORITY": lambda c: c.integer("a whole number after PRIORITY"),
    "SYNOPSIS": _synopsis,
    "STORED": _stored,
    "KEEP": lambda c: c.duration("KEEP", least=1),
    "COMMENT": lambda c: c.string("a COMMENT"),
}


def _question(cursor: Cursor, tokens: list[Token]) -> Select:
    """A SELECT of its own, which has no clauses behind it."""
    try:
        return _select(cursor, tokens)
    except CqlError:
        end = _end_of_select(tokens)
        if end == len(tokens):
            raise
        # Whatever else is wrong comes first.
        _select(cursor, tokens[:end])
        word = tokens[end].text.upper()
        way = "synopsis='cluster'" if word == "STORED" else f"{word.lower()}=.."
        reason = f"{word} stands behind REGISTER QUERY name AS SELECT ..; in Python, give register(.., {way})"
        raise cursor.error(reason, token_span(tokens[end])) from None


def _select(cursor: Cursor, tokens: list[Token]) -> Select:
    inner = Cursor(tokens, cursor.text)
    if _at_output(inner):
        return _select_with_output(inner)
    if not any(inner.at(word) for word in _QUERY):
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


def _insert(cursor: Cursor) -> Insert:
    """The cursor stands behind the word INSERT."""
    cursor.expect("INTO")
    table = cursor.named("the table's name")
    columns = _names(cursor) if cursor.at("(") else None
    if cursor.at("SELECT"):
        raise cursor.unsupported("INSERT .. SELECT; write VALUES (..), or session.update_table in Python")
    cursor.expect("VALUES", "VALUES and rows in parentheses")
    rows = [_row(cursor)]
    while cursor.accept(","):
        rows.append(_row(cursor))
    cursor.expect_end(", or the end of the statement")
    return Insert(table, columns, tuple(rows), cursor.text)


def _update(cursor: Cursor) -> Update:
    table = cursor.named("the table's name")
    cursor.expect("SET")
    values = [_assignment(cursor)]
    while cursor.accept(","):
        values.append(_assignment(cursor))
    return Update(table, tuple(values), _where(cursor, "UPDATE", table), cursor.text)


def _delete(cursor: Cursor) -> Delete:
    cursor.expect("FROM")
    table = cursor.named("the table's name")
    return Delete(table, _where(cursor, "DELETE", table), cursor.text)


def _names(cursor: Cursor) -> tuple[Name, ...]:
    cursor.expect("(")
    names = [cursor.named("a column's name")]
    while cursor.accept(","):
        names.append(cursor.named("a column's name"))
    cursor.expect(")", ", or )")
    return tuple(names)


def _row(cursor: Cursor) -> tuple[exp.Expr, ...]:
    cursor.expect("(", "a row in parentheses")
    values = [_value(cursor)]
    while cursor.accept(","):
        values.append(_value(cursor))
    cursor.expect(")", ", or )")
    return tuple(values)


def _assignment(cursor: Cursor) -> tuple[Name, exp.Expr]:
    name = cursor.named("a column's name")
    cursor.expect("=")
    return name, _value(cursor)


def _value(cursor: Cursor) -> exp.Expr:
    """The expression that ends at the next comma, parenthesis or WHERE of this level."""
    tokens = cursor.until(",", ")", "WHERE")
    return _expression(tokens, cursor, "a constant")


def _where(cursor: Cursor, word: str, table: Name) -> exp.Expr:
    if not cursor.at("WHERE"):
        raise cursor.error(
            f"{word} changes one row: expected WHERE and the key of '{table.text}', got {cursor.found()}"
        )
    cursor.accept("WHERE")
    tokens = cursor.tokens[cursor.position :]
    cursor.position = len(cursor.tokens)
    return _expression(tokens, cursor, "a condition")


def _expression(tokens: list[Token], cursor: Cursor, what: str) -> exp.Expr:
    if not tokens:
        raise cursor.error(f"expected {what}, got {cursor.found()}")
    return parse_expression(tokens, cursor.text)


_CHANGES: dict[str, Callable[[Cursor], Statement]] = {
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
}
