"""The output of the command line: results to stdout, everything about them to stderr."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import typer
from rich.console import Console
from rich.text import Text

from sash.core.errors import SashError

DONE, INPUT_ERROR, INTERRUPTED = 0, 1, 130


def stdout_console() -> Console:
    """The console for results. In a pipe nothing is wrapped or cut: the next program needs everything."""
    wide = None if sys.stdout.isatty() else 10_000
    return Console(width=wide, highlight=False, markup=False, emoji=False)


def stderr_console(quiet: bool = False) -> Console:
    """Messages and progress."""
    return Console(file=_own_stderr(), highlight=False, markup=False, emoji=False, quiet=quiet, soft_wrap=True)


def _own_stderr() -> TextIO:
    """The terminal behind stderr, also while file descriptor 2 is lent to the JVM (see `opening`)."""
    try:
        descriptor = sys.stderr.fileno()
    except OSError:
        return sys.stderr
    return os.fdopen(os.dup(descriptor), "w", buffering=1, encoding=sys.stderr.encoding, errors="replace")


def print_error(console: Console, message: str, where: str | None = None) -> None:
    place = f"{where}: " if where else ""
    console.print(Text.assemble(("error: ", "bold red"), f"{place}{message}"))


@contextmanager
def reporting_errors(where: str | None = None) -> Iterator[None]:
    """Report a mistake in the user's input as one message and exit code 1, never as a traceback."""
    try:
        yield
    except SashError as error:
        print_error(stderr_console(), str(error), where)
        raise typer.Exit(INPUT_ERROR) from None
    except KeyboardInterrupt:
        print_error(stderr_console(), "interrupted")
        raise typer.Exit(INTERRUPTED) from None


class _LineHandler(logging.Handler):
    def __init__(self, show: Callable[[Text], object]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        style = "yellow" if record.levelno < logging.ERROR else "bold red"
        self._show(Text.assemble((f"{record.levelname.lower()}: ", style), record.getMessage()))


@contextmanager
def logging_to(show: Callable[[Text], object]) -> Iterator[None]:
    """Show Sash's warnings as lines for the user; hide other libraries' logs."""
    ours, root = logging.getLogger("sash"), logging.getLogger()
    lines, nowhere = _LineHandler(show), logging.NullHandler()
    logging.captureWarnings(True)
    ours.addHandler(lines)
    root.addHandler(nowhere)
    try:
        yield
    finally:
        root.removeHandler(nowhere)
        ours.removeHandler(lines)
        logging.captureWarnings(False)
