"""The queries of a stream at versions of the catalog: as a replay of the whole history has them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from threading import RLock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.catalog import RegisteredQuery
from sash.runtime.records import catalog_history as histories
from sash.runtime.records.catalog_history import CatalogHistory, query_change
from sash.runtime.records.stream_queries import StreamQueries

# A name is registered, or dropped or replaced if it is; some are of another stream. And one looks, so far back.
STEPS = st.lists(st.tuples(st.sampled_from("aBcd"), st.booleans(), st.integers(0, 9)), max_size=40)


def of_s(history: CatalogHistory) -> StreamQueries[RegisteredQuery]:
    return StreamQueries(history, RLock(), lambda query: query.reads("s"), lambda query: query)


@given(steps=STEPS, every=st.integers(1, 5))
def test_one_goes_from_version_to_version(steps: list[tuple[str, bool, int]], every: int) -> None:
    """Forward by the changes, back and over compacted changes by comparing; in the order of registration."""
    whole, asked = CatalogHistory(), [0]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        patch.setattr(histories, "COMPACT_EVERY", every)
        patch.setattr("os.fsync", lambda descriptor: None)
        compacted = CatalogHistory(Path(directory) / "catalog.jsonl", lambda: min(asked[-3:]))
        queries, known = of_s(compacted), dict[str, int]()
        for name, stays, back in steps:
            version, present = whole.version + 1, whole.queries().get(name.lower())
            query = RegisteredQuery(name, "SELECT", "st"[version % 3 // 2], serial=version)
            if present is not None:
                query = replace(query, replaced_since=present.first_serial)
            change = query_change(query)
            if present is not None and not stays:
                change = {"change": "drop query", "name": name}
            for history in (whole, compacted):
                history.append(change)
            asked.append(max(min(asked[-2:]), version - back))
            gone, come = queries.go_to(asked[-1])
            assert all(known.pop(query.name) == query.serial for query in gone)
            known |= {query.name: query.serial for query in come}
            expected = [query for query in whole.queries(asked[-1]).values() if query.reads("s")]
            assert known == {query.name: query.serial for query in expected}
            assert sorted(queries.at(asked[-1]), key=lambda query: query.serial) == expected


def test_what_cannot_be_compiled_is_tried_again() -> None:
    """A stream of a checkpoint that is not here yet, say: nothing is taken for seen."""
    history, here = CatalogHistory(), list[str]()

    def compiled(query: RegisteredQuery) -> RegisteredQuery:
        if query.name not in here:
            raise LookupError(query.name)
        return query

    queries = StreamQueries(history, RLock(), lambda query: True, compiled)
    for serial, name in enumerate("ab", start=1):
        history.append(query_change(RegisteredQuery(name, "SELECT", "s", serial=serial)))
    here.append("a")
    with pytest.raises(LookupError):
        queries.at(None)
    here.append("b")
    assert [query.name for query in queries.at(None)] == ["a", "b"] and queries.go_to(2) == ([], [])
