"""Rows for a table, as programs give them and as the catalog's history keeps them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from sash.catalog import Table
from sash.core.errors import SashError, nearest
from sash.core.time import Micros, to_micros

if TYPE_CHECKING:
    import pandas as pd

Given: TypeAlias = "Sequence[Mapping[str, Any]] | pa.Table | pd.DataFrame"
Key = tuple[Any, ...]


def key_schema(table: Table) -> pa.Schema:
    return pa.schema([table.schema.field(name) for name in table.key])


def as_rows(given: Given, table: Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema out of a list of dicts, an Arrow table or a pandas DataFrame, in the table's types."""
    try:
        if isinstance(given, pa.Table):
            found = given
        elif hasattr(given, "to_dict") and hasattr(given, "columns"):
            found = pa.Table.from_pandas(given, preserve_index=False)
        else:
            return _from_dicts(given, table, schema)
        names = _spelt(found.schema.names, table, schema)
        return pa.table([found[names[field.name]].cast(field.type) for field in schema], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise SashError(f"the rows do not fit the columns of table '{table.name}': {error}") from None


def _from_dicts(given: Sequence[Mapping[str, Any]], table: Table, schema: pa.Schema) -> pa.Table:
    if isinstance(given, Mapping | str) or not all(isinstance(row, Mapping) for row in given):
        raise SashError("rows is a list of dicts, a pyarrow.Table or a pandas DataFrame")
    spelt = [_spelt(list(row), table, schema) for row in given]
    columns = []
    for field in schema:
        values = [row[names[field.name]] for row, names in zip(given, spelt, strict=True)]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def _spelt(names: Sequence[str], table: Table, schema: pa.Schema) -> dict[str, str]:
    """How the rows spell each column that is needed; unknown and missing ones are mistakes."""
    unknown = next((name for name in names if table.column(name) is None), None)
    if unknown is not None:
        hint = nearest(unknown, table.schema.names)
        raise SashError(f"table '{table.name}' has no column '{unknown}'{hint}")
    known = {name.lower(): name for name in names}
    missing = next((name for name in schema.names if name.lower() not in known), None)
    if missing is not None:
        raise SashError(f"the rows for table '{table.name}' lack the column '{missing}'")
    return {name: known[name.lower()] for name in schema.names}


def keys_of(rows: pa.Table, table: Table) -> list[Key]:
    """The rows' keys; each once, and without NULL."""
    columns = [rows[name].to_pylist() for name in table.key]
    keys = list(zip(*columns, strict=True))
    if any(value is None for key in keys for value in key):
        raise SashError(f"a key of table '{table.name}' ({', '.join(table.key)}) cannot be NULL")
    if len(set(keys)) < len(keys):
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise SashError(f"{named(twice, table)} stands twice in the rows for table '{table.name}'")
    return keys


def named(key: Key, table: Table) -> str:
    """A key as a condition: port = 80."""
    return " AND ".join(f"{name} = {value!r}" for name, value in zip(table.key, key, strict=True))


def as_time(at: datetime | Micros | None) -> Micros | None:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise SashError("at needs a time zone: datetime(.., tzinfo=UTC), or microseconds since 1970")
        return to_micros(at)
    if at is not None and not isinstance(at, int):
        raise SashError(f"at is a datetime with a time zone, or microseconds since 1970; got {at!r}")
    return at


def encoded(rows: pa.Table) -> str:
    """Rows without their schema, which the table has."""
    (batch,) = rows.combine_chunks().to_batches()
    return base64.b64encode(batch.serialize().to_pybytes()).decode()


def decoded(text: str, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(base64.b64decode(text)), schema)])
