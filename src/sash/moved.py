"""Modules that programs may import and that have moved: the old paths work until the next version, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

MOVED = {
    "sash.language": "sash.sql",
    "sash.scheduling": "sash.schedule",
    "sash.storage.archive": "sash.archive",
    "sash.storage.window": "sash.rows",
    "sash.transactions": "sash.isolation",
}


class MovedModules(MetaPathFinder, Loader):
    """Gives the new module for an old path. Must come before Python's own finders, which would load a module twice."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if _new_path(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = _new_path(spec.name)
        warnings.warn(f"{spec.name} is {new} now; the old path goes with the next version", FutureWarning, stacklevel=2)
        module = import_module(new)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The new module has run already. Python has put the old path into it, which this takes back."""
        spec = module.__spec__
        if spec is not None:
            module.__spec__ = spec.loader_state


def _new_path(path: str) -> str:
    """The new path of a module, or of one inside of it; empty if it has not moved."""
    return next((new + path[len(old) :] for old, new in MOVED.items() if f"{path}.".startswith(f"{old}.")), "")
