"""Scheduling groups: the queries that share computation when they are executed together (rules CS1 to CS7).

They read the same data: the same groups of tuples, the same arguments, the same predicate. A basic interval synopsis is
scanned once for all their windows (CS2); from a running or interval one, queries over the same window share (CS1). A
query whose predicate is covered by those of others is executed with them (CS6, CS7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sash.synopses.readings import Reading


def similar(label: str, reading: Reading, kind: str, related: Mapping[str, str]) -> str:
    """The name of a reading's scheduling group; `related` gives the first of a family of predicates."""
    arguments = sorted({partial.argument.sql for partial in reading.partials if partial.argument is not None})
    of = f" of {', '.join(arguments)}" if arguments else ""
    predicate = reading.partials[0].predicate
    where = "" if predicate is None else f" where {related.get(predicate.sql, predicate.sql)}"
    return f"{label}{of}{where}{'' if kind == 'basic' else f' {reading.spans[0]}'}"


def families(readings: Iterable[Reading]) -> dict[str, str]:
    """Predicates whose synopses are read together, each with the first of all that belong together."""
    family_of: dict[str, set[str]] = {}
    for reading in readings:
        together = {partial.predicate.sql for partial in reading.partials if partial.predicate is not None}
        known = {id(family): family for one in together if (family := family_of.get(one)) is not None}
        # The largest family takes the others in: so nobody moves more than log2 of their number times.
        largest, *others = sorted([together, *known.values()], key=len, reverse=True)
        for family in others:
            largest |= family
            family_of |= dict.fromkeys(family, largest)
        family_of |= dict.fromkeys(together, largest)
    families = {id(family): family for family in family_of.values()}
    firsts = {which: min(family) for which, family in families.items()}
    return {predicate: firsts[id(family)] for predicate, family in family_of.items()}
