"""What docs/connectors.md says about the packages of a connector."""

from __future__ import annotations

from pathlib import Path

import pytest

from sash.spark.kafka import CONNECTOR
from tests.support.kafka import CONNECTORS

PAGE = (Path(__file__).parents[2] / "docs" / "connectors.md").read_text()


def test_it_names_the_extra() -> None:
    assert "`sash[kafka]`" in PAGE


@pytest.mark.parametrize("coordinates", [CONNECTOR, *CONNECTORS[0]])
def test_it_has_the_coordinates_of_all_that_kafka_needs(coordinates: str) -> None:
    package, _, _ = coordinates.rpartition(":")
    assert f"| `{package}` |" in PAGE
