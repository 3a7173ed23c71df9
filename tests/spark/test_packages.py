"""Connectors that Spark does not bring itself: asked for, and missed."""

from __future__ import annotations

from typing import Any

import pytest

import sash
from sash.spark.kafka import connector


@pytest.mark.spark
def test_a_source_without_its_connector_says_where_to_get_it(spark: Any) -> None:
    reason = r"packages=\['kafka'\].*--packages org.apache.spark:spark-sql-kafka-0-10"
    with sash.connect(spark=spark) as session, pytest.raises(sash.SourceError, match=reason):
        session.sql("CREATE STREAM s (ts TIMESTAMP) FROM kafka OPTIONS (subscribe 't') TIMESTAMP ts")


@pytest.mark.spark
def test_only_a_spark_that_starts_takes_packages(spark: Any) -> None:
    with pytest.raises(sash.SashError, match="packages are for the Spark session that Sash starts"):
        sash.connect(spark=spark, packages=["kafka"])
    session = sash.connect(packages=["kafka", "a:b:1"])
    with (
        session,
        pytest.raises(sash.SourceError, match=r"without org.apache.spark:spark-sql-kafka\S+, a:b:1: give packages"),
    ):
        session.spark  # noqa: B018 - starts it


@pytest.mark.parametrize(
    ("spark", "release"),
    [("4.3.0", "4.2.0"), ("4.3.1.dev0", "4.2.0"), ("4.2.0", "4.2.0"), ("4.1.5", "4.1.1"), ("4.0.0", "4.0.0")],
)
def test_the_connector_is_not_newer_than_spark(spark: str, release: str) -> None:
    assert connector(spark).endswith(f":{release}")
