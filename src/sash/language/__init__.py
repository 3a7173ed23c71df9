"""CQL: from text to statements, and from a SELECT to a logical plan.

    text --parse_script--> statements;  Select --bind(catalog)--> plan.nodes.Project
                                        Select --bind_continuous(catalog)--> plan.continuous.Node

    reading/      script, create_*, table_changes, window_clause on a cursor: the grammar of Sash's own
                  limits: how much text there may be
                  parser, dialect: SELECT and expressions, by sqlglot; places: what is remembered in its tree
    expressions/  typer, with names, operators, predicates, forms, calls and aggregates: trees become terms in a scope
                  answers: expressions over answers, in a closed vocabulary
    binding/      binder, with shape, windows, select_list, groups, item_rows, bounds and joins: terms become a plan
    continuous/   the same for plans that are kept up to date with every tuple
    stored/       questions that Spark answers from stored rows

`sqlglot` is known here and nowhere else.
"""

from __future__ import annotations

from sash.language.binding.binder import bind
from sash.language.binding.table_changes import TableChange, bind_change
from sash.language.binding.windows import has_slide, stream_names
from sash.language.continuous.binder import bind_continuous
from sash.language.continuous.slides import is_continuous
from sash.language.reading.create_index import ROW_KINDS, SET_KINDS
from sash.language.reading.limits import SCRIPTS
from sash.language.reading.script import parse, parse_script
from sash.language.reading.statements import (
    AlterArchive,
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    Delete,
    Describe,
    DropArchive,
    DropIndex,
    DropQuery,
    DropStream,
    DropTable,
    Explain,
    Insert,
    Partitioning,
    RegisterQuery,
    Select,
    SelectStatement,
    SetExecution,
    ShowArchives,
    ShowIndexes,
    ShowQueries,
    ShowTables,
    Statement,
    TableStatement,
    Update,
)
from sash.language.stored.leading import Leading
from sash.language.stored.links import Link
from sash.language.stored.ordering import OrderTerm
from sash.language.stored.questions import ArchiveReading, StoredQuestion, StoredReading, bind_stored
from sash.language.stored.sorting import Sorting
from sash.language.stored.sought import Sought

__all__ = [
    "ROW_KINDS",
    "SCRIPTS",
    "SET_KINDS",
    "AlterArchive",
    "ArchiveReading",
    "CreateArchive",
    "CreateIndex",
    "CreateStream",
    "CreateTable",
    "Delete",
    "Describe",
    "DropArchive",
    "DropIndex",
    "DropQuery",
    "DropStream",
    "DropTable",
    "Explain",
    "Insert",
    "Leading",
    "Link",
    "OrderTerm",
    "Partitioning",
    "RegisterQuery",
    "Select",
    "SelectStatement",
    "SetExecution",
    "ShowArchives",
    "ShowIndexes",
    "ShowQueries",
    "ShowTables",
    "Sorting",
    "Sought",
    "Statement",
    "StoredQuestion",
    "StoredReading",
    "TableChange",
    "TableStatement",
    "Update",
    "bind",
    "bind_change",
    "bind_continuous",
    "bind_stored",
    "has_slide",
    "is_continuous",
    "parse",
    "parse_script",
    "stream_names",
]
