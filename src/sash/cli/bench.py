"""`sash bench`: list and start the benchmarks of a source checkout."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import sash
from sash.cli.console import print_error, reporting_errors, stderr_console, stdout_console
from sash.core.errors import SashError, nearest

USAGE_ERROR = 2
_PREFIX = "run_"


def bench(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Without a name, all benchmarks are listed.")] = None,
) -> None:
    """Run a benchmark, or list them.

    Arguments behind NAME go to the benchmark: sash bench multi_query --queries 240.
    Only a source checkout has benchmarks.
    """
    with reporting_errors():
        root = checkout()
        known = benchmarks(root)
        if name is None:
            _list(known)
            return
        chosen = name.removeprefix(_PREFIX).replace("-", "_")
        if chosen not in known:
            print_error(stderr_console(), f"no benchmark '{name}'{nearest(chosen, known)}")
            raise typer.Exit(USAGE_ERROR)
        module = ".".join(known[chosen].relative_to(root).with_suffix("").parts)
        command = [sys.executable, "-m", module, *context.args]
        raise typer.Exit(subprocess.run(command, cwd=root, check=False).returncode)


def checkout() -> Path:
    """The checkout that this package comes from, or the current directory: one of them has `benchmarks/`."""
    assert sash.__file__ is not None
    for root in (Path(sash.__file__).parents[2], Path.cwd()):
        if (root / "benchmarks").is_dir():
            return root
    raise SashError("there is no directory benchmarks/ here: benchmarks come with the source checkout, not the package")


def benchmarks(root: Path) -> dict[str, Path]:
    """Names and programs: `benchmarks/run_NAME.py`, and the papers' experiments `papers/NAME/run.py`."""
    found = {path.stem.removeprefix(_PREFIX): path for path in (root / "benchmarks").glob(f"{_PREFIX}*.py")}
    found |= {path.parent.name: path for path in (root / "papers").glob("*/run.py")}
    return dict(sorted(found.items()))


def _first_line(path: Path) -> str:
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except SyntaxError:
        return "(cannot be parsed)"
    return text.split("\n", 1)[0]


def _list(known: dict[str, Path]) -> None:
    console = stdout_console()
    if not known:
        console.print("There are no benchmarks yet.")
        return
    table = Table.grid(padding=(0, 2))
    for name, path in known.items():
        table.add_row(name, _first_line(path))
    console.print(table)
    console.print("\nsash bench NAME [OPTIONS] runs one; sash bench NAME -- --help tells its options.")
