"""A job in one process, with windows that go to every bucket."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sash.changes import bucket_state
from sash.changes.hashing import buckets_of
from sash.changes.stage import ALL, numbers_of_buckets
from sash.core.window import TimeWindow
from sash.plan.continuous import Join, windows
from sash.plan.rewrites import fuse_joins
from sash.plan.stages import EVERYWHERE, stages
from sash.spark.leaves import LeafLayout
from sash.spark.steps import BUCKET, Job, PlanEpoch
from tests.support.plans import INT, window

S, T, U = (window(name, TimeWindow(50)) for name in "STU")
CHAIN = fuse_joins(Join(Join(S, T, (("S.a", "T.a"),)), U, (("T.b", "U.b"),)))


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_copied_tuples_are_late_once_and_stored_everywhere(buckets: int, tmp_path: Path) -> None:
    (stage,) = stages(CHAIN)
    copied = [place for place, target in stage.windows.items() if target is EVERYWHERE]
    assert len(copied) == 1
    # Two tuples of every window, one with either value, and a late one.
    rows = [(leaf, ts, value) for leaf in range(3) for ts, value in ((12, 0), (14, 1), (3, 0))]
    leaves, ts, values = (pa.array([row[i] for row in rows], INT) for i in range(3))
    targets = buckets_of(pa.chunked_array([values]), buckets).tolist()
    if buckets > 1:
        targets = [ALL if leaf in copied else target for (leaf, *_), target in zip(rows, targets, strict=True)]
    columns = {"_leaf": leaves, "_t": ts, "_arrival": pa.array(range(len(rows)), INT), BUCKET: pa.array(targets, INT)}
    table = pa.table({**columns, "s0": values, "s1": values})
    layout = LeafLayout.of([each.schema.types for each in windows(CHAIN)])
    job = Job(
        CHAIN, (stage,), numbers_of_buckets((stage,), buckets), layout, str(tmp_path),
        PlanEpoch(1, 10, 20, (10, 10, 10)), {}, {}, False, "upa", None,
    )  # fmt: skip
    changes, reports = job.run(table)
    assert sorted(changes.rows["S.a"].to_pylist()) == [0, 1] and changes.ts.tolist() == [12, 14]
    assert [sum(each) for each in zip(*(report["late"] for report in reports), strict=True)] == [1, 1, 1]
    assert len(reports) == buckets
    stored = [bucket_state.load(tmp_path, report["bucket"], report["manifest"]) for report in reports]
    live = [[sum(map(len, state.chunks(f"{place}.live"))) for state in stored] for place in range(3)]
    assert [sum(each) for each in live] == [2 * buckets if place in copied else 2 for place in range(3)]
