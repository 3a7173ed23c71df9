"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from sash.engine.settings import PREDICATE_SHARING
from sash.scheduling import POLICIES

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
