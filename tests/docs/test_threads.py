"""The list of threads in docs/architecture/README.md has the threads that the code starts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture" / "README.md").read_text(encoding="utf-8")
# A watch hands its name to its base class, which starts the thread.
STARTS = {"Thread", "ThreadPoolExecutor", "__init__"}


def named_threads(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in STARTS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            # The part of an f-string before the first brace.
            texts = [each.values[0] if isinstance(each, ast.JoinedStr) else each for each in given]
            values = [each.value for each in texts if isinstance(each, ast.Constant)]
            yield from (value.rstrip("-") for value in values if isinstance(value, str) and value.startswith("sash-"))


def test_the_page_lists_every_thread() -> None:
    modules = (ROOT / "src").rglob("*.py")
    started = {name for path in modules for name in named_threads(ast.parse(path.read_text(encoding="utf-8")))}
    _, _, section = PAGE.partition("## Threads and locks\n")
    assert len(started) > 10 and set(re.findall(r"`(sash-[a-z]+)", section)) == started


def test_every_thread_has_a_name() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "threading.Thread":
                assert any(keyword.arg == "name" for keyword in node.keywords), f"{path}:{node.lineno}"
