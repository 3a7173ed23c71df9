"""CQL: from text to statements, and from a SELECT to a logical plan.

    text --parse_script--> statements;  Select --bind(catalog)--> plan.nodes.Project

`sqlglot` is known here and nowhere else.
"""

from __future__ import annotations

from sash.language.binder import bind
from sash.language.script import parse, parse_script
from sash.language.statements import (
    CreateStream,
    Describe,
    DropQuery,
    DropStream,
    Explain,
    RegisterQuery,
    Select,
    SelectStatement,
    ShowQueries,
    Statement,
)
from sash.language.windows import has_slide

__all__ = [
    "CreateStream",
    "Describe",
    "DropQuery",
    "DropStream",
    "Explain",
    "RegisterQuery",
    "Select",
    "SelectStatement",
    "ShowQueries",
    "Statement",
    "bind",
    "has_slide",
    "parse",
    "parse_script",
]
