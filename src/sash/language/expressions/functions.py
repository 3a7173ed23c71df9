"""The functions that a query may call: deterministic, without reach to files, catalogs or the session.

One line per function: its arguments' kinds and its result. A kind is one letter of `KINDS`; those in brackets
may be left out, `*` repeats the last one. Results are types, or rules over the arguments for the others.
"""

from __future__ import annotations

import pyarrow as pa

from sash.language.expressions.function_rules import (
    Rule,
    absolute,
    alike,
    arithmetic,
    ceiling,
    common,
    first_type,
    if_else,
    logarithm,
    null_if,
    null_or,
    rounded,
    shifted,
)
from sash.language.types import TIMESTAMP

_S, _I, _L, _D, _B = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
_DATE = pa.date32()

Signature = tuple[str, pa.DataType | Rule]

_STRINGS: dict[str, Signature] = {
    **dict.fromkeys(("upper", "lower", "ucase", "lcase", "initcap"), ("s", _S)),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), ("s", _S)),
    **dict.fromkeys(("substring", "substr"), ("si[i]", _S)),
    **dict.fromkeys(("left", "right", "repeat"), ("si", _S)),
    **dict.fromkeys(("lpad", "rpad"), ("si[s]", _S)),
    **dict.fromkeys(("length", "char_length", "character_length", "ascii"), ("s", _I)),
    **dict.fromkeys(("octet_length", "bit_length"), ("s", _I)),
    **dict.fromkeys(("startswith", "endswith", "contains", "regexp_like"), ("ss", _B)),
    **dict.fromkeys(("instr", "find_in_set", "regexp_count", "regexp_instr"), ("ss", _I)),
    **dict.fromkeys(("locate", "position"), ("ss[i]", _I)),
    "levenshtein": ("ss", _I),
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
    "chr": ("l", _S),
    "hex": ("h", _S),
    "bin": ("l", _S),
    "conv": ("sii", _S),
    "base64": ("y", _S),
    "get_json_object": ("xx", _S),
    "parse_url": ("ss[s]", _S),
    "url_encode": ("s", _S),
    "url_decode": ("s", _S),
}
_NUMBERS: dict[str, Signature] = {
    **dict.fromkeys(("sqrt", "cbrt", "exp", "expm1", "ln", "log10", "log2", "log1p", "rint"), ("d", _D)),
    **dict.fromkeys(("sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh"), ("d", _D)),
    **dict.fromkeys(("degrees", "radians", "sign", "signum"), ("d", _D)),
    **dict.fromkeys(("pow", "power", "atan2", "hypot"), ("dd", _D)),
    **dict.fromkeys(("ceil", "ceiling", "floor"), ("n", ceiling)),
    **dict.fromkeys(("round", "bround"), ("n[i]", rounded)),
    **dict.fromkeys(("mod", "try_mod"), ("nn", arithmetic("modulo"))),
    **dict.fromkeys(("shiftleft", "shiftright", "shiftrightunsigned"), ("li", shifted)),
    "log": ("d[d]", logarithm),
    "pi": ("", _D),
    "e": ("", _D),
    "abs": ("n", absolute),
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
    **dict.fromkeys(("date_add", "date_sub", "add_months"), ("Di", _DATE)),
    **dict.fromkeys(("datediff", "date_diff"), ("DD", _I)),
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), ("T", _L)),
    **dict.fromkeys(("timestamp_millis", "timestamp_micros"), ("l", TIMESTAMP)),
    **dict.fromkeys(("from_utc_timestamp", "to_utc_timestamp"), ("ts", TIMESTAMP)),
    **dict.fromkeys(("dayname", "monthname"), ("D", _S)),
    "timestamp_seconds": ("n", TIMESTAMP),
    "date_trunc": ("st", TIMESTAMP),
    "trunc": ("Ds", _DATE),
    "unix_date": ("E", _I),
    "last_day": ("D", _DATE),
    "next_day": ("Ds", _DATE),
    "to_date": ("D[s]", _DATE),
    "to_timestamp": ("t[s]", TIMESTAMP),
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
    "isnull": ("a", _B),
    "isnotnull": ("a", _B),
}
_HASHES: dict[str, Signature] = {
    **dict.fromkeys(("md5", "sha1", "sha"), ("y", _S)),
    "sha2": ("yi", _S),
    "crc32": ("y", _L),
    "hash": ("aa*", _I),
    "xxhash64": ("aa*", _L),
}
FUNCTIONS: dict[str, Signature] = {
    **_STRINGS,
    **_NUMBERS,
    **_TIMES,
    **_CONDITIONS,
    **_HASHES,
    "positive": ("n", first_type),
}

_WHY_CLOCK = "it reads the clock, and an answer must be a function of the stream; use the stream's timestamp column"
_WHY_CHANCE = "it gives another value each time it is asked, and an answer must be a function of the stream"
_WHY_REACH = "it reaches outside the stream (files, catalogs, the session), where two runs may find different things"
_CLOCK = """
    current_date current_timestamp current_time current_timezone curdate now localtimestamp
"""
_CHANCE = """
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id try_random
"""
_REACH = """
    input_file_name input_file_block_start input_file_block_length current_user user session_user current_catalog
    current_database current_schema version reflect java_method try_reflect read_files
"""
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        _CLOCK.split(),
        _WHY_CLOCK,
    ),
    **dict.fromkeys(
        _CHANCE.split(),
        _WHY_CHANCE,
    ),
    **dict.fromkeys(
        _REACH.split(),
        _WHY_REACH,
    ),
}
