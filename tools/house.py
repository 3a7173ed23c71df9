"""Counts what makes the house large or hard to search: `python tools/house.py [CHECKOUT]`.

The ways through the code are not counted here: they need a run.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# Methods of named tuples, of Python itself and of IPython's protocol, which are public for all their underscores.
_PUBLIC = {"_asdict", "_replace", "_fields", "_make", "_exit", "_repr_html_"}


def modules(root: Path, under: str) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted((root / under).rglob("*.py"))}


def shared_classes(trees: dict[Path, ast.Module]) -> list[str]:
    """Names of public classes that occur more than once."""
    defined = (node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    return repeated(name for name in defined if not name.startswith("_"))


def shared_modules(trees: dict[Path, ast.Module]) -> list[str]:
    return repeated(path.stem for path in trees if path.stem != "__init__")


def repeated(names: Iterator[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def private_uses(tree: ast.Module) -> set[str]:
    """Private names of others that a module reads, patches or imports."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sash"):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            texts = (each.value for each in node.args[:2] if isinstance(each, ast.Constant))
            found |= {text.rpartition(".")[2] for text in texts if isinstance(text, str)}
    return {name for name in found if name.startswith("_") and not name.startswith("__")} - _PUBLIC


def _is_own(value: ast.expr) -> bool:
    """Private names of the test's own objects, and those of the JVM."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
        return True
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "os", "sys", "java")


def words(root: Path) -> int:
    """Of README and docs, without the generated reference."""
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    return sum(len(page.read_text().split()) for page in pages if "reference" not in page.relative_to(root).parts)


def figures(root: Path) -> dict[str, int]:
    source, tests = modules(root, "src/sash"), modules(root, "tests")
    touching = [path for path, tree in tests.items() if private_uses(tree)]
    return {
        "lines in src/sash": sum(len(path.read_text().splitlines()) for path in source),
        "files in src/sash": len(source),
        "public classes that share a name": len(shared_classes(source)),
        "modules that share a name": len(shared_modules(source)),
        "test files that touch private names": len(touching),
        "words in README and docs": words(root),
    }


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, number in figures(root).items():
        print(f"{name:36} {number:7,}")
    source = modules(root, "src/sash")
    print(f"classes: {', '.join(shared_classes(source))}")
    print(f"modules: {', '.join(shared_modules(source))}")
    for path, tree in modules(root, "tests").items():
        if uses := private_uses(tree):
            print(f"{path.relative_to(root)}: {', '.join(sorted(uses))}")


if __name__ == "__main__":
    main()
