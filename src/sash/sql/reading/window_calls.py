"""Windows that other systems write as calls, as windows of CQL.

    Spark       SELECT window.end, .. FROM packets .. GROUP BY window(ts, '60 seconds', '5 seconds'), src
                SELECT session_window.end, .. FROM packets .. GROUP BY session_window(ts, '30 seconds'), src
    Flink       SELECT window_end, .. FROM TABLE(HOP(TABLE packets, DESCRIPTOR(ts), INTERVAL '5' SECOND, ..)) ..
                GROUP BY window_start, window_end, src
    RisingWave  .. FROM HOP(packets, ts, INTERVAL '5' SECOND, INTERVAL '60' SECOND) ..

    CQL         SELECT window_end() AS end, .. FROM packets [WINDOW 60 sec SLIDE EXACTLY 5 sec] .. GROUP BY src

The tree becomes that of the CQL: nothing behind this module knows such calls but the binder, which asks the stream how
their windows lie. Every change of the tree is a change of the text as well, which EXPLAIN shows. Groups of those
systems have tuples; where nothing but the window is left in GROUP BY, HAVING COUNT(*) > 0 leaves out empty windows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sash.core.errors import CqlError, NotSupportedError, Span
from sash.core.time import LONGEST, Micros, format_duration, parse_duration
from sash.core.window import SessionWindow, TimeWindow
from sash.sql.reading import places
from sash.sql.reading.cursor import Name, token_span
from sash.sql.reading.places import TextEdit, span_of
from sash.sql.reading.window_clause import MOST_GAPS, WindowCall, WindowClause
from sash.sql.types import identifier

_EXAMPLE = "FROM packets [WINDOW 60 sec SLIDE 5 sec]"
_EDGES = "window_start() and window_end() are its edges"
_SIDES = {"start": "window_start", "end": "window_end"}
_STRUCT = "window_bounds"
# The columns of Flink's and RisingWave's tables.
_COLUMNS = {"window_start": "window_start", "window_end": "window_end"}
_TABLES = ("hop", "tumble")
# The calls that have no rows over an empty window.
LISTS = ("top", "frequent", "histogram", "approx_top")
_ARGUMENTS = {"hop": ("data", "timecol", "slide", "size", "offset"), "tumble": ("data", "timecol", "size", "offset")}
_SESSION = "session_window"
_SESSION_EXAMPLE = "FROM packets [SESSION GAP 30 sec]"
_SESSIONS = f"SESSION(..) in FROM; write {_SESSION_EXAMPLE}, and GROUP BY the keys; {_EDGES}"
_GROUPED = f"write {_EXAMPLE}, or HOP and TUMBLE in FROM; {_EDGES}"
_REFUSED = {
    **dict.fromkeys(("hop", "tumble"), f"in GROUP BY is refused: {_GROUPED}"),
    **dict.fromkeys(("hop_start", "hop_end", "tumble_start", "tumble_end"), f"is refused: {_GROUPED}"),
    "window_time": "is refused: window_end() is the end of a window, which no tuple of the window has",
    "cumulate": "is refused: FROM packets [SINCE midnight SLIDE 10 min] is the day so far, at every step",
}
_DURATION = re.compile(r"(?:interval\s+)?([+-]?\s*\d+(?:\.\d+)?\s*[a-z]+(?:\s+\d+(?:\.\d+)?\s*[a-z]+)*)", re.I)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.I)
_ENDS = (TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.WITH, TokenType.SEMICOLON)
_BEFORE_A_NAME = (TokenType.SELECT, TokenType.COMMA, TokenType.L_PAREN, TokenType.GROUP_BY, TokenType.ORDER_BY)


# -- tokens --------------------------------------------------------------------------------------------


def with_window_names(tokens: list[Token]) -> list[Token]:
    """The tokens, with the word `window` as a name where it does not begin a clause."""
    if not any(token.token_type == TokenType.WINDOW for token in tokens):
        return tokens
    found = []
    for place, token in enumerate(tokens):
        before = tokens[place - 1].token_type if place else None
        after = tokens[place + 1].token_type if place + 1 < len(tokens) else None
        if token.token_type == TokenType.WINDOW and (
            after in (TokenType.L_PAREN, TokenType.DOT) or before in _BEFORE_A_NAME
        ):
            token = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
        found.append(token)
    return found


def _has_calls(tokens: Sequence[Token]) -> bool:
    names = ("window", "session_window", *_TABLES, *_REFUSED)
    return any(
        following.token_type == TokenType.L_PAREN
        and token.token_type != TokenType.IDENTIFIER
        and token.text.lower() in names
        for token, following in pairwise(tokens)
    )


# -- FROM ----------------------------------------------------------------------------------------------


def is_window_table(parser: Any) -> bool:
    """Whether HOP(, TUMBLE(, a refused call of that kind, or TABLE( stands here."""
    word = parser._curr.text.lower()
    return word in (*_TABLES, "cumulate", "session", "table")


def parse_window_table(parser: Any) -> exp.Table:
    """`HOP(packets, ts, ..)` or `TABLE(HOP(TABLE packets, DESCRIPTOR(ts), ..))`: the stream, with its window."""
    first, depth = parser._curr, 1
    if first.text.lower() == "table":
        parser._advance(2)
        depth = 2
    word = parser._curr
    name = word.text.lower() if word else ""
    if name == "session":
        raise NotSupportedError(_SESSIONS, parser.sql, token_span(word))
    if name in _REFUSED and name not in _TABLES:
        raise CqlError(f"{word.text.upper()} {_REFUSED[name]}", parser.sql, token_span(word))
    if name not in _TABLES or not parser._next or parser._next.token_type != TokenType.L_PAREN:
        parser.raise_error("Expected HOP(..) or TUMBLE(..) in TABLE(..)")
    parser._advance(2)
    found = _table_arguments(parser, name)
    for _ in range(depth):
        if not parser._match(TokenType.R_PAREN):
            parser.raise_error("Expected )")
    extent = Span(first.start, parser._prev.end + 1)
    reader = _Durations(parser.sql, word)
    missing = next((each for each in _ARGUMENTS[name][:-1] if each not in found), None)
    if missing is not None:
        form = ", ".join(each.upper() for each in _ARGUMENTS[name])
        raise CqlError(f"{word.text.upper()} lacks its {missing.upper()}: ({form})", parser.sql, token_span(word))
    table, column = found["data"], found["timecol"]
    size = reader.length(found["size"], "a window's length")
    slide = reader.length(found["slide"], "a SLIDE") if "slide" in found else size
    start = reader.micros(found["offset"]) if "offset" in found else 0
    call = WindowCall(word.text.upper(), token_span(word), Name(column.name, span_of(column)), size + start)
    at = token_span(word)
    places.set_window(table, WindowClause(TimeWindow(size, slide, exactly=True), extent, at, at, call=call))
    return table


def _table_arguments(parser: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while True:
        key = _ARGUMENTS[name][len(found)] if len(found) < len(_ARGUMENTS[name]) else None
        at = parser._curr
        if parser._next and parser._next.token_type == TokenType.FARROW:
            key = parser._curr.text.lower()
            parser._advance(2)
        if key not in _ARGUMENTS[name] or key in found:
            reason = f"{name.upper()} has the arguments ({', '.join(_ARGUMENTS[name])}), once each"
            raise CqlError(reason, parser.sql, token_span(at))
        found[key] = _table_argument(parser, key)
        if not parser._match(TokenType.COMMA):
            return found


def _table_argument(parser: Any, key: str) -> Any:
    if key == "data":
        parser._match(TokenType.TABLE)
        table = parser._parse_table_parts()
        if not isinstance(table, exp.Table):
            parser.raise_error("Expected table name")
        return table
    if key != "timecol":
        return parser._parse_assignment() or parser.raise_error("Expected a length such as INTERVAL '5' SECOND")
    is_wrapped = parser._match_text_seq("DESCRIPTOR")
    if is_wrapped:
        parser._match_l_paren()
    column = parser._parse_id_var() or parser.raise_error("Expected the column of the time")
    if is_wrapped:
        parser._match_r_paren()
    return column


class _Durations:
    """The lengths in a call; errors at `word` where a length has no place of its own."""

    def __init__(self, text: str, word: Token) -> None:
        self._text, self._word = text, token_span(word)

    def length(self, node: exp.Expr, what: str) -> Micros:
        micros = self.micros(node)
        if not 0 < micros <= LONGEST:
            reason = f"{what} must be greater than zero, and at most {format_duration(LONGEST)}"
            raise CqlError(reason, self._text, self._at(node))
        return micros

    def micros(self, node: exp.Expr) -> Micros:
        written = node.name
        if isinstance(node, exp.Interval) and node.this is not None:
            written = f"{node.this.name} {node.args['unit'].name if node.args.get('unit') is not None else ''}"
        found = _DURATION.fullmatch(written.strip()) if isinstance(node, exp.Interval | exp.Literal) else None
        if found is None:
            self._refuse(node)
        parts = found[1].strip()
        sign = -1 if parts.startswith("-") else 1
        return sign * sum(self._part(number, unit, node) for number, unit in _PART.findall(parts))

    def _part(self, number: str, unit: str, node: exp.Expr) -> Micros:
        weeks = unit.lower() in ("week", "weeks")
        try:
            return parse_duration(f"{number} {'day' if weeks else unit}") * (7 if weeks else 1)
        except ValueError:
            self._refuse(node)

    def _refuse(self, node: exp.Expr) -> NoReturn:
        reason = "expected a length such as '5 seconds' or INTERVAL '5' SECOND"
        raise CqlError(reason, self._text, self._at(node))

    def _at(self, node: exp.Expr) -> Span:
        marked = span_of(node)
        return self._word if marked == Span(0, 1) else marked


# -- the tree ------------------------------------------------------------------------------------------


def rewrite_window_calls(tree: exp.Expr, tokens: Sequence[Token], text: str) -> None:
    """Rewrite a tree that was just read; its tokens tell where a call ends."""
    if not _has_calls(tokens):
        return
    edits: list[TextEdit] = []
    for select in list(tree.find_all(exp.Select)):
        edits += _SelectRewriter(select, tokens, text).edits
    places.set_edits(tree, tuple(edits))


class _SelectRewriter:
    """One SELECT. `edits` are what became of its text."""

    def __init__(self, select: exp.Select, tokens: Sequence[Token], text: str) -> None:
        self._select, self._tokens, self._text = select, tokens, text
        self._places = {token.start: place for place, token in enumerate(tokens)}
        self.edits: list[TextEdit] = []
        self._names: set[str] = set()
        # The alias of the window's stream, where there are other sources.
        self._source: str | None = None
        self._refuse_others()
        calls = [node for node in self._own(exp.Anonymous) if node.name.lower() in ("window", _SESSION)]
        table = next((each for each in self._sources() if self._call_of(each) is not None), None)
        if calls:
            self._spark(calls, table)
        elif table is not None:
            self._table(table)

    def _own(self, kind: type[exp.Expr]) -> Iterator[Any]:
        """The nodes of this SELECT, without those of queries inside of it."""
        inside = (node for node in self._select.walk(prune=self._is_other))
        return (node for node in list(inside) if isinstance(node, kind) and not self._is_other(node))

    def _is_other(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Query) and node is not self._select

    def _sources(self) -> list[exp.Expr]:
        clause = self._select.args.get("from_")
        return [] if clause is None else [clause.this, *(join.this for join in self._select.args.get("joins") or [])]

    def _call_of(self, source: exp.Expr) -> WindowCall | None:
        clause = places.window_clause(source)
        return None if clause is None else clause.call

    def _error(self, reason: str, at: Span) -> CqlError:
        return CqlError(reason, self._text, at)

    def _refuse_others(self) -> None:
        for node in self._own(exp.Anonymous):
            if node.name.lower() in _REFUSED:
                raise self._error(f"{node.name.upper()} {_REFUSED[node.name.lower()]}", places.word_of(node))

    # -- Spark -----------------------------------------------------------------------------------------

    def _spark(self, calls: list[exp.Anonymous], other: exp.Expr | None) -> None:
        first = calls[0]
        at = places.word_of(first)
        for node in calls[1:]:
            if node != first:
                reason = "two windows in one SELECT: give each its own, FROM (SELECT ..) a JOIN (SELECT ..) b"
                raise self._error(reason, places.word_of(node))
        named = [item for item in self._select.expressions if isinstance(item, exp.Alias) and item.this in calls]
        self._names = {first.name.lower(), *(item.alias.lower() for item in named)}
        removed = [place for place, item in enumerate(self._keys()) if self._is_window(item)]
        if not removed:
            reason = "stands in GROUP BY: without it every tuple would have a row for each of its windows"
            word, example = first.name.upper(), _SESSION_EXAMPLE if first.name.lower() == _SESSION else _EXAMPLE
            raise self._error(f"{word}(..) {reason}; a window stands behind its stream's name, {example}", at)
        clause, source = self._spark_clause(first)
        if other is not None or places.window_clause(source) is not None:
            raise self._error(f"'{source.name}' has a window already: leave out one of them", at)
        places.set_window(source, clause)
        self._source = source.alias_or_name if len(self._sources()) > 1 else None
        self._regroup(removed)
        for node in self._own(exp.Dot):
            if node.this == first and node.expression.name.lower() in _SIDES:
                self._replace(node, _SIDES[node.expression.name.lower()], node.expression.name)
        for node in self._own(exp.Column):
            qualifier, name = node.args.get("table"), node.name.lower()
            if qualifier is not None and qualifier.name.lower() in self._names and name in _SIDES:
                self._replace(node, _SIDES[name], node.name)
            elif qualifier is None and name in self._names:
                self._replace(node, _STRUCT, node.name)
        for node in self._own(exp.Anonymous):
            if node == first:
                self._replace(node, _STRUCT, first.name.lower())

    def _is_window(self, item: exp.Expr) -> bool:
        item = self._meant(item)
        if isinstance(item, exp.Column) and item.args.get("table") is None:
            return item.name.lower() in self._names
        if isinstance(item, exp.Dot) and item.expression.name.lower() in _SIDES:
            # No two windows of a length have an edge in common.
            item = item.this
        return isinstance(item, exp.Anonymous) and item.name.lower() in ("window", _SESSION)

    def _meant(self, key: exp.Expr) -> exp.Expr:
        """The expression of a GROUP BY key that is a place in the SELECT list."""
        listed = self._select.expressions
        if isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.name) <= len(listed):
            return listed[int(key.name) - 1].unalias()
        return key

    def _spark_clause(self, call: exp.Anonymous) -> tuple[WindowClause, exp.Expr]:
        word, name, arguments = places.word_of(call), call.name.upper(), call.expressions
        is_session = call.name.lower() == _SESSION
        if not 2 <= len(arguments) <= (2 if is_session else 4):
            form = "(time, gap)" if is_session else "(time, length, slide, start), the last two if needed"
            raise self._error(f"{name} has the arguments {form}", word)
        time, reader = arguments[0], _Durations(self._text, self._tokens[self._places[word.start]])
        if not isinstance(time, exp.Column) or isinstance(time.this, exp.Star):
            raise self._error(f"{name}(..) is over the time of a stream, its TIMESTAMP column by itself", word)
        size = reader.length(arguments[1], "a GAP" if is_session else "a window's length")
        slide = reader.length(arguments[2], "a SLIDE") if len(arguments) > 2 else size
        start = reader.micros(arguments[3]) if len(arguments) > 3 else 0
        qualifier = time.args.get("table")
        sources = [
            each
            for each in self._sources()
            if qualifier is None or each.alias_or_name.lower() == qualifier.name.lower()
        ]
        if not sources or not isinstance(sources[0], exp.Table):
            reason = (
                f"{name}(..) is over the TIMESTAMP of a stream in FROM; inside of a sub-query write the window behind"
            )
            raise self._error(f"{reason} the stream's name, {_EXAMPLE}", word)
        made = WindowCall(name, word, Name(time.name, span_of(time)), size + start)
        window: TimeWindow = TimeWindow(size, slide, exactly=True)
        if is_session:
            # Spark tells a session when it has ended, and has no longest one.
            window = SessionWindow.of(size, MOST_GAPS * size, size)
        return WindowClause(window, span_of(sources[0].this), word, word, call=made), sources[0]

    # -- Flink and RisingWave --------------------------------------------------------------------------

    def _table(self, table: exp.Expr) -> None:
        call = self._call_of(table)
        assert call is not None
        others = [each for each in self._sources() if each is not table]
        if any(self._call_of(each) is not None for each in others):
            reason = f"{call.word}(..) stands alone in FROM: aggregate each window in a sub-query, and join these"
            raise self._error(f"{reason}, FROM (SELECT .. GROUP BY ..) a JOIN (SELECT ..) b", call.at)
        self._source = table.alias_or_name if others else None
        self._names = {table.alias_or_name.lower()}
        removed = [place for place, item in enumerate(self._keys()) if self._is_edge(self._meant(item))]
        if not removed:
            reason = "needs GROUP BY window_start, window_end: tuples are not multiplied, windows are aggregated"
            raise self._error(
                f"{call.word}(..) {reason}; a window stands behind its stream's name, {_EXAMPLE}", call.at
            )
        self._regroup(removed)
        for node in self._own(exp.Column):
            if self._is_edge(node):
                self._replace(node, _COLUMNS[node.name.lower()], node.name)

    def _is_edge(self, node: exp.Expr) -> bool:
        if not isinstance(node, exp.Column):
            return False
        qualifier = node.args.get("table")
        is_own = qualifier is None or qualifier.name.lower() in self._names
        if is_own and node.name.lower() == "window_time":
            raise self._error(f"WINDOW_TIME {_REFUSED['window_time']}", span_of(node))
        return is_own and node.name.lower() in _COLUMNS

    # -- GROUP BY, and the edges of the window ---------------------------------------------------------

    def _keys(self) -> list[exp.Expr]:
        group = self._select.args.get("group")
        return [] if group is None else group.expressions

    def _regroup(self, removed: list[int]) -> None:
        """Leave keys out of GROUP BY."""
        group = self._select.args["group"]
        first, extents = self._extents()
        left = [place for place in range(len(group.expressions)) if place not in removed]
        end = extents[-1].end
        if left:
            group.set("expressions", [group.expressions[place] for place in left])
            kept = ", ".join(self._text[extents[place].start : extents[place].end] for place in left)
            self.edits.append(TextEdit(Span(first, end), f"GROUP BY {kept}"))
            return
        self._select.set("group", None)
        lists = [item for item in self._own(exp.Anonymous) if item.name.lower() in LISTS]
        if lists:
            self.edits.append(TextEdit(Span(first, end), ""))
            return
        some = exp.GT(this=exp.Anonymous(this="COUNT", expressions=[exp.Star()]), expression=exp.Literal.number(0))
        having = self._select.args.get("having")
        if having is None:
            self._select.set("having", exp.Having(this=some))
            self.edits.append(TextEdit(Span(first, end), "HAVING COUNT(*) > 0"))
            return
        having.set("this", exp.And(this=some, expression=exp.Paren(this=having.this)))
        last = self._places[first] + 1
        condition, behind = self._condition(last)
        self.edits.append(TextEdit(Span(first, condition), "HAVING COUNT(*) > 0 AND ("))
        self.edits.append(TextEdit(Span(behind, behind), ")"))

    def _extents(self) -> tuple[int, list[Span]]:
        """Where this SELECT's GROUP BY begins, and the extents of its keys."""
        place, depth = self._places[places.extent(self._select).start], 0
        while depth or self._tokens[place].token_type != TokenType.GROUP_BY:
            depth += _depth(self._tokens[place])
            place += 1
        first, found = self._tokens[place].start, []
        begin, place = place + 1, place + 1
        while place < len(self._tokens) and not self._is_end(self._tokens[place], depth):
            depth += _depth(self._tokens[place])
            if depth == 0 and self._tokens[place].token_type == TokenType.COMMA:
                found.append(self._between(begin, place))
                begin = place + 1
            place += 1
        return first, [*found, self._between(begin, place)]

    def _condition(self, place: int) -> tuple[int, int]:
        """Where the condition of HAVING begins behind a place, and where it ends."""
        depth = 0
        while depth or self._tokens[place].token_type != TokenType.HAVING:
            depth += _depth(self._tokens[place])
            place += 1
        begin = place = place + 1
        while place < len(self._tokens) and not self._is_end(self._tokens[place], depth):
            depth += _depth(self._tokens[place])
            place += 1
        extent = self._between(begin, place)
        return extent.start, extent.end

    def _is_end(self, token: Token, depth: int) -> bool:
        if depth:
            return False
        closes = token.token_type == TokenType.R_PAREN
        return closes or token.token_type in _ENDS or token.text.upper() in ("UNION", "EXCEPT", "INTERSECT")

    def _between(self, begin: int, end: int) -> Span:
        return Span(self._tokens[begin].start, self._tokens[end - 1].end + 1)

    def _replace(self, node: exp.Expr, function: str, name: str) -> None:
        """Put a call of a window function in the place of a node; in the SELECT list the column keeps its name."""
        extent = self._extent(node)
        if function == _STRUCT and isinstance(node.parent, exp.Ordered):
            # Windows of one length are in the order of their starts.
            function = _SIDES["start"]
        arguments = [] if self._source is None else [exp.Column(this=exp.to_identifier(self._source))]
        call: exp.Expr = exp.Anonymous(this=function, expressions=arguments)
        marked = {"start": extent.start, "end": extent.end - 1}
        call.meta.update(marked)
        for argument in arguments:
            argument.meta.update(marked)
        text = f"{function}({'' if self._source is None else identifier(self._source)})"
        if node.parent is self._select and node.arg_key == "expressions":
            alias = exp.to_identifier(name)
            alias.meta.update(marked)
            call = exp.Alias(this=call, alias=alias)
            text = f"{text} AS {identifier(name)}"
        node.replace(call)
        self.edits.append(TextEdit(extent, text))

    def _extent(self, node: exp.Expr) -> Span:
        marked = span_of(node)
        if isinstance(node, exp.Column):
            return marked
        if isinstance(node, exp.Dot):
            return Span(places.word_of(node.this).start, self._closing(node.this).end + 1 + self._behind(node))
        return Span(marked.start, self._closing(node).end + 1)

    def _behind(self, node: exp.Dot) -> int:
        """How long the text behind a call is, a dot and a name."""
        closing = self._closing(node.this)
        name = self._tokens[self._places[closing.start] + 2]
        return int(name.end - closing.end)

    def _closing(self, call: exp.Expr) -> Token:
        """The parenthesis that ends a call."""
        place, depth = self._places[places.word_of(call).start] + 1, 0
        while True:
            depth += _depth(self._tokens[place])
            if depth == 0:
                return self._tokens[place]
            place += 1


def _depth(token: Token) -> int:
    opening, closing = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)
    return (token.token_type in opening) - (token.token_type in closing)
