"""CQL as a sqlglot dialect: Spark's SELECT and expressions, and CQL's own clauses of a SELECT.

    FROM stream [window] alias   FROM (SELECT ..) [window] alias   HAVING APPROX condition   WITH BOUNDS at the end
    SELECT .. EXCEPT ALL ON (k, ..) SELECT ..   SELECT .. APPROX INTERSECT [GROUPS n] SELECT ..
    SELECT Istream(..) FROM ..

Every ordinary call parses as `exp.Anonymous` under the name that was written: the allow-list is one of
written names, and the text that goes to Spark is the same call, never sqlglot's idea of an equivalent.
sqlglot's complaints become errors at a word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.sql.reading import places
from sash.sql.reading.common_tables import inline_common_tables
from sash.sql.reading.cursor import Cursor, token_span
from sash.sql.reading.limits import (
    LONGEST_INTERVAL,
    STATEMENTS,
    Limits,
    check_text,
    check_tokens,
    check_tree,
    check_windows,
    unclosed,
    within_stack,
)
from sash.sql.reading.output_clause import OutputClause, accept_aggregate_of_results, accept_output, finish_output
from sash.sql.reading.window_calls import (
    is_window_table,
    parse_window_table,
    rewrite_window_calls,
    with_window_names,
)
from sash.sql.reading.window_clause import WindowClause, parse_window_clause
from sash.sql.strings import unquote

_KEPT_PARSERS = ("CAST", "TRY_CAST", "EXTRACT")
# Tokens behind a column named `approx`; before anything else it is the word of HAVING APPROX.
_BEHIND_A_COLUMN = """
    = == <> != < <= > >= <=> + - * / % DIV & | ^ || . :: [ ) IS IN BETWEEN LIKE ILIKE RLIKE REGEXP AND OR
    LIMIT WITH UNION EXCEPT INTERSECT MINUS
