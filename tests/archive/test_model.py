"""Any archive, whatever its layout and strategy, against the definition: random records, updates, probes and scans."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.archive import Archive
from tests.archive.model import KINDS, Kind, Model, Record, assert_same, batches, described, make, table
from tests.support.examples import examples


@pytest.mark.parametrize("kind", KINDS, ids=described)
@given(updates=batches(), reopen=st.booleans())
@settings(max_examples=examples(12))
def test_an_archive_is_what_its_records_are(kind: Kind, updates: list[tuple[int, list[Record]]], reopen: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        archive, model = make(Path(directory), kind), Model()
        layout = archive.spec.partitions
        for now, records in updates:
            since = model.updated if model.updated is not None else now - layout.lifetime - layout.every
            done = archive.update(table(records), now)
            model.update(records, now)
            assert done.rows == sum(each.expires > now for each in records) == len(records) - done.expired
            late = any(each.inserted <= since for each in records)
            assert late or set(done.sub_indices) <= set(layout.touched(since, now))
            if reopen:
                archive.close()
                archive = Archive.open(directory, write=True)
            assert_same(archive, model)
        with Archive.open(directory) as reader:
            assert_same(reader, model)
        assert_no_file_is_forgotten(archive)
        archive.close()


@given(updates=batches(3), kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=4))
@settings(max_examples=examples(25))
def test_a_migrated_archive_has_the_same_records(updates: list[tuple[int, list[Record]]], kinds: list[Kind]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        archive, model = make(Path(directory), kinds[0]), Model()
        for number, (now, records) in enumerate(updates):
            archive.update(table(records), now)
            model.update(records, now)
            layout, g, e, strategy = kinds[(number + 1) % len(kinds)]
            archive.migrate(g, e, layout=layout, strategy=strategy)
            spec = archive.spec
            assert (spec.layout, spec.g, spec.e, spec.strategy) == (layout, g, e, strategy)
            assert_same(archive, model)
        assert_no_file_is_forgotten(archive)
        archive.close()


def assert_no_file_is_forgotten(archive: Archive) -> None:
    """On disk there are the files of the state and those that the last change replaced, and no others."""
    with archive.hold() as state:
        named = {*(file.name for file in state.manifest.files), *state.manifest.retired}
    assert {path.name for path in (archive.directory / "data").iterdir()} == named
