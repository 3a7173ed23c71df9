"""What an archive is, defined the slow way: a list of records and the time of the last update."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from sash.archive import Archive, with_times

LIFETIME, EVERY = 16, 2
SCHEMA = pa.schema({"id": pa.int64(), "key": pa.int64(), "word": pa.string()})
# (layout, g, e): the doubly partitioned ones, also where the partitions do not divide the slots; then the waves.
LAYOUTS = [
    ("round_robin", 2, 2),
    ("round_robin", 3, 4),
    ("random", 3, 2),
    ("chronological", 2, 2),
    ("chronological", 4, 3),
    ("wave", 4, 1),
    ("wave", 1, 4),
    ("wave", 1, 1),
]
STRATEGIES = ["rebuild", "no_rebuild", "no_rebuild_eager"]
KINDS = [(*layout, strategy) for layout in LAYOUTS for strategy in STRATEGIES]
Kind = tuple[str, int, int, str]


@dataclass(frozen=True)
class Record:
    id: int
    key: int | None
    inserted: int
    expires: int


@dataclass
class Model:
    records: list[Record] = field(default_factory=list)
    updated: int | None = None

    def update(self, records: list[Record], now: int) -> None:
        self.records = [each for each in [*self.records, *records] if each.expires > now]
        self.updated = now

    def alive(self, now: int) -> list[Record]:
        return [each for each in self.records if each.expires > now]

    def copy(self) -> Model:
        return Model(list(self.records), self.updated)


def make(directory: Path, kind: Kind, bucket_bytes: int = 64) -> Archive:
    layout, g, e, strategy = kind
    return Archive.create(
        directory,
        SCHEMA,
        "key",
        lifetime=LIFETIME,
        every=EVERY,
        g=g,
        e=e,
        layout=layout,
        strategy=strategy,
        bucket_bytes=bucket_bytes,
    )


def table(records: list[Record]) -> pa.Table:
    columns = {
        "id": [each.id for each in records],
        "key": [each.key for each in records],
        "word": [f"word {each.id}" for each in records],
    }
    rows = pa.table(columns, schema=SCHEMA)
    return with_times(rows, [each.inserted for each in records], [each.expires for each in records])


def ids(rows: pa.Table) -> list[int]:
    for record in rows.to_pylist():
        assert record["word"] == f"word {record['id']}"
    return sorted(rows["id"].to_pylist())


def assert_same(archive: Archive, model: Model, keys: tuple[int, ...] = (0, 1, 2, 3, 4)) -> None:
    """Every way to ask, as of the last update and some time later."""
    updated = model.updated
    assert archive.facts().updated == updated
    for now in (None, *([] if updated is None else [updated + 1, updated + 7])):
        alive = model.alive(now if now is not None else updated or 0)
        assert ids(archive.scan(now=now)) == sorted(each.id for each in alive)
        for key in keys:
            assert ids(archive.probe([key], now=now)) == sorted(each.id for each in alive if each.key == key)
        several = sorted(each.id for each in alive if each.key in (1, 3))
        assert ids(archive.probe([3, None, 1, 1, 99], now=now)) == several
        for low, high in ((1, 3), (2, 2), (None, 1), (2, None), (3, 1), (None, None)):
            inside = [
                each.id
                for each in alive
                if each.key is not None and (low is None or low <= each.key) and (high is None or each.key <= high)
            ]
            assert ids(archive.probe_between(low, high, now=now)) == sorted(inside)


def assert_same_briefly(archive: Archive, model: Model) -> None:
    alive = model.alive(model.updated or 0)
    assert archive.facts().updated == model.updated
    assert ids(archive.scan()) == sorted(each.id for each in alive)
    assert ids(archive.probe([0, 2])) == sorted(each.id for each in alive if each.key in (0, 2))


@st.composite
def batches(draw: st.DrawFn, most: int = 5) -> list[tuple[int, list[Record]]]:
    """Updates: how many intervals each comes after the one before, and the records that it brings."""
    now, number, made = 100, 0, []
    for _ in range(draw(st.integers(1, most))):
        now += EVERY * draw(st.sampled_from([1, 1, 1, 2, 5]))
        records = []
        for _ in range(draw(st.integers(0, 8))):
            inserted = now - draw(st.integers(0, LIFETIME))
            expires = inserted + draw(st.integers(1, LIFETIME))
            records.append(Record(number, draw(st.sampled_from([0, 1, 2, 3, None])), inserted, expires))
            number += 1
        made.append((now, records))
    return made


def described(value: Any) -> str:
    return "-".join(str(each) for each in value)
