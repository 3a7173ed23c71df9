"""The golden file's queries, synopses and terms as descriptions; one of its time units is a second."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sash.core.time import SECOND
from sash.plan.predicates import EVERYTHING, Atom, Disjunction, disjunction
from sash.sharing.rules import Kind, QueryDescription, SynopsisDescription

EXAMPLES: dict[str, dict[str, Any]] = {
    example["id"].removeprefix("sharing_rules."): example
    for example in json.loads((Path(__file__).parents[1] / "golden" / "sharing_rules.json").read_text())["examples"]
}
_TERM = re.compile(r"(\w+)(!=|=|<|>)(\w+)")


def inputs(name: str) -> Any:
    return EXAMPLES[name]["inputs"]


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = EXAMPLES[name]["expected"]
    return found


def yes_no(decisions: Iterable[bool]) -> list[str]:
    return ["yes" if allowed else "no" for allowed in decisions]


def where(terms: list[str]) -> Disjunction:
    return disjunction([frozenset({_atom(term)}) for term in terms]) if terms else EVERYTHING


def _atom(term: str) -> Atom:
    match = _TERM.fullmatch(term)
    assert match is not None
    attribute, op, constant = match.groups()
    return Atom(attribute, "<>" if op == "!=" else op, int(constant) if constant.isdigit() else constant)


def query(case: dict[str, Any], id: str = "new") -> QueryDescription:
    """Covers' queries have no window; they get one that every synopsis answers."""
    return QueryDescription(
        case.get("id", id),
        case["agg"],
        case["attr"],
        tuple(case.get("streams", [case.get("stream")])),
        tuple(int(window * SECOND) for window in case.get("window", [1])),
        case.get("slide", 1) * SECOND,
        where(case["where"]),
    )


def synopsis(case: dict[str, Any]) -> SynopsisDescription:
    return SynopsisDescription(
        case["id"],
        Kind(case["type"]),
        case["data"],
        case["attr"],
        tuple(case["streams"]),
        case["s"] * SECOND,
        case["b"],
        case.get("g", 0),
        where(case["where"]),
        int(case["phase"] * SECOND),
    )


def own_synopsis(asked: QueryDescription, kind: Kind = Kind.BASIC_INTERVAL, panes: int = 1) -> SynopsisDescription:
    """The synopsis that belongs to a query, with its name."""
    return SynopsisDescription(
        asked.id, kind, asked.data, asked.argument, asked.streams, SECOND, panes, where=asked.where
    )
