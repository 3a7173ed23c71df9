"""Profiles of property tests, processes of tests, and the Spark session of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import workers
from tests.support.examples import load_profile

load_profile()
# For JVMs that live minutes: the optimising compiler would take half of their processor time and give it back later.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC")
NO_JAVA = workers.why_no_java()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return workers.number_of_workers(config)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return workers.SparkBesideOthers(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    if NO_JAVA and item.get_closest_marker("spark"):
        item.add_marker(pytest.mark.skip(reason=NO_JAVA))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Sash's own local Spark session, kept while the process lasts."""
    from sash.spark.spark_session import acquire_own_session, release_own_session

    yield acquire_own_session()
    release_own_session()
