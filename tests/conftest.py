"""One Spark session for the whole test run; everything else runs without a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("sash", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("torture", parent=settings.get_profile("sash"), max_examples=1_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sash"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Sash's own local Spark session, kept for the whole run."""
    from sash.spark.session import acquire_local_session, release_local_session

    yield acquire_local_session()
    release_local_session()
