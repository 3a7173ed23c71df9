"""Checks on streams and queries that users declare, also against the declarations in a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sash.catalog import ARRIVAL, CLUSTER, MEMORY, Catalog, RegisteredQuery, Stream, one_in
from sash.core.errors import CatalogError, CheckpointError, CqlError, SashError, nearest
from sash.core.time import Micros, format_duration
from sash.expr.row_predicates import row_predicate
from sash.plan.continuous import EXECUTIONS
from sash.plan.punctuations import can_be_promised
from sash.runtime.compiler import compile_query
from sash.sql import (
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    Drop,
    DropIndex,
    RegisterQuery,
    Select,
    Statement,
    named_type,
    spark_name,
)

_CLAUSES = (
    "delay",
    "granule",
    "offset",
    "closed_left",
    "late_revise",
    "idle_after",
    "keep",
    "keep_in",
    "shed",
    "shed_approx",
    "shed_first",
    "max_jump",
    "source",
)
# The columns that the pass over a micro-batch adds (spark/lanes.py), and that stored rows have (spark/stored_rows.py).
_RESERVED = re.compile(
    r"_(t|n|shed|arrival|epoch|bad|lane|leaf|bucket|pane|rows|latest|mask|name|corrupt_record|[kxa]\d+)"
)
# The columns of stored results (answers/kept_result.py).
_RESERVED_IN_RESULTS = re.compile(r"_(ts|exp|sign|id\d+)")
_MUST_MATCH = (
    "timestamp",
    "implicit",
    "granule",
    "offset",
    "closed_left",
    "late_revise",
    "delay",
    "keep",
    "keep_in",
    "shed",
    "shed_approx",
    "shed_first",
    "max_jump",
)


# What the user has written of a query.
_WRITTEN = ("text", "priority", "lifetime", "synopsis", "comment", "keep")


def check_name(what: str, name: str) -> None:
    """Check a name. Names become names of files and columns: letters, digits, underscores, dots and hyphens."""
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", name):
        raise CatalogError(f"'{name}' is no name for a {what}: take letters, digits, _ . and -, a letter or _ first")


def check_kept(select: Select, keep: Micros, columns: Sequence[str]) -> None:
    """Check that KEEP can store answers with these columns: beside them are the times of the rows."""
    if keep <= 0:
        raise SashError(f"keep is more than zero, not {format_duration(keep)}")
    if taken := [name for name in columns if _RESERVED_IN_RESULTS.fullmatch(name.lower())]:
        reason = f"column '{taken[0]}' of its answers has a name that KEEP uses itself: rename it by AS"
        raise CqlError(reason, select.script, select.word)


def is_needless(statement: Statement, catalog: Catalog) -> bool:
    """Whether IF EXISTS or IF NOT EXISTS leaves a statement nothing to do."""
    match statement:
        case Drop(kind=kind, name=name, if_exists=True):
            return not catalog.has(kind, name)
        case CreateStream(name=name, if_not_exists=True):
            return catalog.has_stream(name)
        case CreateTable(name=name, if_not_exists=True):
            return catalog.has_table(name)
        case RegisterQuery(name=name, if_not_exists=True):
            return catalog.has_query(name)
        case CreateArchive(name=found, if_not_exists=True):
            return catalog.has_archive(found.text)
        case CreateIndex(if_not_exists=True):
            return _has_index(statement, catalog)
        case DropIndex(if_exists=True):
            return not _has_index(statement, catalog)
    return False


def _has_index(statement: CreateIndex | DropIndex, catalog: Catalog) -> bool:
    """Whether there is an index of a column, of any kind if the statement says none."""
    wanted = (statement.stream.text.lower(), statement.column.text.lower())
    same = [each.kind for each in catalog.indexes if (each.stream.lower(), each.column.lower()) == wanted]
    return bool(same) if statement.kind is None else statement.kind in same


def promised_value(stream: Stream, column: str, value: object) -> tuple[str, pa.Array]:
    """The column of a punctuation, and its value as an array."""
    field = stream.column(column)
    if field is None:
        raise CatalogError(f"stream '{stream.name}' has no column '{column}'{nearest(column, stream.schema.names)}")
    if not can_be_promised(field.type):
        raise SashError(
            f"column '{field.name}' is {field.type}: punctuate() takes columns whose values are the same or not, of "
            "whole numbers, decimals, texts, dates and times"
        )
    try:
        return field.name, pa.array([value], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SashError(f"{value!r} is no value of column '{field.name}', which is {field.type}: {error}") from None


def returned_type(name: str, function: object, type: str | pa.DataType) -> pa.DataType:
    """The type of a function's values."""
    if not callable(function) or hasattr(function, "evalType"):
        wanted = "a Python function of its own, not one that udf() has made" if callable(function) else "callable"
        raise SashError(f"the function '{name}' is to be {wanted}")
    try:
        found = type if isinstance(type, pa.DataType) else named_type(type)
        spark_name(found)
    except (AttributeError, TypeError, ValueError) as error:
        raise SashError(f"the type of function '{name}', {type!r}: {error}") from None
    if pa.types.is_nested(found) or pa.types.is_null(found) or pa.types.is_duration(found):
        raise SashError(f"the type of function '{name}' is to be a plain one, such as 'DOUBLE', not {type!r}")
    return found


