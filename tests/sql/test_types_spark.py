"""Every function's and operator's type, against what Spark's own analysis says."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from sash.catalog import Stream
from sash.core.errors import CqlError
from sash.sql import parse
from sash.sql.expressions.functions import CASTS, DATE_PARTS, FUNCTIONS
from sash.sql.expressions.scope import FromColumns, Scope, SourceColumns
from sash.sql.expressions.terms import Term, render
from sash.sql.expressions.typer import type_expression
from sash.sql.reading.statements import CreateStream, SelectStatement
from sash.sql.types import spark_name, spark_schema

pytestmark = pytest.mark.spark

COLUMNS = {
    "ti": "TINYINT",
    "si": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(10,2)",
    "w": "DECIMAL(38,10)",
    "s": "STRING",
    "y": "BINARY",
    "b": "BOOLEAN",
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "tn": "TIMESTAMP_NTZ",
}
NUMBERS = ("ti", "si", "i", "l", "f", "d", "m", "w", "1", "3000000000", "1.50", "1e3", "-2.5", "NULL")
# What an argument of each kind may be.
SAMPLES = {
    "a": ("i", "s"),
    "s": ("s", "i", "dt"),
    "x": ("s",),
    "E": ("dt",),
    "i": ("2", "si"),
    "l": ("l", "i"),
    "d": ("d", "i", "m", "f"),
    "n": ("ti", "i", "l", "f", "d", "m", "w"),
    "b": ("b",),
    "D": ("dt", "ts", "tn", "s"),
    "t": ("ts", "dt", "tn", "s"),
    "T": ("ts",),
    "y": ("s", "y"),
    "h": ("l", "s", "y"),
    "z": ("y",),
    "c": ("ts", "dt"),
    "m": ("ts", "dt", "tn"),
    "f": ("2", "s"),
}
SPECIAL = {
    "date_trunc": ["date_trunc('HOUR', ts)", "date_trunc('HOUR', dt)", "date_trunc('DAY', s)"],
    "trunc": ["trunc(dt, 'MM')", "trunc(ts, 'MM')"],
    "sha2": ["sha2(s, 256)"],
    "round": [f"{f}({x}{d})" for f in ("round",) for x in SAMPLES["n"] for d in ("", ", 1", ", -2", ", 0", ", 12")],
    "bround": [f"bround({x}{d})" for x in SAMPLES["n"] for d in ("", ", 1", ", -2", ", 0")],
    "try_parse_url": ["try_parse_url(s, 'HOST')", "try_parse_url(s, 'QUERY', 'q')"],
    "parse_url": ["parse_url(s, 'HOST')", "parse_url(s, 'QUERY', 'q')"],
    **{
        name: [
            f"{name}({x}, {format})"
            for x, format in (("ts", "'yyyy'"), ("dt", "'yyyy'"), ("m", "'999.99'"), ("i", "'999'"), ("d", "'99.9'"))
        ]
        for name in ("to_char", "to_varchar")
    },
    **{
        name: [f"{name}(s, '{format}')" for format in ("999", "S9,999.90", "$00D000", "$99.9MI", "9G999", ".99")]
        for name in ("to_number", "try_to_number")
    },
    **{
        name: [
            f"{name}('{field}', {x})"
            for field in DATE_PARTS
            for x in SAMPLES["m"]
            if field not in ("HOUR", "MINUTE", "SECOND") or x != "dt"
        ]
        for name in ("date_part", "datepart")
    },
    **{name: [f"{name}(s)", f"{name}(s, 'hex')"] for name in ("to_binary", "try_to_binary")},
    **{name: [f"{name}({x})" for x in ("s", *COLUMNS)] for name in CASTS},
    "mask": ["mask(s)", "mask(s, 'X', 'x', 'n', 'o')"],
    "date_format": ["date_format(ts, 'yyyy')", "date_format(dt, 'yyyy')"],
}
VALUES = ("i", "l", "f", "d", "m", "w", "s", "b", "dt", "ts", "tn", "NULL", "1", "1.5", "'x'")


def calls(name: str) -> list[str]:
    """Calls with every sample of each argument in turn, and without what may be left out."""
    if name in SPECIAL:
        return SPECIAL[name]
    kinds = FUNCTIONS[name][0]
    required, _, optional = kinds.partition("[")
    if required.endswith("*"):
        required = required[:-1]
    found = []
    for given in {required, required + optional.rstrip("]")}:
        first = [SAMPLES[kind][0] for kind in given]
        found.append(f"{name}({', '.join(first)})")
        for place, kind in enumerate(given):
            others = ([*first[:place], sample, *first[place + 1 :]] for sample in SAMPLES[kind][1:])
            found.extend(f"{name}({', '.join(arguments)})" for arguments in others)
    return found


OPERATORS = [
    *(f"{a} {op} {b}" for op in ("+", "-", "*", "/", "%") for a in NUMBERS for b in NUMBERS),
    *(f"{a} DIV {b}" for a in ("ti", "i", "l", "m", "1") for b in ("i", "l", "m", "2")),
    *(f"{a} {op} {b}" for op in ("&", "|", "^") for a in ("ti", "i", "l") for b in ("si", "l", "1")),
    *(
        "~i",
        "~ti",
        "-i",
        "-m",
        "-f",
        "i << 2",
        "l >> 1",
        "s || s",
        "i || s",
        "s LIKE 'a%'",
        "s RLIKE 'a+'",
        "s ILIKE 'A'",
    ),
    *(f"CASE WHEN b THEN {a} ELSE {c} END" for a in VALUES for c in VALUES),
    *(f"COALESCE({a}, {c})" for a in VALUES for c in VALUES),
    *(f"{a} = {c}" for a in VALUES for c in VALUES),
    *(f"NULLIF({a}, {c})" for a in ("i", "m", "s") for c in ("i", "l", "m", "s")),
    *(f"IF(b, {a}, {c})" for a in ("i", "m") for c in ("l", "1", "1.5", "d", "NULL")),
    *(f"{x} IN ({y}, {z})" for x in VALUES for y in ("l", "1.5", "'x'", "ts") for z in ("2", "s", "dt", "NULL")),
    *(f"{x} BETWEEN {y} AND {z}" for x in VALUES for y in ("l", "1.5", "'x'") for z in ("2", "s", "dt")),
    *(f"{f}({x}, {y})" for f in ("greatest", "least") for x in VALUES for y in VALUES),
    *(
        f"{x} {op} INTERVAL 2 {unit}"
        for x in ("ts", "dt", "tn")
        for op in "+-"
        for unit in ("DAY", "HOURS", "MONTH", "SECOND", "WEEK", "YEAR")
    ),
    *(
        f"EXTRACT({field} FROM ts)"
        for field in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "MINUTE", "SECOND")
    ),
    *(
        "1",
        "2147483648",
        "-2147483648",
        "9223372036854775808",
        "1.5",
        "0.001",
        "-1.50",
        "1e3",
        "'x'",
        "TRUE",
        "NULL",
        "10L",
        "5S",
        "1.5D",
        "1.5BD",
    ),
    *(
        "i IS NULL",
        "i IS NOT NULL",
        "b IS TRUE",
        "NOT b",
        "i BETWEEN 1 AND l",
        "i <=> l",
        "b AND NOT b OR b",
        ".5",
        "1.",
        "DATE '2024-01-01'",
        "TIMESTAMP '2024-01-01 00:00:00'",
    ),
    *(f"{cast}({x} AS {to})" for cast in ("CAST", "TRY_CAST") for x in COLUMNS for to in COLUMNS.values()),
    *(f"CASE {a} WHEN {c} THEN 1 END" for a in ("i", "s") for c in ("l", "1.5", "'x'")),
]


@pytest.fixture(scope="module")
def scope() -> Scope:
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    statement = parse(f"CREATE STREAM v ({columns}) FROM rate TIMESTAMP ts")
    assert isinstance(statement, CreateStream) and statement.schema is not None
    return Scope("", FromColumns((SourceColumns.of(Stream("v", statement.schema, "ts"), "v", "v"),)))


@pytest.fixture(scope="module")
def view(spark: Any, scope: Scope) -> Any:
    schema = pa.schema(list(scope.columns.sources[0].columns.values()))
    spark.createDataFrame([], spark_schema(schema)).createOrReplaceTempView("v")
    yield spark
    spark.catalog.dropTempView("v")


def ours(text: str, scope: Scope) -> Term:
    statement = parse(f"SELECT {text} FROM v [WINDOW 1 sec]")
    assert isinstance(statement, SelectStatement)
    tree = statement.select.tree
    assert isinstance(tree, exp.Select)
    return type_expression(tree.expressions[0], scope)


def typed(texts: list[str], scope: Scope) -> dict[str, Term]:
    """What Sash takes: stricter than Spark is allowed, and tested elsewhere."""
    found = {}
    for text in texts:
        with suppress(CqlError):
            found[text] = ours(text, scope)
    return found


@pytest.fixture(scope="module")
def terms(scope: Scope) -> dict[str, Term]:
    return typed([*OPERATORS, *(text for name in FUNCTIONS for text in calls(name))], scope)


@pytest.fixture(scope="module")
def sparks(view: Any, terms: dict[str, Term]) -> dict[str, str]:
    """The types of Spark: an analysis for a thousand expressions, as each analysis by itself costs milliseconds."""
    found, written = {}, list(terms.items())
    for start in range(0, len(written), 1000):
        part = written[start : start + 1000]
        columns = ", ".join(f"{render(term)} AS c{place}" for place, (_, term) in enumerate(part))
        fields = view.sql(f"SELECT {columns} FROM v").schema.fields
        found |= {text: field.dataType.simpleString().upper() for (text, _), field in zip(part, fields, strict=True)}
    return found


def mismatches(texts: list[str], terms: dict[str, Term], sparks: dict[str, str]) -> list[str]:
    return [
        f"{text}: ours {spark_name(terms[text].type)}, Spark's {sparks[text]}"
        for text in texts
        if text in terms and spark_name(terms[text].type) != sparks[text]
    ]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_function(name: str, terms: dict[str, Term], sparks: dict[str, str]) -> None:
    texts = calls(name)
    assert texts[0] in terms
    assert mismatches(texts, terms, sparks) == []


def test_operators(terms: dict[str, Term], sparks: dict[str, str]) -> None:
    assert len([text for text in OPERATORS if text in terms]) > 2000
    assert mismatches(OPERATORS, terms, sparks) == []


def test_every_function_is_deterministic(view: Any, terms: dict[str, Term]) -> None:
    """Spark's analysis refuses others inside of an aggregate."""
    counts = ", ".join(f"COUNT({render(terms[calls(name)[0]])})" for name in FUNCTIONS)
    assert len(view.sql(f"SELECT {counts} FROM v").columns) == len(FUNCTIONS)
    with pytest.raises(Exception, match="NONDETERMINISTIC"):
        view.sql("SELECT COUNT(rand()) FROM v")


STRINGS = [
    r"'a\'b'",
    r"'\\d+'",
    r"'\d'",
    r"'\n\t\0'",
    r"'\%\_'",
    r"'\u0041\101'",
    "'a''b'",
    "'a' 'b'",
    '"it\'s"',
    r"r'\d'",
]


def test_strings_mean_what_they_mean_to_spark(scope: Scope, view: Any) -> None:
    terms = [ours(written, scope) for written in STRINGS]
    columns = [column for written, term in zip(STRINGS, terms, strict=True) for column in (written, render(term))]
    row = view.sql("SELECT " + ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))).first()
    expected = [term.value for term in terms for _ in range(2)]
    assert [(columns[place], row[place]) for place in range(len(columns))] == list(zip(columns, expected, strict=True))
