"""A program's own aggregates run its Python functions: only the program calls them, never a text from a request."""

from __future__ import annotations

from sash.core.errors import SashError
from sash.runtime.session import Session
from sash.sql import RegisterQuery, SelectStatement, parse


def refuse_python(session: Session, text: str) -> None:
    statement = parse(text)
    called = statement.select.calls if isinstance(statement, SelectStatement | RegisterQuery) else set[str]()
    for name in sorted(called & session.catalog.aggregates.keys()):
        raise SashError(
            f"the aggregate '{name}' runs Python functions of the program, which a request cannot: "
            "register the query in the program"
        )
