"""The life of a query in one place: text, statement, logical plan, what it needs of a pane table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sash.catalog import Catalog, RegisteredQuery
from sash.core.errors import CqlError, Span
from sash.core.time import Micros
from sash.language import Select, SelectStatement, bind, parse
from sash.plan.nodes import Project
from sash.plan.periodic import PeriodicAggregate, flatten
from sash.synopses.answers import Finisher


@dataclass(frozen=True)
class CompiledQuery:
    name: str
    plan: Project
    priority: int = 0
    lifetime: Micros | None = None
    serial: int = 0

    @cached_property
    def periodic(self) -> PeriodicAggregate:
        return flatten(self.plan)

    @cached_property
    def finisher(self) -> Finisher:
        return Finisher(self.periodic)

    @property
    def stream(self) -> str:
        return self.periodic.stream


def compile_select(select: Select, catalog: Catalog, name: str = "", *, one_time: bool = False) -> CompiledQuery:
    return CompiledQuery(name, bind(select, catalog, periodic=not one_time))


def compile_query(query: RegisteredQuery, catalog: Catalog) -> CompiledQuery:
    """A registered query from its text, as at registration and again after a restart."""
    plan = bind(as_select(query.text), catalog, periodic=True)
    return CompiledQuery(query.name, plan, query.priority, query.lifetime, query.serial)


def as_select(text: str) -> Select:
    """The SELECT of a text that is nothing else."""
    statement = parse(text)
    if not isinstance(statement, SelectStatement):
        raise CqlError("expected a SELECT", text, Span(0, len(text.split(maxsplit=1)[0])))
    return statement.select