"""
_OPERATORS = (*_BEHIND_A_COLUMN.split(), "ORDER BY")
_NEGATED = ("IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP")


def _string(parser: Any, token: Token) -> exp.Expr:
    """A string and those that follow it: Spark joins neighbours, and reads '' inside of one as a quote."""
    text, end = _unquoted(parser, token), token.end
    while parser._curr and parser._curr.token_type == TokenType.STRING:
        written = parser.sql[parser._curr.start : parser._curr.end + 1]
        doubled = parser._curr.start == end + 1 and written[0] == parser.sql[end]
        text += (written[0] if doubled else "") + _unquoted(parser, parser._curr)
        end = parser._curr.end
        parser._advance()
    literal = parser.expression(exp.Literal(this=text, is_string=True), token)
    literal.meta["end"] = end
    return literal


def _unquoted(parser: Any, token: Token) -> str:
    try:
        return unquote(parser.sql[token.start : token.end + 1])
    except ValueError as reason:
        raise CqlError(str(reason), parser.sql, token_span(token)) from None


class CqlParser(SparkParser):
    STRICT_CAST = True  # an ANSI cast that fails is an error; sqlglot would write TRY_CAST
    ADD_JOIN_ON_TRUE = False  # a JOIN without a condition is refused
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
        """Raise as sqlglot does, so that its backtracking works, with the token for our own message."""
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
        """A stream's name with its window clause, before or after the alias, or a sub-query; the rest is sqlglot's."""
        if schema or not self._curr:
            return super()._parse_table(schema, joins, alias_tokens, *rest, **options)
        if self._curr.token_type == TokenType.L_PAREN:
            return self._parse_sub_query(alias_tokens)
        if self._curr.token_type == TokenType.VALUES:
            raise NotSupportedError("VALUES in FROM", self.sql, token_span(self._curr))
        first = self._curr
        is_call = bool(self._next) and self._next.token_type == TokenType.L_PAREN
        if is_call and not is_window_table(self):
            raise NotSupportedError("table functions", self.sql, token_span(self._curr))
        table: exp.Expr | None = parse_window_table(self) if is_call else self._parse_table_parts()
        if not isinstance(table, exp.Table):
            return table
        if not isinstance(table.this, exp.Identifier):
            # A parameter, say, which sqlglot does not mark.
            table.update_positions(first)
        clause = places.window_clause(table) or self._parse_stream_window()
        alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
        if alias:
            table.set("alias", alias)
        places.set_window(table, clause or self._parse_stream_window())
        return table

    def _parse_with(self, skip_with_token: bool = False) -> exp.With | None:
        """WITH, but not RECURSIVE: an answer would need a number of steps that nobody knows."""
        follows = self._curr and self._curr.token_type == TokenType.WITH and self._next
        if follows and self._next.token_type == TokenType.RECURSIVE:
            way_out = "write its steps as queries of their own, WITH a AS (..), b AS (SELECT .. FROM a)"
            raise NotSupportedError(f"recursion (RECURSIVE); {way_out}", self.sql, token_span(self._next))
        return super()._parse_with(skip_with_token)

    def _parse_sub_query(self, alias_tokens: Collection[TokenType] | None) -> exp.Subquery:
        """`(SELECT ..) [window] alias`; its place is the opening parenthesis."""
        bracket = self._curr
        self._advance()
        query = self._parse_select(nested=True)
        if query is None:
            self.raise_error("Expected SELECT after ( in FROM")
        self._match_r_paren()
        clause = self._parse_stream_window()
        alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
        table = self.expression(exp.Subquery(this=query, alias=alias), bracket)
        places.set_window(table, clause or self._parse_stream_window())
        return table

    def _parse_table_alias(self, *args: Any, **options: Any) -> exp.TableAlias | None:
        """A name: sqlglot would take a parameter for one."""
        first = self._curr
        alias = None if self._at_approx_set() else super()._parse_table_alias(*args, **options)
        if alias is not None and alias.this is not None and not isinstance(alias.this, exp.Identifier):
            raise NotSupportedError("parameters", self.sql, token_span(first))
        return alias

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        return this if self._at_approx_set() else super()._parse_alias(this, explicit)

    def _at_approx_set(self) -> bool:
        """APPROX before the word of a set operation is no alias."""
        if not self._curr or not self._next or self._curr.token_type != TokenType.VAR:
            return False
        return self._curr.text.upper() == "APPROX" and self._next.token_type in self.SET_OPERATIONS

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        """The SELECT list, or `Istream(..)` around one."""
        cursor = Cursor(self._tokens, self.sql, self._index)
        clause = accept_aggregate_of_results(cursor) or accept_output(cursor)
        if clause is None:
            return super()._parse_projections()
        self._advance(cursor.position - self._index)
        return self._parse_output(clause), None

    def _parse_output(self, clause: OutputClause) -> list[exp.Expr]:
        if self._match(TokenType.DISTINCT):
            clause = replace(clause, distinct=token_span(self._prev))
        found = self._parse_expressions()
        if not found:
            self.raise_error(f"Expected columns or * in {clause.title}(..)")
        self._match_r_paren()
        cursor = Cursor(self._tokens, self.sql, self._index)
        clause = finish_output(cursor, clause)
        self._advance(cursor.position - self._index)
        if clause.around is not None:
            clause = replace(clause, around=replace(clause.around, alias=self._parse_end_of_aggregate()))
        if self._curr and self._curr.token_type == TokenType.COMMA:
            reason = f"{clause.title}(..) stands around the whole SELECT list: {clause.title}(a, b)"
            raise CqlError(reason, self.sql, clause.at)
        places.set_output(found[0], clause)
        return found

    def _parse_end_of_aggregate(self) -> str | None:
        self._match_r_paren()
        named = self._match(TokenType.ALIAS)
        if not named and not (self._curr and self._curr.token_type in (TokenType.VAR, TokenType.IDENTIFIER)):
            return None
        alias = self._parse_id_var()
        if alias is None:
            self.raise_error("Expected a name after AS")
        return alias.name if alias is not None else None

    def _parse_join(self, *args: Any, **options: Any) -> exp.Join | None:
        """Remember the join's words. A comma is always a join; sqlglot would try, and forget the error behind it."""
        first = self._index
        if self._match(TokenType.COMMA):
            return self.expression(exp.Join(this=self._parse_table(), kind="CROSS"), self._tokens[first])
        join = super()._parse_join(*args, **options)
        if join is not None:
            words = self._tokens[first : self._index]
            join.update_positions(words[0])
            join.meta["end"] = next((word.end for word in words if word.token_type == TokenType.JOIN), words[0].end)
        return join

    def _parse_types(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Read a type, but not in backquotes: sqlglot would read their contents separately."""
        if self._curr and self._curr.token_type == TokenType.IDENTIFIER:
            return None
        return super()._parse_types(*args, **options)

    def _parse_interval_span(self, this: exp.Expr, *args: Any, **options: Any) -> exp.Interval:
        """`'5' MINUTE`. sqlglot looks for units in the string, which takes the square of its length."""
        if this.is_string and len(this.name) > LONGEST_INTERVAL:
            reason = f"an INTERVAL of {len(this.name):,} characters; the longest that is read has {LONGEST_INTERVAL}"
            raise CqlError(reason, self.sql, places.span_of(this))
        return super()._parse_interval_span(this, *args, **options)

    def _parse_placeholder(self) -> exp.Expr | None:
        """Remembers where a parameter stands; there are none, and the error says where."""
        first = self._curr
        found = super()._parse_placeholder()
        if found is not None and first:
            found.update_positions(first)
        return found

    def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
        """A list without a gap; sqlglot would let a trailing comma pass."""

        def item() -> Any:
            found = parse_method()
            if found is None and self._prev and self._prev.token_type == sep:
                self.raise_error("Expected an expression after the comma")
            return found

        return super()._parse_csv(item, sep)

    def parse_set_operation(self, this: Any, *args: Any, **options: Any) -> exp.SetOperation | None:
        """Remember the operation's word, APPROX before it, and the clauses between it and its second query."""
        approx = token_span(self._curr) if self._at_approx_set() else None
        if approx is not None:
            self._advance()
        first = self._index
        operation = super().parse_set_operation(this, *args, **options)
        if operation is not None and operation.expression is not None:
            places.set_word(operation, token_span(self._tokens[first]))
            places.set_keys(operation, places.keys_of(operation.expression))
            places.set_approx(operation, approx)
            places.set_groups(operation, places.groups_of(operation.expression))
        elif approx is not None:
            self._retreat(first - 1)
        return operation

    def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
        """Remembers where the first query begins and ends: sqlglot calls no method for it alone."""
        if isinstance(this, exp.Select) and "start" not in this.meta:
            this.update_positions(self._last_select())
            places.set_end(this, self._prev.end + 1)
        return super()._parse_set_operations(this)

    def _last_select(self) -> Token:
        """The word SELECT of the query that was just read; queries in parentheses are inside of it."""
        depth = 0
        for place in range(self._index - 1, -1, -1):
            token = self._tokens[place]
            depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(token.token_type, 0)
            if depth == 0 and token.token_type == TokenType.SELECT:
                return token
        return self._tokens[0]

    def _parse_set_keys(self) -> list[exp.Expr]:
        """ON (k, ..) behind EXCEPT ALL, or in a wrong place: the columns by which rows are matched."""
        if not self._match(TokenType.ON):
            return []
        keys = self._parse_wrapped_csv(self._parse_id_var)
        if not keys:
            self.raise_error("Expected columns in ON (..)", self._prev)
        return keys

    def _parse_set_groups(self) -> exp.Expr | None:
        """GROUPS n behind APPROX INTERSECT, or in a wrong place."""
        if not self._match_text_seq("GROUPS"):
            return None
        number = self._parse_number()
        if number is None:
            self.raise_error("Expected a number after GROUPS")
        return number

    def _parse_select(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Remembers where a query begins and ends, for the errors about sub-queries."""
        is_second = not options.get("parse_set_operation", True)
        keys, groups = (self._parse_set_keys(), self._parse_set_groups()) if is_second else ([], None)
        first = self._curr
        if first and first.token_type == TokenType.FROM:
            # sqlglot would read SELECT * before it, which is nowhere in the text.
            self.raise_error("Expected SELECT", first)
        query = super()._parse_select(*args, **options)
        if query is not None and keys:
            places.set_keys(query, keys)
        if query is not None and groups is not None:
            places.set_groups(query, groups)
        if query is not None and first and "start" not in query.meta:
            query.update_positions(first)
        if query is not None and self._prev:
            places.set_end(query, self._prev.end + 1)
        if isinstance(query, exp.Select):
            _name_sub_queries(query)
        return query

    def _parse_query_modifiers(self, this: Any) -> Any:
        query = super()._parse_query_modifiers(this)
        if isinstance(query, exp.Select) and self._match_text_seq("WITH", "BOUNDS"):
            first, last = self._tokens[self._index - 2 : self._index]
            places.set_bounds(query, Span(first.start, last.end + 1))
        return query

    def _parse_having(self, skip_having_token: bool = False) -> exp.Having | None:
        if not skip_having_token and not self._match(TokenType.HAVING):
            return None
        approximate = self._at_approx() and self._match_text_seq("APPROX")
        having = super()._parse_having(skip_having_token=True)
        if approximate and having is not None:
            places.set_approximate(having)
        return having

    def _at_approx(self) -> bool:
        """Whether APPROX is the keyword: a column of that name is followed by an operator or by nothing."""
        following, then = (
            [token.text.upper() for token in self._tokens[self._index + 1 : self._index + 3]] + ["", ""]
        )[:2]
        if following == "NOT":
            return then not in _NEGATED
        return bool(following) and following.split()[0] not in _OPERATORS

    def _parse_stream_window(self) -> WindowClause | None:
        if not self._curr or self._curr.token_type != TokenType.L_BRACKET:
            return None
        cursor = Cursor(self._tokens, self.sql, self._index)
        clause = parse_window_clause(cursor)
        self._advance(cursor.position - self._index)
        return clause


def _name_sub_queries(query: exp.Select) -> None:
    """Give the sub-queries of FROM that have no alias one each: subquery, subquery2, .."""
    clause = query.args.get("from_")
    sources = [] if clause is None else [clause.this, *(join.this for join in query.args.get("joins") or [])]
    nameless = [each for each in sources if isinstance(each, exp.Subquery) and each.args.get("alias") is None]
    for number, each in enumerate(nameless, 1):
        name = exp.to_identifier(f"subquery{number if number > 1 else ''}")
        name.meta.update(each.meta)
        each.set("alias", exp.TableAlias(this=name))


class Cql(Spark):
    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[Any] = set()  # SHOW would swallow the rest of its statement as one string

    Parser = CqlParser


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
    """The tree of one SELECT (or set operation) in CQL; its nodes keep their offsets in `text`."""
    named = with_window_names(tokens)
    tree = _parse(CqlParser._parse_statement, named, text)
    with within_stack(text, token_span(tokens[0])):
        rewrite_window_calls(tree, named, text)
        if inline_common_tables(tree, text):
            check_tree(tree, text)
            check_windows(tree, text)
    return tree


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
