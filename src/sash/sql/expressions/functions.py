"""The scalar functions of Spark: those that a query may call, and why not the others.

`FAMILIES` has the functions that may be called: deterministic, without access to files, catalogs or the session. One
line per function: its arguments' kinds and its result. A kind is one letter of `KINDS`; those in brackets may be left
out, `*` repeats the last one. Results are types, or rules over the arguments for the others. Rules check a function's
arguments and type its result where one fixed type is not enough.

`REFUSED` has the functions that no query ever calls, `absence` says why the language lacks another one. A test walks
Spark's own list, and fails on a function that is in none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.types as pt

from sash.core.errors import Span
from sash.sql.expressions.coercion import (
    BIGINT,
    DOUBLE,
    arithmetic_type,
    castable,
    common_type,
    common_type_of,
    is_integer,
    is_moment,
    is_number,
)
from sash.sql.expressions.terms import Term
from sash.sql.types import TIMESTAMP, TIMESTAMP_NTZ, spark_name


class MisfitError(Exception):
    """An argument that does not fit; the typer turns it into a CqlError at the argument."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.span = span


Typing = tuple[pa.DataType, tuple[pa.DataType, ...]]
Rule = Callable[[str, Sequence[Term]], Typing]


def _is_atomic(type: pa.DataType) -> bool:
    return is_number(type) or is_moment(type) or pt.is_boolean(type) or pt.is_string(type)


def _small(type: pa.DataType) -> bool:
    return is_integer(type) and type != BIGINT


# A kind's letter: its name, its types, and the type to which Spark converts them (None: unchanged).
KINDS: dict[str, tuple[str, Callable[[pa.DataType], bool], pa.DataType | None]] = {
    "a": ("a value", lambda type: True, None),
    "s": ("a STRING", _is_atomic, pa.string()),
    "x": ("a STRING", pt.is_string, pa.string()),
    "i": ("an INT", _small, pa.int32()),
    "l": ("a whole number", is_integer, pa.int64()),
    "d": ("a number", is_number, DOUBLE),
    "n": ("a number", is_number, None),
    "b": ("a BOOLEAN", pt.is_boolean, pa.bool_()),
    "D": ("a DATE", lambda type: is_moment(type) or pt.is_string(type), pa.date32()),
    "E": ("a DATE", pt.is_date, pa.date32()),
    "t": ("a TIMESTAMP", lambda type: is_moment(type) or pt.is_string(type), TIMESTAMP),
    "T": ("a TIMESTAMP", lambda type: is_moment(type) or pt.is_string(type), TIMESTAMP),
    "y": ("a STRING or BINARY", lambda type: pt.is_string(type) or pt.is_binary(type), pa.binary()),
    "c": ("a number, DATE or TIMESTAMP", lambda type: is_number(type) or is_moment(type), None),
    "m": ("a DATE or TIMESTAMP", is_moment, None),
    "f": ("a whole number or a STRING", lambda type: _small(type) or pt.is_string(type), None),
    "z": ("BINARY", pt.is_binary, pa.binary()),
    "h": ("a whole number, STRING or BINARY", lambda t: is_integer(t) or pt.is_string(t) or pt.is_binary(t), None),
}
_KINDS = re.compile(r"(\w*?)(?:(\w)\*)?(?:\[(\w+)\])?")


def type_call(name: str, kinds: str, result: pa.DataType | Rule, args: Sequence[Term]) -> Typing:
    """Checks the arguments against their kinds, then asks the rule."""
    fitted = tuple(
        _fit(name, i, arg, kind) for i, (arg, kind) in enumerate(zip(args, _spread(name, kinds, args), strict=True))
    )
    if callable(result):
        return result(name, args)
    return result, fitted


def _spread(name: str, kinds: str, args: Sequence[Term]) -> str:
    """One kind per argument, or a MisfitError that says how many there may be."""
    match = _KINDS.fullmatch(kinds)
    assert match is not None, kinds
    required, repeated, optional = match[1], match[2] or "", match[3] or ""
    most = required + optional
    if len(required) <= len(args) and (repeated or len(args) <= len(most)):
        return (most + repeated * len(args))[: len(args)]
    least = len(required)
    wanted = f"at least {least}" if repeated else str(least) if not optional else f"{least} to {len(most)}"
    plural = "" if wanted == "1" else "s"
    raise MisfitError(f"{name.upper()} takes {wanted} argument{plural}, got {len(args)}")


