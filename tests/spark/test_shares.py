"""Which buckets are divided, and what tasks that makes."""

from __future__ import annotations

from dataclasses import replace

from sash.changes import Bucket
from sash.changes.operator import Share
from sash.spark.buckets import Shares
from tests.spark.test_exchange import JOB


def divided(results: list[int], cores: int, least: int = 0) -> dict[int, int]:
    shares = Shares([(len(results), True)], cores, least)
    assert shares.now() == {}
    shares.saw(enumerate(results))
    return shares.now()


def test_equal_buckets_are_not_divided() -> None:
    assert divided([0, 0], 2) == divided([500, 500], 2) == divided([900, 700, 800, 1_000], 4) == {}


def test_a_bucket_gets_as_many_shares_as_it_has_parts_of_the_work() -> None:
    assert divided([990, 10], 2) == {0: 2}
    assert divided([10, 10, 990, 10], 4) == {2: 4}
    assert divided([250, 0, 500, 250], 4) == {2: 2}
    assert divided([10, 500, 490, 0], 4) == {1: 2, 2: 2}


def test_a_single_bucket_is_divided_among_all_cores() -> None:
    assert divided([1_000], 4) == {0: 4}
    assert divided([1_000], 1) == {}


def test_few_results_are_not_divided() -> None:
    assert divided([99_000, 10], 2, least=100_000) == {}
    assert divided([101_000, 10], 2, least=100_000) == {0: 2}


def test_results_of_shares_add_up() -> None:
    shares = Shares([(2, True)], 2, least=0)
    shares.saw([(0, 400), (0, 400), (1, 800)])
    assert shares.now() == {}


def test_what_was_hot_fades() -> None:
    shares = Shares([(2, True)], 2, least=100)
    shares.saw([(0, 500), (1, 0)])
    for _ in range(2):
        shares.saw([(0, 0), (1, 0)])
        assert shares.now() == {0: 2}
    shares.saw([(0, 0), (1, 0)])
    assert shares.now() == {}
    shares.saw([(0, 500), (1, 0)])
    shares.saw([(0, 500), (1, 500)])
    assert shares.now() == {}


def test_buckets_of_all_stages_are_numbered_through() -> None:
    shares = Shares([(2, True), (2, False), (2, True)], 2, least=0)
    shares.saw([(0, 0), (1, 9), (2, 9), (3, 0), (4, 9), (5, 0)])
    assert shares.now() == {1: 2, 4: 2}


def test_the_tasks_of_divided_buckets() -> None:
    """The job has stages of three and of two buckets."""
    job = replace(JOB, shares={1: 2, 4: 3})
    whole = Share()
    first = [(0, whole), (1, Share(0, 2)), (1, Share(1, 2)), (2, whole)]
    second = [(0, whole), *((1, Share(number, 3)) for number in range(3))]
    assert job.tasks(0) == [(Bucket(bucket, 3), share) for bucket, share in first]
    assert job.tasks(1) == [(Bucket(bucket, 2), share) for bucket, share in second]
    assert JOB.tasks(1) == [(Bucket(0, 2), whole), (Bucket(1, 2), whole)]
