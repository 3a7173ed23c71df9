"""The definition by another engine: a continuous query at an instant is an ordinary one over the windows' tuples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from sash.core.changes import EXP, NEVER, SIGN, TS
from tests.support.relational import Row, view

_CLAUSE = r"RANGE (\d+) sec|ROWS (\d+)|PARTITION BY (\w+) ROWS (\d+)|(UNBOUNDED)"
_ALIAS = r"(?!WHERE|GROUP|UNION|EXCEPT|INTERSECT|JOIN|ON)(\w+)"
_WINDOW = re.compile(rf"(\w+) \[(?:{_CLAUSE})\](?: {_ALIAS})?")


class Definition:
    """Streams as tables with `_us`, their timestamps as numbers."""

    def __init__(self, streams: Mapping[str, pa.Table]) -> None:
        # One thread: tables are small, and other processes have the cores.
        self._connection = duckdb.connect(config={"threads": 1})
        for name, table in streams.items():
            self._connection.register(name, table)

    def answer(self, text: str, now: int) -> Counter[Row]:
        def window(match: re.Match[str]) -> str:
            stream, seconds, rows, key, last, _, alias = match.groups()
            seen = f"SELECT * FROM {stream} WHERE _us <= {now}"
            if seconds is not None:
                seen += f" AND _us > {now} - {seconds} * 1000000"
            elif rows is not None:
                seen += f" ORDER BY _us DESC LIMIT {rows}"
            elif key is not None:
                seen += f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY _us DESC) <= {last}"
            return f"({seen}) {alias or stream}"

        text = re.sub(r"\b(EVERY|SOME)\(", lambda match: {"EVERY": "bool_and(", "SOME": "bool_or("}[match[1]], text)
        return Counter(self._connection.sql(_WINDOW.sub(window, text)).fetchall())


def answer_of_changes(changes: pa.Table, now: int) -> Counter[Row]:
    """What a change stream adds up to at an instant."""
    rows = list(zip(*(column.to_pylist() for column in changes.drop_columns([TS, EXP, SIGN]).columns), strict=True))
    ts, exp = (changes[name].cast(pa.int64()) for name in (TS, EXP))
    listed: list[Any] = list(
        zip(ts.to_pylist(), exp.fill_null(NEVER).to_pylist(), changes[SIGN].to_pylist(), rows, strict=True)
    )
    return view(listed, now)
