"""Terms over answers as the plan's expressions: the columns of an answer become Fields, everything else Calls.

Fields differ (keys and aggregates of groups, columns of sub-queries), so a `Translator` gets the rule for the leaves.
The rest is the same: the Sash process evaluates it on Arrow arrays with a closed vocabulary of functions, and refuses
anything else here by name. Casts that Spark would insert are inserted, so that both sides of an operator have one type
(two decimals keep their own precision under arithmetic: the result's type is Spark's).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.types as pt

from sash.expr import regular_expressions, time_formats
from sash.plan.expressions import Call, Expression, Field, Literal
from sash.sql.expressions.coercion import common_type
from sash.sql.expressions.constants import recast
from sash.sql.expressions.functions import DATE_PARTS, FUNCTIONS, KINDS
from sash.sql.expressions.scope import Scope
from sash.sql.expressions.terms import SYMBOLS, Term, column_of, extent_of, render
from sash.sql.types import is_interval, spark_name

_SAME_NAME = """
    bit_and bit_or bit_xor bit_not shiftleft shiftright shiftrightunsigned rlike regexp_extract regexp_replace
    regexp_substr format_number date_format from_unixtime lpad rpad repeat instr locate substring_index translate
    date_add date_sub add_months last_day trunc unix_date unix_seconds unix_millis unix_micros date_from_unix_date
    try_add try_subtract try_multiply try_divide
    add subtract multiply divide int_divide modulo negate eq ne lt le gt ge null_safe_eq and or not is_null
    is_not_null in like case cast try_cast coalesce nullif if greatest least abs ceil floor round sqrt exp ln
    log10 log2 power sign upper lower length trim concat substring ltrim rtrim left right reverse replace split_part
    startswith endswith contains concat_ws year quarter month day dayofyear dayofweek weekday weekofyear hour minute
    second datediff date_trunc
