"""Spark SQL's types and Arrow's, both ways. Spark decides the semantics; Arrow is how Sash carries them."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp
from sqlglot.errors import ParseError

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
# The type of INTERVAL, which is only added to or subtracted from a date or timestamp.
DAY_TIME_INTERVAL = pa.duration("us")
YEAR_MONTH_INTERVAL = pa.month_day_nano_interval()

_NAMES: tuple[tuple[str, pa.DataType], ...] = (
    ("BOOLEAN", pa.bool_()),
    ("TINYINT", pa.int8()),
    ("SMALLINT", pa.int16()),
    ("INT", pa.int32()),
    ("BIGINT", pa.int64()),
    ("FLOAT", pa.float32()),
    ("DOUBLE", pa.float64()),
    ("STRING", pa.string()),
    ("BINARY", pa.binary()),
    ("DATE", pa.date32()),
    ("TIMESTAMP", TIMESTAMP),
    ("TIMESTAMP_NTZ", TIMESTAMP_NTZ),
    ("VOID", pa.null()),
    ("INTERVAL DAY TO SECOND", DAY_TIME_INTERVAL),
    ("INTERVAL YEAR TO MONTH", YEAR_MONTH_INTERVAL),
)
_BY_ARROW = {type: name for name, type in _NAMES}
_T = exp.DType
_BY_SQLGLOT: dict[exp.DType, pa.DataType] = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.TEXT: pa.string(),
    _T.BINARY: pa.binary(),
    _T.DATE: pa.date32(),
    _T.TIMESTAMPTZ: TIMESTAMP,
    _T.TIMESTAMPLTZ: TIMESTAMP,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}
KNOWN = ", ".join([*(name for name, _ in _NAMES[:12]), "DECIMAL(p,s)"])


def is_interval(type: pa.DataType) -> bool:
    return type in (DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL)


def spark_name(type: pa.DataType) -> str:
    """An Arrow type in Spark's DDL; ValueError for a type that Spark does not have.

    >>> spark_name(pa.decimal128(10, 2)), spark_name(pa.list_(pa.int32()))
    ('DECIMAL(10,2)', 'ARRAY<INT>')
    """
    if type in _BY_ARROW:
        return _BY_ARROW[type]
    if pt.is_decimal(type):
        return f"DECIMAL({type.precision},{type.scale})"
    if pt.is_map(type):
        return f"MAP<{spark_name(type.key_type)},{spark_name(type.item_type)}>"
    if pt.is_list(type) or pt.is_large_list(type):
        return f"ARRAY<{spark_name(type.value_type)}>"
    if pt.is_struct(type):
        fields = (type.field(i) for i in range(type.num_fields))
        return f"STRUCT<{','.join(f'{identifier(field.name)}: {spark_name(field.type)}' for field in fields)}>"
    raise ValueError(f"Spark has no type for Arrow's {type}")


def spark_schema(schema: pa.Schema) -> str:
    """DDL for `DataStreamReader.schema`."""
    return ", ".join(f"{identifier(field.name)} {spark_name(field.type)}" for field in schema)


def arrow_type(tree: exp.Expr) -> pa.DataType:
    """The Arrow type of a parsed Spark type; ValueError with the expected types otherwise."""
    if not isinstance(tree, exp.DataType):
        raise ValueError(f"expected a type ({KNOWN})")
    if tree.this == _T.DECIMAL:
        return _decimal([int(part.name) for part in tree.expressions])
    if tree.this in (_T.ARRAY, _T.LIST) and len(tree.expressions) == 1:
        return pa.list_(arrow_type(tree.expressions[0]))
    if tree.this == _T.MAP and len(tree.expressions) == 2:
        return pa.map_(*(arrow_type(part) for part in tree.expressions))
    if tree.this == _T.STRUCT:
        if any(part.args.get("kind") is None for part in tree.expressions):
            raise ValueError("a field of a STRUCT has a name and a type: STRUCT<a: INT>")
        return pa.struct([pa.field(part.name, arrow_type(part.args["kind"])) for part in tree.expressions])
    if tree.this not in _BY_SQLGLOT or tree.expressions:
        raise ValueError(f"unknown type; expected one of {KNOWN}")
    return _BY_SQLGLOT[tree.this]


def named_type(name: str) -> pa.DataType:
    """The Arrow type of a name of Spark's; ValueError with the expected types otherwise.

    >>> named_type("decimal(10, 2)")
    Decimal128Type(decimal128(10, 2))
    """
    try:
        tree = exp.DataType.build(name, dialect="spark")
    except ParseError:
        raise ValueError(f"unknown type; expected one of {KNOWN}") from None
    return arrow_type(tree)


def _decimal(parts: list[int]) -> pa.DataType:
    precision, scale = ([*parts, 0] if len(parts) == 1 else parts) if parts else (10, 0)
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise ValueError("DECIMAL(p,s) needs 1 <= p <= 38 and 0 <= s <= p")
    return pa.decimal128(precision, scale)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The words that sqlglot or Spark would not read as a column's name.
_RESERVED_WORDS = """
    ALL AND ANTI ANY AS ASC BETWEEN BOTH BY CASE CAST CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP
    CURRENT_USER DATE DESC DISTINCT DIV ELSE END ESCAPE EXCEPT EXISTS EXTRACT FALSE FETCH FILTER FOR FROM FULL
    GROUP HAVING IF ILIKE IN INNER INTERSECT INTERVAL INTO IS JOIN LATERAL LEADING LEFT LIKE LIMIT MAP MINUS
    NATURAL NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER OVERLAPS PARTITION QUALIFY RANGE REGEXP RIGHT RLIKE ROW
    ROWS SELECT SEMI SESSION_USER SOME STRUCT TABLE THEN TIMESTAMP TO TRAILING TRUE TRY_CAST UNION UNIQUE UNKNOWN
    UNNEST USER USING VALUES WHEN WHERE WINDOW WITH
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())


def identifier(name: str) -> str:
    """A name, in backquotes only if necessary.

    >>> identifier("src"), identifier("my col"), identifier("order")
    ('src', '`my col`', '`order`')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"
