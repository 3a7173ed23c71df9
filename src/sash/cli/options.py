"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from sash.core.time import parse_duration
from sash.engine.settings import PREDICATE_SHARING
from sash.scheduling import POLICIES


def interval(text: str) -> str:
    """A trigger interval as Spark spells it."""
    try:
        return f"{max(parse_duration(text), 0) // 1000} milliseconds"
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Script = Annotated[str, typer.Argument(help="A file of statements, or - for stdin.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Keep state here; the same command continues after a stop or a crash."),
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Drop the queries of the checkpoint that are no longer in the script.")
]
Trigger = Annotated[
    str, typer.Option(metavar="DURATION", help="Live: the time between two micro-batches.", callback=interval)
]
RefreshWhenIdle = Annotated[
    bool, typer.Option("--refresh-when-idle", help="Live: use idle time to answer queries before they are due.")
]
Policy = Annotated[str, typer.Option(metavar="NAME", help=f"When queries run: {', '.join(POLICIES)}.")]
SharePredicates = Annotated[
    str,
    typer.Option(
        metavar="MODE", help=f"Whether a WHERE is answered from those of its terms: {', '.join(PREDICATE_SHARING)}."
    ),
]
Packages = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Connectors that Spark is to fetch, with commas between them: kafka, or Maven coordinates.",
    ),
]