"""
# The function that evaluates an operator or function of the language.
EVALUATED_BY = dict(zip(_SAME_NAME.split(), _SAME_NAME.split(), strict=True)) | {
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "ceiling": "ceil",
    "pow": "power",
    "signum": "sign",
    "substr": "substring",
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "isnull": "is_null",
    "isnotnull": "is_not_null",
    "isnan": "is_nan",
    "mod": "modulo",
    "dayofmonth": "day",
    "dateadd": "date_add",
    **dict.fromkeys(("to_date", "to_timestamp"), "cast"),
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp"), "unix_timestamp"),
    "position": "locate",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "len": "length",
    "negative": "negate",
    "try_mod": "try_modulo",
    "equal_null": "null_safe_eq",
    **{f"extract {field}": function for field, (function, _) in DATE_PARTS.items()},
    "date_diff": "datediff",
}
# Java writes doubles in its own way, which differs by its version, and BINARY may be no text.
_NO_TEXT = {pt.is_floating: "; FORMAT_NUMBER(x, 3) writes it, or CAST it to a DECIMAL first", pt.is_binary: ""}
# The functions whose second argument tells how to read text.
_PARSERS = ("to_date", "to_timestamp", "unix_timestamp", "to_unix_timestamp")
# The functions whose arguments behind the first are constants, with the check of these.
_PATTERNS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(regular_expressions.FUNCTIONS, regular_expressions.check_constants),
    **dict.fromkeys(time_formats.FUNCTIONS, time_formats.check_constants),
    "like": lambda function, constants: None,
}


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


CallNode = TypeVar("CallNode", bound=_HasName)


class Translator:
    """`leaf` translates a term, mostly to a Field; None means to look inside, and a text refuses the term."""

    def __init__(self, scope: Scope, leaf: Callable[[Term], Expression | None], over: str = "an answer") -> None:
        self._scope = scope
        self._leaf = leaf
        self._over = over

    def translate(self, term: Term) -> Expression:
        if term.op == "literal":
            return Literal(term.value, term.type)
        return self._leaf(term) or self._operation(term)

    def _operation(self, term: Term) -> Expression:
        if term.op == "between":
            return self._between(term)
        function = EVALUATED_BY.get(f"extract {term.value}" if term.op == "extract" else term.op)
        if function is None or is_interval(term.type) or any(is_interval(arg.type) for arg in term.args):
            if term.op == "user_function":
                way_out = "call it on tuples, in WHERE, GROUP BY or an aggregate's argument"
                what = f"the program's function {str(term.value).upper()} over {self._over}; {way_out}"
                raise self._scope.unsupported(what, term.span)
            written = SYMBOLS.get(term.op) or f"function {term.op.upper()}"
            raise self._scope.unsupported(f"{written} over {self._over}", term.span)
        if term.op in _PARSERS and (len(term.args) > 1 or (function != "cast" and pt.is_string(term.args[0].type))):
            what = f"{term.op.upper()} of text by a pattern over {self._over}; CAST reads text of the usual form"
            raise self._scope.unsupported(what, term.span)
        if function in _PATTERNS:
            self._check_pattern(term, function)
        if function in ("cast", "try_cast"):
            return self._cast(self.translate(term.args[0]), term.type, term, function)
        if term.op == "extract":
            type = KINDS[FUNCTIONS.get(function, ("t",))[0]][2]
            return Call(function, (self._cast(self.translate(term.args[0]), type, term),), term.type)
        coerced = term.coerced or tuple(arg.type for arg in term.args)
        arguments = tuple(
            self._cast(self.translate(arg), type, arg) for arg, type in zip(term.args, coerced, strict=True)
        )
        return _pairwise(function, arguments) if function in ("and", "or") else Call(function, arguments, term.type)

    def _check_pattern(self, term: Term, function: str) -> None:
        name = SYMBOLS.get(term.op, term.op.upper())
        for constant in term.args[1:]:
            if constant.op != "literal":
                what = f"{name} with a pattern that is not constant over {self._over}"
                raise self._scope.unsupported(what, constant.span)
        try:
            _PATTERNS[function](function, tuple(constant.value for constant in term.args[1:]))
        except ValueError as reason:
            at = extent_of(*term.args[1:])
            what = f"{name} with {reason} over {self._over}; as a key of GROUP BY it is computed over tuples"
            raise self._scope.unsupported(what, at) from None

    def _between(self, term: Term) -> Expression:
        """x BETWEEN low AND high is x >= low AND x <= high, each side with its own common type."""
        value, low, high = term.args
        sides = []
        for op, bound in (("ge", low), ("le", high)):
            common = common_type(value.type, bound.type)
            assert common is not None
            pair = (self._cast(self.translate(part), common, part) for part in (value, bound))
            sides.append(Call(op, tuple(pair), pa.bool_()))
        return Call("and", tuple(sides), pa.bool_())

    def _cast(self, expression: Expression, type: pa.DataType, term: Term, function: str = "cast") -> Expression:
        source = expression.type
        if source == type:
            return expression
        constant = recast(expression, type) if isinstance(expression, Literal) else None
        if constant is not None:
            return constant
        for is_such, hint in _NO_TEXT.items():
            if pt.is_string(type) and is_such(source):
                what = f"CAST of {spark_name(source)} to STRING over {self._over}{hint}"
                raise self._scope.unsupported(what, term.span)
        return Call(function, (expression,), type)


class GroupTerms(Generic[CallNode]):
    """Terms over groups: keys and aggregates are Fields. Equal keys and equal aggregates stand once."""

    def __init__(self, scope: Scope, over: str = "an answer") -> None:
        self._scope = scope
        self._keys: dict[str, Field] = {}
        self._calls: dict[str, CallNode] = {}
        self._translator = Translator(scope, self.leaf, over)

    def translate(self, term: Term) -> Expression:
        return self._translator.translate(term)

    def _call(self, term: Term, sql: str) -> CallNode:
        """An aggregate that was not met before."""
        raise NotImplementedError

    def leaf(self, term: Term) -> Field | None:
        """The field of a key or an aggregate; None for a term that is made of them."""
        sql = render(term)
        if sql in self._keys:
            return self._keys[sql]
        if term.op in ("column", "field"):
            name = column_of(term) if term.op == "field" else term.value
            raise self._scope.error(f"'{name}' is neither in GROUP BY nor inside an aggregate", term.span)
        if term.op not in ("aggregate", "filter"):
            return None
        if sql not in self._calls:
            self._calls[sql] = self._call(term, sql)
        return Field(self._calls[sql].name, term.type)

    def _unused(self, name: str, reserved: Collection[str] = ()) -> str:
        """The name, or one made from it that no key and no aggregate has."""
        taken = {key.name for key in self._keys.values()} | {call.name for call in self._calls.values()}
        return unused(name, taken | set(reserved))


def unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _pairwise(function: str, arguments: tuple[Expression, ...]) -> Expression:
    """A chain of AND or OR as a balanced tree of pairs."""
    if len(arguments) == 1:
        return arguments[0]
    half = len(arguments) // 2
    pair = (_pairwise(function, arguments[:half]), _pairwise(function, arguments[half:]))
    return Call(function, pair, pa.bool_())


def field_of(term: Term) -> Field | None:
    """The leaves over sub-queries: their columns."""
    return Field(str(term.value), term.type) if term.op == "field" else None
