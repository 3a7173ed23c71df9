"""Every step that changes the disk has its moments: there is no call that goes past `around` (core/faults.py).

And no new directory is forgotten: `make_directory` (storage/files.py) syncs the one above it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sash

SOURCES = Path(sash.__file__).parent
# These write logs and what users asked for, never a checkpoint or an archive.
OTHERS = {"cli", "server"}
STEPS = {
    *("os.fsync", "os.replace", "os.rename", "os.truncate", "os.ftruncate", "os.remove", "os.unlink", "os.rmdir"),
    "shutil.rmtree",
}
METHODS = {"unlink", "rmdir", "mkdir"}


def unnamed(tree: ast.AST, inside: bool = False) -> Iterator[ast.Call]:
    """Calls that change the disk outside of `with around(..)`."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.With) and any(_is_around(item.context_expr) for item in node.items)
        if isinstance(node, ast.Call) and not inside and _is_step(node.func):
            yield node
        yield from unnamed(node, inside or named)


def _is_around(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Call) and ast.unparse(expression.func) == "around"


def _is_step(called: ast.expr) -> bool:
    return ast.unparse(called) in STEPS or (isinstance(called, ast.Attribute) and called.attr in METHODS)


def test_a_step_without_its_moment_is_found() -> None:
    text = (
        "with around('sync', path):\n    os.fsync(file)\nos.replace(draft, path)\nfor path in paths:\n    path.unlink()"
    )
    assert [call.lineno for call in unnamed(ast.parse(text))] == [3, 5]


def test_every_step_has_its_moments() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{call.lineno} {ast.unparse(call)}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.relative_to(SOURCES).parts[0] not in OTHERS
        for call in unnamed(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "use the helpers of storage/files.py, or `with around(..)`"