def _fit(name: str, position: int, arg: Term, kind: str) -> pa.DataType:
    what, accepts, becomes = KINDS[kind]
    if not (pt.is_null(arg.type) or accepts(arg.type)):
        ordinal = ("first", "second", "third", "fourth", "fifth")[min(position, 4)]
        raise MisfitError(
            f"{name.upper()} needs {what} as its {ordinal} argument, but got {spark_name(arg.type)}", arg.span
        )
    return arg.type if becomes is None else becomes


def common(name: str, args: Sequence[Term]) -> Typing:
    type = common_type_of(args)
    if type is None:
        types = ", ".join(dict.fromkeys(spark_name(arg.type) for arg in args))
        raise MisfitError(f"{name.upper()} needs values of one type, but got {types}", args[-1].span)
    return type, (type,) * len(args)


def alike(name: str, args: Sequence[Term]) -> Typing:
    """As `common`, but Spark does not make numbers of strings here."""
    strings = [arg for arg in args if pt.is_string(arg.type)]
    if strings and not all(pt.is_string(arg.type) or pt.is_null(arg.type) for arg in args):
        raise MisfitError(f"{name.upper()} needs values of one type, but got a STRING among others", strings[0].span)
    return common(name, args)


def null_if(name: str, args: Sequence[Term]) -> Typing:
    type, _ = common(name, args)
    return args[0].type, (type, type)


def if_else(name: str, args: Sequence[Term]) -> Typing:
    type, _ = common(name, args[1:])
    return type, (pa.bool_(), type, type)


def null_or(name: str, args: Sequence[Term]) -> Typing:
    type, _ = common(name, args[1:])
    return type, (args[0].type, type, type)


def first_type(name: str, args: Sequence[Term]) -> Typing:
    type = DOUBLE if pt.is_null(args[0].type) else args[0].type
    return type, (type, *(arg.type for arg in args[1:]))


def shifted(name: str, args: Sequence[Term]) -> Typing:
    type = args[0].type if args[0].type == BIGINT else pa.int32()
    return type, (type, pa.int32())


def logarithm(name: str, args: Sequence[Term]) -> Typing:
    return DOUBLE, (DOUBLE,) * len(args)


def ceiling(name: str, args: Sequence[Term]) -> Typing:
    type = args[0].type
    if not pt.is_decimal(type):
        return BIGINT, (type if is_number(type) else DOUBLE,)
    return pa.decimal128(min(38, type.precision - type.scale + 1), 0), (type,)


def rounded(name: str, args: Sequence[Term]) -> Typing:
    type, _ = first_type(name, args[:1])
    digits = args[1].value if len(args) == 2 else 0
    if not isinstance(digits, int) or (len(args) == 2 and args[1].op != "literal"):
        raise MisfitError(f"{name.upper()} needs a constant number of digits", args[1].span)
    coerced = (type, pa.int32())[: len(args)]
    if not pt.is_decimal(type):
        return type, coerced
    whole = type.precision - type.scale + 1
    if digits < 0:
        return pa.decimal128(min(38, max(whole, 1 - digits)), 0), coerced
    scale = min(type.scale, digits)
    return pa.decimal128(min(38, whole + scale), scale), coerced


def null_safe(name: str, args: Sequence[Term]) -> Typing:
    _, coerced = common(name, args)
    return _B, coerced


def zero_if_null(name: str, args: Sequence[Term]) -> Typing:
    type = common_type(args[0].type, pa.int32())
    assert type is not None
    return type, (type,)


def casting(type: pa.DataType) -> Rule:
    """A function that is a CAST by another name."""

    def rule(name: str, args: Sequence[Term]) -> Typing:
        if not castable(args[0].type, type):
            raise MisfitError(f"cannot cast {spark_name(args[0].type)} to {spark_name(type)}", args[0].span)
        return type, (args[0].type,)

    return rule


def _constant(name: str, arg: Term, what: str) -> str:
    if arg.op != "literal" or not isinstance(arg.value, str):
        raise MisfitError(f"{name.upper()} needs {what} as a constant STRING", arg.span)
    return arg.value


def parsed_number(name: str, args: Sequence[Term]) -> Typing:
    """As many digits as the format has, in all and behind its point."""
    whole, _, fraction = re.sub(
        r"[^09.]", "", _constant(name, args[1], "its format").upper().replace("D", ".")
    ).partition(".")
    scale, precision = len(fraction), len(whole) + len(fraction)
    if "." in fraction or not 0 < precision <= 38:
        raise MisfitError(f"{name.upper()} needs a format of 1 to 38 digits such as '999.99'", args[1].span)
    return pa.decimal128(precision, scale), (_S, _S)


