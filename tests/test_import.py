"""`import sash`: its cost for Spark's workers, and its public names."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sash
from sash.moved import MOVED


def test_a_worker_that_imports_sash_loads_no_session() -> None:
    code = "import sys, sash; print([name for name in ('pyspark', 'pyarrow', 'sash.runtime') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_name_is_there_when_it_is_asked_for() -> None:
    assert all(getattr(sash, name) is not None for name in sash.__all__) and {*sash.__all__} <= {*dir(sash)}
    with pytest.raises(AttributeError, match="module 'sash' has no attribute 'conect'"):
        sash.conect  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *MOVED.items(),
        ("sash.scheduling.simulate", "sash.schedule.simulate"),
        ("sash.language.expressions.functions", "sash.sql.expressions.functions"),
    ],
)
def test_a_module_that_moved_is_found_by_its_old_path(old: str, new: str) -> None:
    code = f"""
import importlib, warnings
new = importlib.import_module("{new}")
path = new.__spec__.name
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    old = importlib.import_module("{old}")
print(old is new, path == new.__spec__.name, *(each.message for each in told if "{old} " in str(each.message)))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"True True {old} is {new} now; the old path goes with the next version\n"
