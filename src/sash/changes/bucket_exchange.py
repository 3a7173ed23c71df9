"""Changes between two stages: each goes to the bucket of its row's key in the stage above.

    stage 1  bucket 0 ──┬──────► bucket 0  stage 2
                        └──╲ ╱
                            ╳
                        ┌──╱ ╲
             bucket 1 ──┴──────► bucket 1

All that a bucket gets of one instant is in the order of the buckets that it came from, and within each as it came out:
the same on every run, whoever finishes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sash.changes.deltas import net
from sash.changes.hashing import buckets_of
from sash.changes.stage import Bucket
from sash.core.changes import Changes, together
from sash.plan.stages import EVERYWHERE, StagePlan, Target

# The number that stands for all buckets.
ALL = -1
# Runs one bucket of a stage, which gets the changes of the stages below by their paths.
StepOfBucket = Callable[[int, Bucket, Mapping[str, Changes]], Changes]


def numbers_of_buckets(plan: Sequence[StagePlan], most: int) -> tuple[int, ...]:
    """How many buckets each stage has, if a stage that may be spread has `most`."""
    return tuple(most if stage.spread else 1 for stage in plan)


def run_stages(plan: Sequence[StagePlan], buckets: Sequence[int], step: StepOfBucket) -> Changes:
    """An epoch of all stages, one after the other, here: the changes of the answer."""
    arrived: dict[str, list[Mapping[str, Changes]]] = {}
    found: list[Changes] = []
    above = consumers(plan)
    for place, (stage, number) in enumerate(zip(plan, buckets, strict=True)):
        given = arrived.pop(stage.path, [{}] * number)
        found = [step(place, Bucket(bucket, number), given[bucket]) for bucket in range(number)]
        if stage.path:
            upper = above[stage.path]
            shares = exchanged(found, plan[upper].lower[stage.path], buckets[upper])
            before = arrived.get(plan[upper].path, [{}] * buckets[upper])
            arrived[plan[upper].path] = [
                {**others, stage.path: mine} for others, mine in zip(before, shares, strict=True)
            ]
    return answer(together(found), len(found))


def consumers(plan: Sequence[StagePlan]) -> dict[str, int]:
    """For the path of each stage but the last, the place of the stage that takes its changes."""
    return {path: place for place, stage in enumerate(plan) for path in stage.lower}


def exchanged(parts: Sequence[Changes], target: Target, buckets: int) -> list[Changes]:
    """The changes of all buckets of a stage, as the buckets of the next one get them."""
    targets = [targets_of(part, target, buckets) for part in parts]
    return [
        together(part.where(goes_to(bucket, own)) for part, own in zip(parts, targets, strict=True))
        for bucket in range(buckets)
    ]


def goes_to(bucket: int, targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """What a bucket gets of something with these targets."""
    return (targets == bucket) | (targets == ALL)


def targets_of(changes: Changes, target: Target, buckets: int) -> NDArray[np.int64]:
    """The bucket that each change goes to, or `ALL`."""
    if isinstance(target, str):
        return buckets_of(changes.rows[target], buckets)
    return np.full(len(changes), ALL if target is EVERYWHERE and buckets > 1 else 0, dtype=np.int64)


def answer(found: Changes, buckets: int) -> Changes:
    """The changes of the answer from those of its buckets: what one takes back and another gives has not changed."""
    return net(found) if buckets > 1 else found