def date_part(name: str, args: Sequence[Term]) -> Typing:
    field = _constant(name, args[0], "its field").upper()
    if field not in DATE_PARTS:
        raise MisfitError(f"{name.upper()} knows {', '.join(DATE_PARTS)}, not {field}", args[0].span)
    return DATE_PARTS[field][1], (_S, args[1].type)


def arithmetic(op: str) -> Rule:
    """A function that is an operator by another name."""

    def rule(name: str, args: Sequence[Term]) -> Typing:
        typing = arithmetic_type(op, args[0], args[1])
        if typing is None:
            raise MisfitError(f"{name.upper()} needs numbers", args[0].span)
        return typing

    return rule


_S, _I, _L, _D, _B, _Y = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.binary()
_DATE = pa.date32()
# The fields of EXTRACT and DATE_PART: the functions that give the same, with the types of their values.
DATE_PARTS: dict[str, tuple[str, pa.DataType]] = {
    **{field: (field.lower(), _I) for field in ("YEAR", "QUARTER", "MONTH", "DAY", "DAYOFWEEK", "HOUR", "MINUTE")},
    "WEEK": ("weekofyear", _I),
    "DOW": ("dayofweek", _I),
    "DOY": ("dayofyear", _I),
    "SECOND": ("second_part", pa.decimal128(8, 6)),
}

Signature = tuple[str, pa.DataType | Rule]

