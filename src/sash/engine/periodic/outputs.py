"""Rule CS8 (thesis 8.4.3): a query that is identical to a faster one, but for its period, reads the other's output.

Of identical queries only the fastest, the leader, is scheduled; whenever it is executed, the others get its answer too.
When the leader goes, the next fastest leads, with its own period. SLIDE EXACTLY queries take no part: they are never
moved, neither themselves nor by a leader that would have to keep another's promises.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from sash.engine.compiler import CompiledQuery
from sash.engine.periodic.active import ActiveQuery
from sash.plan.nodes import Node, Windowed


class Outputs:
    """Who leads and who follows among some queries."""

    def __init__(self) -> None:
        # Identical queries are one object, found by what they ask and, on the path of every execution, by name.
        self._by_identity: dict[Hashable, _Identical] = {}
        self._by_name: dict[str, _Identical] = {}

    def add(self, active: ActiveQuery) -> None:
        identity = identity_of(active.compiled)
        same = self._by_name[active.name] = self._by_identity.setdefault(identity, _Identical(identity))
        same.add(active)

    def remove(self, active: ActiveQuery) -> list[ActiveQuery]:
        """Forget a query; those that were identical to it."""
        same = self._by_name.pop(active.name)
        same.remove(active)
        if not same.queries:
            del self._by_identity[same.identity]
        return list(same.queries.values())

    def leader(self, active: ActiveQuery) -> ActiveQuery:
        """The query whose output a query reads: often itself."""
        return self._by_name[active.name].leader

    def followers(self, leader: ActiveQuery) -> list[ActiveQuery]:
        """The queries that read a leader's output."""
        same = self._by_name[leader.name].queries
        return [] if len(same) == 1 else [each for each in same.values() if each is not leader]


class _Identical:
    """Queries that ask the same, and their order by speed: whoever looks for a leader must not compare them all."""

    def __init__(self, identity: Hashable) -> None:
        self.identity = identity
        self.queries: dict[str, ActiveQuery] = {}
        self._by_speed: list[tuple[int, int, str]] = []

    def add(self, active: ActiveQuery) -> None:
        self.queries[active.name] = active
        insort(self._by_speed, _speed(active))

    def remove(self, active: ActiveQuery) -> None:
        del self.queries[active.name]
        del self._by_speed[bisect_left(self._by_speed, _speed(active))]

    @property
    def leader(self) -> ActiveQuery:
        return self.queries[self._by_speed[0][2]]


def _speed(active: ActiveQuery) -> tuple[int, int, str]:
    slide = active.compiled.slide
    assert slide is not None
    return slide, active.compiled.serial, active.name


def identity_of(query: CompiledQuery) -> Hashable:
    """What identical queries have in common: everything but SLIDE, priority and lifetime.

    An EXACTLY query is identical to none. Nor is FREQUENT, which cuts its window by its own SLIDE.
    """
    cut_by_slide = any(leaf.items is not None and leaf.items.function == "frequent" for leaf in query.leaves)
    if query.exactly or cut_by_slide:
        return query.name
    return query.synopsis, _without_slide(query.plan)


def _without_slide(node: Node) -> Node:
    if isinstance(node, Windowed):
        return replace(node, window=replace(node.window, slide=None))
    names = [name for name in ("input", "left", "right") if hasattr(node, name)]
    below: dict[str, Any] = {name: _without_slide(getattr(node, name)) for name in names}
    return replace(node, **below) if below else node
