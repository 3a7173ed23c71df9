"""CQL: from text to statements, and from a SELECT to a logical plan.

    text --parse_script--> statements;  Select --bind(catalog)--> plan.nodes.Project
                                        Select --bind_continuous(catalog)--> plan.continuous.Node

    reading/      script, create, table_statements, window_clause on a cursor: the grammar of Sash's own
                  limits: how much text there may be
                  parser, dialect: SELECT and expressions, by sqlglot; places: what is remembered in its tree
    expressions/  typer, with operators, calls and aggregates: trees become terms in a scope
                  answer_terms: expressions over answers, in a closed vocabulary
    binding/      binder, with shape, windows, select_list, groups, item_rows, bounds and joins: terms become a plan
    continuous/   the same for plans that are kept up to date with every tuple
    stored/       questions that Spark answers from stored rows

`sqlglot` is known here and nowhere else.
"""

from __future__ import annotations

from sash.sql.binding.binder import bind
from sash.sql.binding.table_changes import TableChange, bind_change
from sash.sql.binding.windows import has_slide, stream_names
from sash.sql.continuous.binder import bind_continuous
from sash.sql.continuous.slides import is_continuous
from sash.sql.reading.create import ROW_KINDS, SET_KINDS
from sash.sql.reading.limits import SCRIPTS
from sash.sql.reading.script import parse, parse_script
from sash.sql.reading.statements import (
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
from sash.sql.stored.leading import Leading
from sash.sql.stored.links import Link
from sash.sql.stored.ordering import OrderTerm
from sash.sql.stored.questions import ArchiveReading, StoredQuestion, StoredReading, bind_stored
from sash.sql.stored.sorting import Sorting
from sash.sql.stored.sought import Sought

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