_STRINGS: dict[str, Signature] = {
    **dict.fromkeys(("upper", "lower", "ucase", "lcase", "initcap"), ("s", _S)),
    **dict.fromkeys(("trim", "ltrim", "rtrim", "quote"), ("s", _S)),
    **dict.fromkeys(("make_valid_utf8", "validate_utf8", "try_validate_utf8"), ("s", _S)),
    **dict.fromkeys(("is_valid_utf8", "luhn_check"), ("s", _B)),
    **dict.fromkeys(("substring", "substr"), ("si[i]", _S)),
    **dict.fromkeys(("left", "right", "repeat"), ("si", _S)),
    **dict.fromkeys(("lpad", "rpad"), ("si[s]", _S)),
    **dict.fromkeys(("length", "len", "char_length", "character_length", "ascii"), ("s", _I)),
    **dict.fromkeys(("octet_length", "bit_length"), ("s", _I)),
    **dict.fromkeys(("startswith", "endswith", "contains", "regexp_like", "regexp"), ("ss", _B)),
    **dict.fromkeys(("instr", "find_in_set", "regexp_count", "regexp_instr"), ("ss", _I)),
    **dict.fromkeys(("locate", "position"), ("ss[i]", _I)),
    **dict.fromkeys(("like", "ilike", "rlike"), ("xx", _B)),
    **dict.fromkeys(("format_string", "printf"), ("sa*", _S)),
    **dict.fromkeys(("to_char", "to_varchar"), ("cx", _S)),
    **dict.fromkeys(("to_number", "try_to_number"), ("sx", parsed_number)),
    **dict.fromkeys(("to_binary", "try_to_binary"), ("s[x]", _Y)),
    **dict.fromkeys(("unhex", "unbase64", "from_base32"), ("s", _Y)),
    **dict.fromkeys(("base64", "to_base32"), ("y", _S)),
    "levenshtein": ("ss", _I),
    "jaro_winkler_similarity": ("ss", _D),
    "btrim": ("s[s]", _S),
    "space": ("i", _S),
    "elt": ("iss*", _S),
    "mask": ("s[xxxx]", _S),
    "format_number": ("nf", _S),
    "encode": ("ss", _Y),
    "decode": ("ys", _S),
    "json_array_length": ("x", _I),
    "reverse": ("s", _S),
    "soundex": ("x", _S),
    "concat": ("ss*", _S),
    "concat_ws": ("ss*", _S),
    "replace": ("ss[s]", _S),
    "translate": ("sss", _S),
    "overlay": ("ssi[i]", _S),
    "regexp_extract": ("ss[i]", _S),
    "regexp_replace": ("sss", _S),
    "regexp_substr": ("ss", _S),
    "split_part": ("ssi", _S),
    "substring_index": ("ssi", _S),
    **dict.fromkeys(("chr", "char"), ("l", _S)),
    "hex": ("h", _S),
    "bin": ("l", _S),
    "conv": ("sii", _S),
    "get_json_object": ("xx", _S),
    "parse_url": ("ss[s]", _S),
    "try_parse_url": ("xx[x]", _S),
    **dict.fromkeys(("url_encode", "url_decode", "try_url_decode"), ("s", _S)),
}
_NUMBERS: dict[str, Signature] = {
    **dict.fromkeys(("sqrt", "cbrt", "exp", "expm1", "ln", "log10", "log2", "log1p", "rint"), ("d", _D)),
    **dict.fromkeys(("sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh"), ("d", _D)),
    **dict.fromkeys(("sec", "csc", "asinh", "acosh", "atanh"), ("d", _D)),
    **dict.fromkeys(("degrees", "radians", "sign", "signum"), ("d", _D)),
    **dict.fromkeys(("pow", "power", "atan2", "hypot"), ("dd", _D)),
    **dict.fromkeys(("ceil", "ceiling", "floor"), ("n", ceiling)),
    **dict.fromkeys(("round", "bround"), ("n[i]", rounded)),
    **dict.fromkeys(("mod", "try_mod"), ("nn", arithmetic("modulo"))),
    **dict.fromkeys(("shiftleft", "shiftright", "shiftrightunsigned"), ("li", shifted)),
    "log": ("d[d]", logarithm),
    "pi": ("", _D),
    "e": ("", _D),
    **dict.fromkeys(("abs", "positive", "negative", "nullifzero"), ("n", first_type)),
    **dict.fromkeys(("bit_get", "getbit"), ("li", pa.int8())),
    **dict.fromkeys(("bitmap_bit_position", "bitmap_bucket_number"), ("l", _L)),
    "bitmap_count": ("z", _L),
    "factorial": ("i", _L),
    "zeroifnull": ("n", zero_if_null),
    "pmod": ("nn", arithmetic("modulo")),
    "try_add": ("nn", arithmetic("add")),
    "try_subtract": ("nn", arithmetic("subtract")),
    "try_multiply": ("nn", arithmetic("multiply")),
    "try_divide": ("nn", arithmetic("divide")),
    "bit_count": ("l", _I),
    "width_bucket": ("dddl", _L),
    "isnan": ("d", _B),
    "nanvl": ("dd", _D),
}
_TIMES: dict[str, Signature] = {
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofmonth", "dayofyear"), ("D", _I)),
    **dict.fromkeys(("dayofweek", "weekday", "weekofyear"), ("D", _I)),
    **dict.fromkeys(("hour", "minute", "second"), ("t", _I)),
    **dict.fromkeys(("date_add", "dateadd", "date_sub", "add_months"), ("Di", _DATE)),
    **dict.fromkeys(("datediff", "date_diff"), ("DD", _I)),
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), ("T", _L)),
    **dict.fromkeys(("timestamp_millis", "timestamp_micros"), ("l", TIMESTAMP)),
    **dict.fromkeys(("from_utc_timestamp", "to_utc_timestamp"), ("ts", TIMESTAMP)),
    **dict.fromkeys(("dayname", "monthname"), ("D", _S)),
    **dict.fromkeys(("date_part", "datepart"), ("xm", date_part)),
    **dict.fromkeys(("to_date", "try_to_date"), ("D[s]", _DATE)),
    **dict.fromkeys(("to_timestamp", "try_to_timestamp", "to_timestamp_ltz"), ("t[s]", TIMESTAMP)),
    **dict.fromkeys(("make_timestamp", "try_make_timestamp"), ("iiiiin[s]", TIMESTAMP)),
    **dict.fromkeys(("make_timestamp_ltz", "try_make_timestamp_ltz"), ("iiiiin[s]", TIMESTAMP)),
    **dict.fromkeys(("make_timestamp_ntz", "try_make_timestamp_ntz"), ("iiiiin", TIMESTAMP_NTZ)),
    "to_timestamp_ntz": ("t[s]", TIMESTAMP_NTZ),
    "convert_timezone": ("sst", TIMESTAMP_NTZ),
    "timestamp_seconds": ("n", TIMESTAMP),
    "date_trunc": ("st", TIMESTAMP),
    "trunc": ("Ds", _DATE),
    "unix_date": ("E", _I),
    "last_day": ("D", _DATE),
    "next_day": ("Ds", _DATE),
    "unix_timestamp": ("t[x]", _L),
    "to_unix_timestamp": ("t[x]", _L),
    "from_unixtime": ("l[s]", _S),
    "date_format": ("ts", _S),
    "date_from_unix_date": ("i", _DATE),
    "make_date": ("iii", _DATE),
    "months_between": ("tt[b]", _D),
}
_CONDITIONS: dict[str, Signature] = {
    **dict.fromkeys(("coalesce",), ("aa*", common)),
    **dict.fromkeys(("greatest", "least"), ("aaa*", alike)),
    **dict.fromkeys(("nvl", "ifnull"), ("aa", common)),
    "nullif": ("aa", null_if),
    "if": ("baa", if_else),
    "nvl2": ("aaa", null_or),
    "equal_null": ("aa", null_safe),
    "typeof": ("a", _S),
    "isnull": ("a", _B),
    "isnotnull": ("a", _B),
}
_HASHES: dict[str, Signature] = {
    **dict.fromkeys(("md5", "sha1", "sha"), ("y", _S)),
    **dict.fromkeys(("aes_decrypt", "try_aes_decrypt"), ("yy[ssy]", _Y)),
    "sha2": ("yi", _S),
    "hmac": ("yy[s]", _Y),
    "crc32": ("y", _L),
    "hash": ("aa*", _I),
    "xxhash64": ("aa*", _L),
}
# Spark's names of types as functions.
CASTS: dict[str, pa.DataType] = {
    "boolean": _B,
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": _I,
    "bigint": _L,
    "float": pa.float32(),
    "double": _D,
    "decimal": pa.decimal128(10, 0),
    "string": _S,
    "binary": _Y,
    "date": _DATE,
    "timestamp": TIMESTAMP,
}
FAMILIES: dict[str, dict[str, Signature]] = {
    "Strings": _STRINGS,
    "Numbers": _NUMBERS,
    "Dates and times": _TIMES,
    "Conditions": _CONDITIONS,
    "Hashes and ciphers": _HASHES,
    "Casts": {name: ("a", casting(type)) for name, type in CASTS.items()},
}
FUNCTIONS = {name: signature for family in FAMILIES.values() for name, signature in family.items()}

