"""`import sash`: what Spark's workers pay for it, and what it offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sash


def test_a_worker_that_imports_sash_loads_no_session() -> None:
    code = "import sys, sash; print([name for name in ('pyspark', 'pyarrow', 'sash.engine') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_name_is_there_when_it_is_asked_for() -> None:
    assert all(getattr(sash, name) is not None for name in sash.__all__) and {*sash.__all__} <= {*dir(sash)}
    with pytest.raises(AttributeError, match="module 'sash' has no attribute 'conect'"):
        sash.conect  # type: ignore[attr-defined]  # noqa: B018
