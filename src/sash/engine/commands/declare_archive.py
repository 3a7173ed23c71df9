"""Checks on an archive as CREATE ARCHIVE declares it: its source, its key, its lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pt

from sash.catalog import Catalog, DeclaredArchive, RegisteredQuery
from sash.core.changes import INSTANT
from sash.core.errors import CqlError, NotSupportedError, nearest
from sash.core.pattern import UpdatePattern
from sash.core.time import format_duration
from sash.engine.compiler import compile_query
from sash.language import CreateArchive
from sash.language.reading.cursor import Name
from sash.language.types import spark_name
from sash.plan.continuous import Node, windows
from sash.plan.strategies import NT
from sash.plan.streams import sampling_of

# Of which answer a row is.
AS_OF = "as_of"
# The plan of a continuous query.
PlanOf = Callable[[RegisteredQuery], Node]


def declared_archive(statement: CreateArchive, catalog: Catalog, plan_of: PlanOf) -> DeclaredArchive:
    """With names as its source spells them; CqlError at the word that is wrong."""
    source = statement.source.text
    schema, of_changes = _schema(statement, catalog, plan_of)
    if statement.lifetime < 2 * statement.every:
        least = format_duration(2 * statement.every)
        reason = f"LIFETIME UP TO {format_duration(statement.lifetime)} is over before the second update: take {least}"
        raise CqlError(f"{reason} or more, or update more often", statement.script, statement.key.span)
    life = statement.lifetime_column
    column = None if life is None else _column(schema, life, statement.script)
    if column is not None:
        _check_lifetime(schema.field(column).type, statement)
    return DeclaredArchive(
        statement.name.text,
        statement.source.text,
        schema,
        _column(schema, statement.key, statement.script),
        statement.lifetime,
        statement.every,
        None if statement.directory is None else str(Path(statement.directory).absolute()),
        column,
        of_changes,
        None if _is_stream(source, catalog) else catalog.query(source).serial,
    )


def _with_time(answers: pa.Schema) -> pa.Schema:
    """Answers are told apart by their time, unless they have such a column themselves."""
    return answers if AS_OF in answers.names else answers.append(pa.field(AS_OF, INSTANT))


def _is_stream(name: str, catalog: Catalog) -> bool:
    return any(stream.name.lower() == name.lower() for stream in catalog.streams)


def _column(schema: pa.Schema, name: Name, script: str) -> str:
    for known in schema.names:
        if known.lower() == name.text.lower():
            return str(known)
    raise CqlError(f"unknown column '{name.text}'{nearest(name.text, schema.names)}", script, name.span)


def _schema(statement: CreateArchive, catalog: Catalog, plan_of: PlanOf) -> tuple[pa.Schema, bool]:
    """The columns of the stream or query that the archive is made from, and whether these are a query's changes."""
    source, script, named = statement.source, statement.script, statement.source.text.lower()
    if _is_stream(named, catalog):
        return catalog.stream(named).schema, False
    if not catalog.has_query(named):
        known = [*(each.name for each in catalog.streams), *(each.name for each in catalog.queries)]
        raise CqlError(f"unknown stream or query '{source.text}'{nearest(source.text, known)}", script, source.span)
    if statement.lifetime_column is not None:
        reason = "results of a query have lifetimes of their own, or all the same one: LIFETIME UP TO .."
        raise CqlError(reason, script, statement.lifetime_column.span)
    query = catalog.query(named)
    if not query.is_continuous:
        return _with_time(compile_query(query, catalog).query.schema), False
    plan = plan_of(query)
    if sampling_of(plan) is not None:
        return _with_time(plan.schema), False
    _check_plan(plan, query.name, query.execution == NT, statement)
    return plan.schema, True


def _check_plan(plan: Node, name: str, announced: bool, statement: CreateArchive) -> None:
    """Its results must say when they expire, and live no longer than the archive keeps them."""
    if announced and plan.pattern is not UpdatePattern.MONOTONIC:
        reason = f"query '{name}' is executed with negative tuples, and its results do not say when they expire"
        way_out = "SET EXECUTION upa before it is registered"
        raise CqlError(f"{reason}: {way_out}", statement.script, statement.source.span)
    if plan.pattern is UpdatePattern.STRICT:
        reason = f"an archive of query '{name}', whose results may be taken back before they expire"
        way_out = "archive a stream, a query without them (EXPLAIN shows the pattern), or one with SLIDE"
        raise NotSupportedError(f"{reason}: {way_out}", statement.script, statement.source.span)
    lengths = [each.window.length for each in windows(plan) if not each.window.unbounded]
    longest = max(lengths, default=0)
    if plan.pattern is not UpdatePattern.MONOTONIC and longest > statement.lifetime:
        reason = f"results of query '{name}' live up to {format_duration(longest)}"
        way_out = f"say LIFETIME UP TO {format_duration(longest)} or more"
        raise CqlError(
            f"{reason}, longer than the archive would keep them: {way_out}", statement.script, statement.source.span
        )


def _check_lifetime(type: pa.DataType, statement: CreateArchive) -> None:
    if not (pt.is_integer(type) or pt.is_floating(type) or pt.is_decimal(type) or pt.is_duration(type)):
        column = statement.lifetime_column
        assert column is not None
        reason = f"'{column.text}' is {spark_name(type)}: a lifetime is a number of seconds or an interval"
        raise CqlError(reason, statement.script, column.span)
