"""Handles of queries that nobody runs."""

from __future__ import annotations

from typing import Any

from sash.catalog import RegisteredQuery
from sash.runtime.answers.registered_query import AnswerMemory, Query


def handle(text: str, **more: Any) -> Query:
    session: Any = None
    return Query(session, RegisteredQuery("totals", text, "s", **more), 1_000, AnswerMemory(2**20))