_WHY_CLOCK = "it reads the clock, and an answer must be a function of the stream; use the stream's timestamp column"
_WHY_CHANCE = "it gives another value each time it is asked, and an answer must be a function of the stream"
_WHY_REACH = "it reaches outside the stream (files, catalogs, the session), where two runs may find different things"
_CLOCK = """
    current_date current_timestamp current_time current_timezone curdate now localtimestamp localtime
"""
_CHANCE = """
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id try_random
    aes_encrypt
"""
_REACH = """
    input_file_name input_file_block_start input_file_block_length current_user user session_user current_catalog
    current_database current_schema current_path version reflect java_method try_reflect read_files
    from_avro to_avro schema_of_avro from_protobuf to_protobuf python_worker_logs sql_keywords collations
"""
REFUSED: dict[str, str] = {
    **dict.fromkeys(_CLOCK.split(), _WHY_CLOCK),
    **dict.fromkeys(_CHANCE.split(), _WHY_CHANCE),
    **dict.fromkeys(_REACH.split(), _WHY_REACH),
    **dict.fromkeys(("assert_true", "raise_error"), "it fails on purpose; WHERE leaves rows out"),
}
# Spark's other functions by the reason why the language lacks them; `*` stands for any end of a name.
ABSENT = {
    "which is about arrays, maps, structs or variants": """
        aggregate array array_* arrays_* cardinality element_at exists filter flatten forall from_csv from_json from_xml
        get is_valid_variant is_variant_null json_object_keys map map_* named_struct parse_json reduce
        regexp_extract_all schema_of_* sentences sequence size slice sort_array split str_to_map struct to_csv to_json
        to_variant_object to_xml transform transform_* try_element_at try_parse_json try_variant_* variant_* vector_*
        zip_with""",
    "which makes several rows of one": """
        explode explode_* inline inline_* json_tuple posexplode posexplode_* range stack""",
    "whose type (TIME, INTERVAL, a collation, a shape, nanoseconds) the language does not have": """
        collate collation make_*interval make_time st_* time time_* timestamp_nanos to_time try_make_interval
        try_to_time unix_nanos""",
    "which works on sketches; APPROX_COUNT_DISTINCT and APPROX_QUANTILE keep theirs themselves": """
        approx_top_k_* bitmap_and_agg bitmap_construct_agg bitmap_or_agg hll_* kll_* theta_* tuple_*""",
    "whose aggregate is not among those of the language; HISTOGRAM(x) counts every value": """
        collect_union histogram_numeric measure""",
    "which reads XML; make columns of it before the stream is made": "xpath xpath_*",
}


def absence(name: str) -> str | None:
    """Why the language lacks a function of Spark, behind its name.

    >>> absence("array_max")
    'which is about arrays, maps, structs or variants'
    """
    for reason, names in ABSENT.items():
        if any(fnmatchcase(name, pattern) for pattern in names.split()):
            return reason
    return None