def shedding(part: float) -> int:
    """The n of `shed`, the part of the tuples to keep: one in n."""
    try:
        return one_in(str(part))
    except ValueError as error:
        raise SashError(f"shed: {error}") from None


def checked_execution(strategy: str) -> str:
    if strategy not in EXECUTIONS:
        raise SashError(f"unknown execution '{strategy}'; one of {', '.join(EXECUTIONS)}")
    return strategy


def declared_stream(statement: CreateStream, schema: pa.Schema) -> Stream:
    clauses = {clause: getattr(statement, clause) for clause in _CLAUSES}
    return checked(Stream(statement.name, schema, statement.timestamp, inferred=statement.schema is None, **clauses))


def checked(stream: Stream) -> Stream:
    """The stream with its timestamp column spelt as in the schema; CatalogError when it cannot work."""
    column = stream.column(stream.timestamp)
    if column is None and stream.timestamp.lower() == ARRIVAL:
        column = pa.field(ARRIVAL, pa.timestamp("us", "UTC"))
        stream = replace(stream, schema=stream.schema.append(column), implicit=True)
    if stream.implicit and (stream.delay or stream.max_jump is not None):
        word = "DELAY" if stream.delay else "MAX JUMP"
        raise CatalogError(f"stream '{stream.name}': tuples arrive in order, and {word} is for others; leave it out")
    if column is None:
        hint = nearest(stream.timestamp, stream.schema.names)
        raise CatalogError(f"stream '{stream.name}' has no column '{stream.timestamp}' for its TIMESTAMP{hint}")
    if not pa.types.is_timestamp(column.type):
        raise CatalogError(f"TIMESTAMP {column.name} of stream '{stream.name}' is {column.type}, not a timestamp")
    if taken := [name for name in stream.schema.names if _RESERVED.fullmatch(name.lower())]:
        raise CatalogError(f"column '{taken[0]}' of stream '{stream.name}' has a name that Sash uses itself; rename it")
    if stream.granule <= 0 or stream.delay < 0:
        raise CatalogError(
            f"stream '{stream.name}': GRANULE must be positive and DELAY not negative, not "
            f"{format_duration(stream.granule)} and {format_duration(stream.delay)}"
        )
    if stream.keep is not None and (stream.keep <= 0 or stream.keep % stream.granule):
        raise CatalogError(
            f"stream '{stream.name}': KEEP must be a multiple of its GRANULE, {format_duration(stream.granule)}, not "
            f"{format_duration(stream.keep)}"
        )
    if stream.keep_in not in (MEMORY, CLUSTER):
        raise CatalogError(f"stream '{stream.name}': tuples are kept in {MEMORY} or {CLUSTER}, not in {stream.keep_in}")
    if stream.keep is not None and stream.shed is not None:
        raise CatalogError(f"stream '{stream.name}': KEEP stores every tuple, so SHED would have nothing to drop")
    if stream.keep is None and stream.keep_in != MEMORY:
        raise CatalogError(f"stream '{stream.name}': nothing is stored in the {stream.keep_in} without KEEP")
    if stream.max_jump is not None and stream.max_jump <= 0:
        raise CatalogError(f"stream '{stream.name}': MAX JUMP must be positive, not {format_duration(stream.max_jump)}")
    return replace(stream, timestamp=column.name, shed_first=_shed_first(stream))


