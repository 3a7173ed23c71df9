"""What the house is counted by."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.house import figures, modules, private_uses, shared_classes, shared_modules


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_the_figures_of_a_small_house(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "src/sash/a/__init__.py": "",
            "src/sash/a/view.py": "class View:\n    pass\n\nclass _Own:\n    pass\n",
            "src/sash/b/__init__.py": "",
            "src/sash/b/view.py": "class View:\n    pass\n\nclass _Own:\n    pass\n",
            "src/sash/b/other.py": "class Other:\n    pass\n",
            "tests/test_a.py": "assert a._hidden\n",
            "tests/test_b.py": "assert a.shown and self._own\n",
            "README.md": "two words\n",
            "docs/page.md": "three words more\n",
            "docs/reference/made.md": "not counted\n",
        },
    )
    assert list(figures(tmp_path).values()) == [12, 5, 1, 1, 1, 5]
    trees = modules(tmp_path, "src/sash")
    assert shared_classes(trees) == ["View"] and shared_modules(trees) == ["view"]


def test_private_names_are_read_patched_or_imported() -> None:
    text = """
from sash.core.time import _secret
patch.setattr(engine, "_patched", 1)
patch.setattr("sash.core.time._by_path", 1)
engine._read
self._own
row._asdict()
engine.__class__
"""
    assert private_uses(ast.parse(text)) == {"_secret", "_patched", "_by_path", "_read"}
