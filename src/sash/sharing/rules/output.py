"""Sharing of whole answers (thesis 8.4.3): CS8.

Q   MAX(length) [WINDOW 10 min SLIDE 2 min]      computed every 2 min
Q'  MAX(length) [WINDOW 10 min SLIDE 3 min]      has the answers of Q, every 2 min; once Q is gone, every 3 min
"""

from __future__ import annotations

from dataclasses import replace

from sash.sharing.rules.descriptions import Decision, QueryDescription, length_text


def shares_output(registered: QueryDescription, new: QueryDescription) -> Decision:
    """CS8: a query that is identical but for a period that is not shorter has the output of the registered one."""
    if replace(new, id=registered.id, slide=registered.slide) != registered:
        return Decision("CS8", False, f"{new.id} asks something else than {registered.id}")
    own, other = (length_text(query.slide, query.by_rows) for query in (new, registered))
    if new.slide < registered.slide:
        return Decision("CS8", False, f"{registered.id} is computed every {other}, {new.id} is due every {own}")
    return Decision("CS8", True, f"{registered.id} is the same query and computed every {other}")


def effective_period(registered: QueryDescription | None, new: QueryDescription) -> int:
    """How often the new query has an answer; its own period where it shares none, or no more (None)."""
    if registered is not None and shares_output(registered, new).allowed:
        return registered.slide
    return new.slide
