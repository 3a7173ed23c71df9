"""Directories of plans have the names, and groups of joins the signatures, that an earlier version gave them.

Both are hashes of the repr of plans. A new name of a plan class, or of a field, changes them, and then Sash finds no
earlier checkpoint (test_restart.py goes on with such a checkpoint, and needs Spark for it).
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sash.catalog import Catalog, RegisteredQuery, Route
from sash.plan.estimates import Statistics
from sash.runtime.compiler import as_select
from sash.runtime.continuous.join_runtime import GroupPlace
from sash.runtime.continuous.plans import KINDS
from sash.runtime.records.catalog_history import CatalogHistory, stream_of, table_of
from sash.runtime.records.journal import GroupMember
from sash.runtime.route import route_plan
from sash.sql import bind, plan_changes
from sash.storage.files import unsealed
from tests.support.checkpoints import CHECKPOINTS, FORMAT, SNAPSHOTS


@pytest.fixture(scope="module", params=SNAPSHOTS)
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packed")
    with tarfile.open(CHECKPOINTS / f"format-{FORMAT}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory / str(request.param) / "state"


@pytest.fixture(scope="module")
def catalog(checkpoint: Path) -> Catalog:
    found = Catalog()
    for line in (checkpoint / "catalog.jsonl").read_text().splitlines():
        change = unsealed(line)
        if change["change"] == "create stream":
            found.add_stream(stream_of(change))
        elif change["change"] == "create table":
            found.add_table(table_of(change))
    return found


def continuous(checkpoint: Path) -> list[RegisteredQuery]:
    queries = CatalogHistory(checkpoint / "catalog.jsonl").queries().values()
    return [query for query in queries if query.is_continuous]


def test_the_name_of_a_plan(checkpoint: Path, catalog: Catalog) -> None:
    queries = continuous(checkpoint)
    # Nested joins came later; there they are plans of their own.
    assert {query.route for query in queries} == set(KINDS) - {Route.NESTED_JOINS}
    for query in queries:
        written = plan_changes(bind(as_select(query.text), catalog))
        made = KINDS[query.route].of(route_plan(written), Statistics.of(query.measurements), query.execution)
        assert query.state.startswith(f"{made.digest}-") or query.state == made.digest, query.name


def test_the_signature_of_a_group(checkpoint: Path, catalog: Catalog) -> None:
    groups = list((checkpoint / "plans").glob("*/group.json"))
    assert len(groups) == 2
    place = GroupPlace(cast(Any, SimpleNamespace(shared=SimpleNamespace(catalog=catalog))), "")
    for path in groups:
        facts = unsealed(path.read_text())
        founders = [GroupMember(*founder) for founder in facts["founders"]]
        assert place.layout_of(founders).signature == facts["layout"]


def test_the_name_of_nested_joins(catalog: Catalog) -> None:
    """Whatever the lengths of the windows."""
    for first, second in ((2, 1), (9, 9)):
        text = f"SELECT s.v, t.v AS w FROM s [RANGE {first} sec], t [RANGE {second} sec] WHERE s.k = t.k AND s.v < t.v"
        written = plan_changes(bind(as_select(text), catalog))
        made = KINDS[Route.NESTED_JOINS].of(route_plan(written), Statistics(), "upa")
        assert made.digest == "nested-916b772978e08f26a3caeb72"
