"""Random patterns mean to RE2 what they mean to Java: on the same texts, in one job of Spark."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sash.expr import FUNCTIONS
from sash.expr.regular_expressions import as_re2
from sash.sql.strings import quote

pytestmark = pytest.mark.spark

ATOMS = [
    "a",
    "b",
    "ab",
    ".",
    r"\d",
    r"\w",
    r"\s",
    r"\S",
    r"\W",
    "[ab]",
    "[^a]",
    r"[\w.]",
    r"[^\s]",
    "[a-c-]",
    r"\.",
    "é",
    "1",
    " ",
]
QUANTIFIERS = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}?", "{2,}"]
LETTERS = ["a", "b", "c", "1", ".", " ", "-", "é", "_", "\n", "\r", "\t", "\x0b", "\x85", "\u2028", "\xa0", "😀"]


def pattern(random: Random, depth: int = 2) -> str:
    parts = []
    for _ in range(random.randint(1, 3)):
        atom = random.choice(ATOMS)
        if depth and random.random() < 0.4:
            atom = f"{random.choice(['(', '(', '(?:'])}{pattern(random, depth - 1)})"
        parts.append(atom + random.choice(QUANTIFIERS))
    found = "".join(parts)
    if random.random() < 0.2:
        found += f"|{random.choice(ATOMS)}"
    return f"{random.choice(['', '', '^'])}{found}{random.choice(['', '', '$'])}" if depth == 2 else found


def taken(random: Random) -> str | None:
    found = pattern(random)
    try:
        as_re2(found)
    except ValueError:
        return None
    return found


def test_random_patterns(spark: Any) -> None:
    random = Random(27)
    patterns = [found for _ in range(160) if (found := taken(random)) is not None]
    texts = [
        "",
        *("".join(random.choices(LETTERS, k=random.randint(1, 8))) + "x" * (place % 2) for place in range(200)),
    ]
    texts = [text for text in texts if not text.endswith(("\n", "\r", "\x85", "\u2028"))]
    calls = []
    for each in patterns:
        calls.append(("rlike", (each,)))
        calls.append(("regexp_substr", (each,)))
        calls.extend(("regexp_extract", (each, group)) for group in range(as_re2(each).groups + 1))
        if as_re2(each).least:
            calls.append(("regexp_replace", (each, "<$0>")))
    assert len(patterns) > 80
    spark.createDataFrame(pa.table({"n": range(len(texts)), "x": texts})).createOrReplaceTempView("texts")
    columns = [
        f"{name}(x, {', '.join(quote(part) if isinstance(part, str) else str(part) for part in constants)}) AS v{place}"
        for place, (name, constants) in enumerate(calls)
    ]
    theirs = spark.sql(f"SELECT {', '.join(columns)} FROM texts ORDER BY n").toArrow()
    column = pa.array(texts)
    for place, (name, constants) in enumerate(calls):
        arguments = (pa.array([part] * len(texts)) for part in constants)
        type = theirs[f"v{place}"].type
        ours = FUNCTIONS[name](type, column, *arguments)
        assert ours.to_pylist() == theirs[f"v{place}"].to_pylist(), (name, constants)
