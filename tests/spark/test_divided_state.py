"""The state of a bucket that is divided in some epochs and not in others, in its files: nothing is lost in between."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.changes import bucket_state
from sash.changes.bucket_state import Manifest
from sash.changes.operator import Share
from sash.core.window import TimeWindow
from sash.plan.continuous import Filter, Join, Node, windows
from sash.plan.outputs import Outliving, Sampled, Stamped
from sash.plan.stages import stages
from sash.spark.leaves import LeafLayout
from sash.spark.steps import BUCKET, Job, PlanEpoch, manifests_of
from tests.changes.test_plans_oracle import END
from tests.changes.test_plans_oracle import run as run_undivided
from tests.support.examples import examples
from tests.support.plans import INT, dense_tuples, less, tuples, window
from tests.support.relational import Inputs, listed

S, T = window("S", TimeWindow(6)), window("T", TimeWindow(4))
JOINED = Filter(Join(S, T, (("S.a", "T.a"),)), less("T.b", 3))
PLANS: dict[str, Node] = {
    "slide": Sampled(JOINED, 5, 1),
    "short_lived": Sampled(JOINED, 7, restore=True),
    "results": Outliving(Join(Stamped(S, "one"), Stamped(T, "other"), (("S.a", "T.a"),))),
}


def arrived(inputs: Inputs, low: int, high: int) -> pa.Table:
    """The tuples of an epoch as `leaves` has them, all in one bucket."""
    found = [(leaf, ts, *row) for leaf, each in enumerate(inputs) for ts, row in each if low <= ts < high]
    types = {"_leaf": pa.int32(), "_t": INT, "s0": INT, "s1": INT}
    columns = {name: pa.array([row[i] for row in found], type) for i, (name, type) in enumerate(types.items())}
    number = np.arange(len(found))
    return pa.table({**columns, "_arrival": pa.array(number), BUCKET: pa.array(number * 0, pa.int32())})


def job_of(plan: Node, directory: str, epoch: PlanEpoch, manifests: dict[int, Manifest], of: int) -> Job:
    layout = LeafLayout.of([each.schema.types for each in windows(plan)])
    return Job(plan, stages(plan), (1,), layout, directory, epoch, manifests, {}, False, "upa", None, {0: of})


@pytest.mark.parametrize("name", PLANS)
@given(st.data())
@settings(max_examples=examples(25), deadline=None)
def test_whoever_has_added_what_is_stored(name: str, data: st.DataObject) -> None:
    plan, found, low = PLANS[name], list[Any](), 0
    inputs = [data.draw(st.one_of(dense_tuples, tuples), label=each.alias) for each in windows(plan)]
    manifests: dict[int, Manifest] = {}
    with tempfile.TemporaryDirectory() as directory:
        for number, high in enumerate([*sorted(set(data.draw(st.lists(st.integers(1, END - 1), max_size=6)))), END]):
            of = data.draw(st.integers(1, 4), label="shares")
            if data.draw(st.booleans(), label="another process"):
                bucket_state.forget(Path(directory))
            job = job_of(plan, directory, PlanEpoch(number, low, high, (0, 0)), manifests, of)
            assert [share.of for _, share in job.tasks(0)] == [of] * of
            reports = []
            for bucket, share in reversed(job.tasks(0)):
                changes, report = job.step(job.stage(0), 0, bucket, arrived(inputs, low, high), {}, share)
                found += listed(changes)
                reports.append(json.loads(json.dumps(report)))
            manifests, low = manifests_of(reports), high
            named = bucket_state.files_of(manifests[0])
            assert all((Path(directory) / each).exists() for each in named)
        bucket_state.forget(Path(directory))
    assert Counter(found) == Counter(run_undivided(plan, inputs, []))


def test_a_lost_task_of_another_attempt_writes_over_nothing() -> None:
    """An epoch that is tried again may be divided in another way, and tasks of the first attempt may still run."""
    plan, inputs = PLANS["slide"], [[(2, (1, number)) for number in range(3)]] * 2
    with tempfile.TemporaryDirectory() as directory:
        written: dict[int, set[str]] = {}
        for of in (1, 2, 3):
            job = job_of(plan, directory, PlanEpoch(0, 0, 4, (0, 0)), {}, of)
            steps = [job.step(job.stage(0), 0, *_task(of, n, job, inputs)) for n in range(of)]
            written[of] = bucket_state.files_of(manifests_of([report for _, report in steps])[0])
        bucket_state.forget(Path(directory))
    assert all(written.values())
    assert not written[1] & written[2] and not written[2] & written[3] and not written[1] & written[3]


def _task(of: int, number: int, job: Job, inputs: Inputs) -> tuple[Any, ...]:
    bucket, share = job.tasks(0)[number]
    assert share == Share(number, of)
    return bucket, arrived(inputs, 0, 4), {}, share
