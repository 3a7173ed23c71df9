"""Rows of panes as they lie in files: their span, their key values, the components of their partials.

    start | end | key0 | key1 | v_9f0c.._0 | v_77ab.._0 | v_77ab.._1

A partial's columns are named by what it is, so that files which were written for other queries can be read together: a
file lacks the columns of partials that came later, and has those of partials that nobody reads any more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sash.core.time import Micros
from sash.synopses.basic_interval import BasicIntervalSynopsis
from sash.synopses.pane_store import PaneStore
from sash.synopses.partials import Combine, Partial

SPAN = ("start", "end")


def key_name(place: int) -> str:
    return f"key{place}"


def value_name(partial: Partial, component: int) -> str:
    text = "\0".join(partial.signature).encode()
    return f"v_{hashlib.blake2b(text, digest_size=8).hexdigest()}_{component}"


def stored_schema(keys: Sequence[pa.DataType], partials: Sequence[Partial]) -> pa.Schema:
    names = [*((name, pa.int64()) for name in SPAN), *((key_name(i), type) for i, type in enumerate(keys))]
    values = [(value_name(p, i), _type(p, i)) for p in partials for i in range(len(p.dtypes))]
    return pa.schema([*names, *values])


def _type(partial: Partial, component: int) -> pa.DataType:
    if partial.combine is Combine.UNION:
        return pa.binary()
    if partial.ranked:
        return partial.type
    return pa.float64() if partial.dtypes[component] is np.float64 else pa.int64()


def stored_rows(panes: PaneStore) -> pa.Table:
    """Every row of panes in this process."""
    return _stored(panes, panes.to_table())


def stored_panes(panes: PaneStore) -> Iterator[pa.Table]:
    """The same, pane by pane: who moves many rows has no room for them a second time."""
    return (_stored(panes, table) for table in panes.pane_tables())


def _stored(panes: PaneStore, table: pa.Table) -> pa.Table:
    partials = list(panes.since)
    schema = stored_schema(panes.key_types, partials)
    numbers = [(number, i) for number, partial in enumerate(partials) for i in range(len(partial.dtypes))]
    keys = [key_name(place) for place in range(len(panes.key_types))]
    names = [*SPAN, *keys, *(f"value{number}_{i}" for number, i in numbers)]
    return table.select(names).rename_columns(schema.names).cast(schema)


def synopsis_of(
    table: pa.Table, keys: Sequence[pa.DataType], since: Mapping[Partial, Micros | None], now: Micros
) -> BasicIntervalSynopsis:
    """The panes of such rows, closed up to a time; what a file lacks is nothing."""
    synopsis = BasicIntervalSynopsis(list(keys))
    for partial, start in since.items():
        synopsis.require([partial], start)
    synopsis.load(_as_snapshot(table, keys, list(since)), synopsis.save_since())
    synopsis.close(now)
    return synopsis


def _as_snapshot(table: pa.Table, keys: Sequence[pa.DataType], partials: Sequence[Partial]) -> pa.Table:
    """The rows as `BasicIntervalSynopsis.load` takes them: those of one pane follow each other, all panes are open."""
    table = table.sort_by([(name, "ascending") for name in reversed(SPAN)]).combine_chunks()
    starts, ends = (np.asarray(table[name]) for name in SPAN)
    changes = (np.diff(starts, prepend=starts[:1]) != 0) | (np.diff(ends, prepend=ends[:1]) != 0)
    columns = {name: table[name] for name in SPAN}
    columns |= {"part": pa.array(np.cumsum(changes)), "closed": pa.array(np.zeros(len(table), dtype=np.bool_))}
    columns |= {key_name(i): table[key_name(i)].cast(type) for i, type in enumerate(keys)}
    for number, partial in enumerate(partials):
        for i in range(len(partial.dtypes)):
            columns[f"value{number}_{i}"] = _component(table, partial, i)
    return pa.table(columns)


def _component(table: pa.Table, partial: Partial, component: int) -> pa.ChunkedArray | pa.Array:
    name, type = value_name(partial, component), _type(partial, component)
    column = table[name].cast(type) if name in table.column_names else pa.nulls(len(table), type)
    # Of values and sketches a missing one is the identity as it is.
    absent = partial.ranked or partial.combine is Combine.UNION
    return column if absent else column.fill_null(pa.scalar(partial.identity(component), type))
