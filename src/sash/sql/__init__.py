"""CQL: from text to statements, from a SELECT to a bound query, and from a bound query to a logical plan.

    text ──parse_script──► statements
    Select ──bind(catalog)──► BoundQuery ─┬─ plan_panes ───► plan.nodes.Project       panes answer it
                                          └─ plan_changes ─► plan.continuous.Node     it is kept up to date
    Select ──bind_stored(catalog)──► StoredQuestion                                   Spark answers it from stored rows

    reading/      script, create, output_clause, window_clause on a cursor: the grammar of Sash's own
                  limits: how much text there may be
                  dialect: SELECT and expressions, by sqlglot; places: what is remembered in its tree
    expressions/  typer, with operators, calls and aggregates: trees become terms in a scope
                  answer_terms: expressions over answers, in a closed vocabulary
    binding/      binder, with shape, from_clause and select_list: a SELECT becomes a bound query (bound)
                  panes, with lookups: the plan of a query that panes answer
                  changes, with sources, joined_rows, sets and outputs: the plan of a continuous query
                  stored, with narrowing and ordering: questions that Spark answers from stored rows

A SELECT is bound once, whether it is registered, asked or explained. `sqlglot` is known here and nowhere else.
"""

from __future__ import annotations

from sash.sql.binding.binder import bind
from sash.sql.binding.bound import BoundQuery, BoundSelect, BoundSet, relations_in
from sash.sql.binding.changes import order_of_answers, plan_changes
from sash.sql.binding.completion import complete
from sash.sql.binding.narrowing import Link, SoughtRange, SoughtValues
from sash.sql.binding.ordering import LeadingRows, OrderTerm, WindowOrder
from sash.sql.binding.outputs import is_own
from sash.sql.binding.panes import plan_panes
from sash.sql.binding.stored import ArchiveReading, ResultReading, StoredQuestion, StoredReading, bind_stored
from sash.sql.binding.table_changes import TableChange, bind_change
from sash.sql.binding.windows import has_slide, stream_names, windows_of
from sash.sql.expressions.calls import FUNCTION_NAMES, function_kinds
from sash.sql.reading.alteration import altered
from sash.sql.reading.create import ROW_KINDS, SET_KINDS
from sash.sql.reading.cursor import Name
from sash.sql.reading.limits import SCRIPTS
from sash.sql.reading.script import parse, parse_script
from sash.sql.reading.statements import (
    AlterArchive,
    AlterQuery,
    CreateArchive,
    CreateIndex,
    CreateStream,
    CreateTable,
    Delete,
    Describe,
    Drop,
    DropIndex,
    Explain,
    Insert,
    Partitioning,
    PauseOrResume,
    RegisterQuery,
    Select,
    SelectStatement,
    SetExecution,
    Show,
    Statement,
    TableStatement,
    Update,
)
from sash.sql.types import named_type, spark_name

__all__ = [
    "FUNCTION_NAMES",
    "ROW_KINDS",
    "SCRIPTS",
    "SET_KINDS",
    "AlterArchive",
    "AlterQuery",
    "ArchiveReading",
    "BoundQuery",
    "BoundSelect",
    "BoundSet",
    "CreateArchive",
    "CreateIndex",
    "CreateStream",
    "CreateTable",
    "Delete",
    "Describe",
    "Drop",
    "DropIndex",
    "Explain",
    "Insert",
    "LeadingRows",
    "Link",
    "Name",
    "OrderTerm",
    "Partitioning",
    "PauseOrResume",
    "RegisterQuery",
    "ResultReading",
    "Select",
    "SelectStatement",
    "SetExecution",
    "Show",
    "SoughtRange",
    "SoughtValues",
    "Statement",
    "StoredQuestion",
    "StoredReading",
    "TableChange",
    "TableStatement",
    "Update",
    "WindowOrder",
    "altered",
    "bind",
    "bind_change",
    "bind_stored",
    "complete",
    "function_kinds",
    "has_slide",
    "is_own",
    "named_type",
    "order_of_answers",
    "parse",
    "parse_script",
    "plan_changes",
    "plan_panes",
    "relations_in",
    "spark_name",
    "stream_names",
    "windows_of",
]
