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
    name: Annotated[str | None, typer.Argument(help="Which benchmark; without it they are listed.")] = None,
) -> None:
    """Run a benchmark, or list them.

    What follows NAME is passed on: sash bench multi_query --queries 240.
    Benchmarks are part of the source checkout only.
    """
    with reporting_errors():
        directory = benchmarks_directory()
        known = benchmarks(directory)
        if name is None:
            _list(known)
            return
        chosen = name.removeprefix(_PREFIX).replace("-", "_")
        if chosen not in known:
            print_error(stderr_console(), f"no benchmark '{name}'{nearest(chosen, known)}")
            raise typer.Exit(USAGE_ERROR)
        command = [sys.executable, "-m", f"{directory.name}.{_PREFIX}{chosen}", *context.args]
        raise typer.Exit(subprocess.run(command, cwd=directory.parent, check=False).returncode)


def benchmarks_directory() -> Path:
    """`benchmarks/` of the checkout that this package comes from, or of the current directory."""
    assert sash.__file__ is not None
    for root in (Path(sash.__file__).parents[2], Path.cwd()):
        directory = root / "benchmarks"
        if directory.is_dir():
            return directory
    raise SashError("there is no directory benchmarks/ here: benchmarks come with the source checkout, not the package")


def benchmarks(directory: Path) -> dict[str, str]:
    """Names and the first lines of their descriptions."""
    return {path.stem.removeprefix(_PREFIX): _first_line(path) for path in sorted(directory.glob(f"{_PREFIX}*.py"))}


def _first_line(path: Path) -> str:
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except SyntaxError:
        return "(cannot be parsed)"
    return text.split("\n", 1)[0]


def _list(known: dict[str, str]) -> None:
    console = stdout_console()
    if not known:
        console.print("There are no benchmarks yet.")
        return
    table = Table.grid(padding=(0, 2))
    for name, what in known.items():
        table.add_row(name, what)
    console.print(table)
    console.print("\nsash bench NAME [OPTIONS] runs one; sash bench NAME -- --help tells its options.")
