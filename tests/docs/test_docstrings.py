"""The examples in the docstrings of the package and of papers/ give what they show."""

from __future__ import annotations

import doctest
import importlib
import re
from functools import cached_property
from pathlib import Path
from types import ModuleType

import pytest

import papers
import sash

PACKAGES = (Path(sash.__file__).parent, Path(papers.__file__).parent)


def module_of(package: Path, path: Path) -> str:
    return ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = [
    module_of(package, path)
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
    if re.search(r">>> (?!.*doctest: \+SKIP)", path.read_text())
]


class Finder(doctest.DocTestFinder):
    """Finds the examples of cached properties as well."""

    def _from_module(self, module: ModuleType | None, object: object) -> bool:
        found = object.func if isinstance(object, cached_property) else object
        return super()._from_module(module, found)  # type: ignore[misc]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for found in Finder(exclude_empty=True).find(importlib.import_module(name), name):
        runner.run(found)
    assert runner.tries and not runner.failures
