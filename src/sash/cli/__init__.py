"""The command line: `sash run`, `serve`, `explain`, `demo`, `bench`.

Results go to stdout, everything about them to stderr. Exit codes: 0 done, 1 an error in the user's input, 2 usage.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sash.cli.bench import bench
from sash.cli.demo import demo
from sash.cli.explain_command import explain
from sash.cli.opening import leave
from sash.cli.run import run
from sash.cli.serve import serve

app = typer.Typer(
    name="sash",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command()(demo)
app.command()(run)
app.command()(serve)
app.command()(explain)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        import sash

        typer.echo(f"sash {sash.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Hundreds of sliding-window queries over a stream for about the price of one, on Apache Spark."""


def main() -> None:
    try:
        app()
    except SystemExit as end:
        leave(end.code if isinstance(end.code, int) else 0)