def _shed_first(stream: Stream) -> str | None:
    """The condition of SHED .. WHERE as Spark gets it. It only compares columns with constants, so it cannot fail."""
    if stream.shed_first is None:
        return None
    if stream.shed is None:
        raise CatalogError(f"stream '{stream.name}': shed_first needs shed, the part of the tuples to keep")
    catalog, every = Catalog(), format_duration(stream.granule)
    catalog.add_stream(replace(stream, shed_first=None))
    text = f"SELECT COUNT(*) AS n FROM {stream.name} [WINDOW {every} SLIDE {every}] WHERE ({stream.shed_first})"
    try:
        (leaf,) = compile_query(RegisteredQuery("", text, stream.name), catalog).leaves
    except CqlError as error:
        raise CatalogError(f"stream '{stream.name}': SHED .. WHERE {stream.shed_first} FIRST: {error.reason}") from None
    if leaf.predicate is None or row_predicate(leaf.predicate, stream.schema) is None:
        reason = "compare columns with constants, by = <> < <= > >= IN BETWEEN AND OR NOT"
        raise CatalogError(f"stream '{stream.name}': SHED .. WHERE {stream.shed_first} FIRST: {reason}")
    return leaf.predicate.sql


def check_same(stream: Stream, known: Stream) -> None:
    """Check that the stream of a program is the same as the checkpoint's."""
    for name in _MUST_MATCH:
        ours, theirs = getattr(stream, name), getattr(known, name)
        if ours != theirs:
            raise CheckpointError(
                f"stream '{stream.name}' has {name} {ours} here and {theirs} in the checkpoint; "
                "declare it as before, or use another checkpoint"
            )
    ours, theirs = (_place(each) for each in (stream, known))
    if ours != theirs:
        raise CheckpointError(
            f"stream '{stream.name}' is read from {ours} here and from {theirs} in the checkpoint; "
            "declare it as before, or use another checkpoint"
        )
    if not stream.schema.equals(known.schema):
        raise CheckpointError(
            f"stream '{stream.name}' has other columns here than in the checkpoint: "
            f"{'; '.join(_differences(stream.schema, known.schema))}; declare it as before, or use another checkpoint"
        )


def _differences(here: pa.Schema, there: pa.Schema) -> list[str]:
    """How two schemas differ, column by column; else by the order of the columns."""
    found = [f"'{name}' is only here" for name in here.names if name not in there.names]
    found += [f"'{name}' is only in the checkpoint" for name in there.names if name not in here.names]
    for name in here.names:
        if name in there.names and (ours := here.field(name).type) != (theirs := there.field(name).type):
            found.append(f"'{name}' is {ours} here and {theirs} there")
    return found or [f"their order is {', '.join(here.names)} here and {', '.join(there.names)} there"]


def is_same_query(query: RegisteredQuery, known: RegisteredQuery) -> bool:
    """Whether two queries are written alike, whatever Sash has chosen for them."""
    return all(getattr(query, name) == getattr(known, name) for name in _WRITTEN)


def check_same_query(query: RegisteredQuery, known: RegisteredQuery) -> None:
    """Check that a query that a program registers again is the checkpoint's; the error says what differs."""
    for name in (*_WRITTEN, "execution"):
        ours, theirs = (_shown(name, getattr(each, name)) for each in (query, known))
        if ours != theirs:
            raise CatalogError(
                f"a query named '{known.name}' is registered already, by the checkpoint: its {name} is {theirs} there "
                f"and {ours} here; register it as it was, or REGISTER OR REPLACE it, or choose another name"
            )


def _shown(name: str, value: Any) -> str:
    if value is None or value == "":
        return "none"
    return format_duration(value) if name in ("lifetime", "keep") else str(value)


def _place(stream: Stream) -> str:
    """Where a stream is read from; other options of a source may change between two runs."""
    if stream.source is None:
        return "a DataFrame"
    options = {name.lower(): value for name, value in stream.source.options.items()}
    places = [f"{name} {options[name]}" for name in ("path", "subscribe", "host", "port") if name in options]
    return " ".join([stream.source.format.lower(), *places])
