"""Results of a join, put together in pieces and in other processes."""

from __future__ import annotations

import pickle
from collections import Counter

import pyarrow as pa

from sash.changes.join_partials import Fold, together
from sash.runtime.continuous.join_layout import JoinLayout
from tests.runtime.test_join_group import SEC, Tuples, epochs, query_of

SOURCE = "s [WINDOW 3 sec SLIDE 1 sec], t [WINDOW 2 sec SLIDE 1 sec] WHERE s.b = t.b"
TEXTS = [
    f"SELECT MAX(s.c) AS x, VARIANCE(t.a) AS v FROM {SOURCE} GROUP BY s.b",
    f"SELECT COUNT(*) AS n FROM {SOURCE.replace('3 sec', '1 sec')}",
]


def tuples() -> Tuples:
    def row(i: int) -> dict[str, object]:
        return {"a": i % 7, "b": i % 3, "c": "xyz"[i % 3], "d": 0.0, "e": i}

    return {name: [(i * SEC // step, row(i)) for i in range(40)] for name, step in (("s", 4), ("t", 3))}


def counted(tables: list[pa.Table]) -> list[Counter[str]]:
    return [Counter(map(str, table.to_pylist())) for table in tables]


def test_what_another_process_gets_is_the_same_fold() -> None:
    """Hashes of strings are a process's own: none may travel."""
    layout = JoinLayout([query_of(text) for text in TEXTS])
    fold = layout.fold
    assert all(hash(partial) for kept in fold.kept for partial in kept.partials)
    sent: Fold = pickle.loads(pickle.dumps(fold))
    assert sent == fold and not any("_hash" in vars(partial) for kept in sent.kept for partial in kept.partials)
    for changes, _, _ in epochs(layout.plan, tuples(), [5 * SEC, 12 * SEC]):
        assert len(changes)
        assert counted(sent.tables(changes)) == counted(fold.tables(changes))


def test_every_result_is_counted_once_however_buckets_divide_them() -> None:
    layout = JoinLayout([query_of(text) for text in TEXTS])
    fold = layout.fold
    ((changes, _, _),) = epochs(layout.plan, tuples(), [12 * SEC])
    halves = [changes.where(changes.ts >= 6 * SEC), changes.where(changes.ts < 6 * SEC)]
    rows = fold.read(together([fold.tables(half) for half in halves]))
    assert sum(int(each.columns[partial, 0].sum()) for each, kept in zip(rows, fold.kept, strict=True)
               for partial in kept.partials if partial.kind == "rows") == 2 * len(changes)  # fmt: skip
