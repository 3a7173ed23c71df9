"""The sharing rules of the thesis (8.3, 8.4.3). The runtime asks them, does what they decide, and keeps the decision.

    rule       decides                                                               asked when
    SS1, SS2   whether the partials of an aggregate (AVG: sum and count) are stored  a reading comes to a pane table
    SS4        whether those of other predicates make them up                        the same: `groups.share_state`
    SS3        whether a join synopsis has two windows: `choose_join.JoinPart`       a query comes to a join group
    SS5        whether a running join has windows as long (ours, after 9.2)          a continuous join comes
    CS1..CS7   which queries over the same data are executed together                a query is scheduled
    CS8        whether a query gets the answers of an identical one                  a query is scheduled

A synopsis for lookups (running, interval, landmark; RJ, IJ) is looked up for each window anew, so only equal windows
share. A scanned one (basic interval, here or in the cluster; BIJ) gives the answers of shorter windows on the way.
SS4, CS6 and CS7 trade time for space.

    Q   MAX(length) [WINDOW 10 min SLIDE 2 min]      computed every 2 min
    Q'  MAX(length) [WINDOW 10 min SLIDE 3 min]      has the answers of Q, every 2 min; once Q is gone, every 3 min
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from sash.core.time import format_duration
from sash.core.window import Window
from sash.panes.joins import WindowPair
from sash.panes.partials import Partial
from sash.sharing.needs import Need, listed

# Kinds that are read from the youngest pane to the oldest, with the answers of shorter windows on the way.
SCANNED = frozenset({"basic", "cluster"})
# The partials that AVG divides, and those of SUM and COUNT.
_DIVIDED = frozenset({"rows", "sum", "count"})


@dataclass(frozen=True, slots=True)
class Decision:
    """The rule that decided, its decision, and why: a sentence, or a function that makes it when somebody reads it."""

    rule: str
    allowed: bool
    why: str | Callable[[], str]

    @property
    def reason(self) -> str:
        return self.why if isinstance(self.why, str) else self.why()

    def __str__(self) -> str:
        return f"{'shared' if self.allowed else 'not shared'} ({self.rule}): {self.reason}"


# -- state ---------------------------------------------------------------------------------------------


def store_once(needs: Iterable[Need], stored: frozenset[Partial]) -> list[tuple[Need, Decision]]:
    """SS1: stored partials serve every aggregate that needs them. SS2: a sum and a count of one table serve AVG."""
    decided = []
    for need in needs:
        rule, found = "SS2" if need.is_average else "SS1", stored.issuperset(need.partials)
        decided.append((need, Decision(rule, found, need.why_stored if found else "no query before it keeps its data")))
    return decided


class WindowLack(Enum):
    LONGER = "the window is longer than what is kept"
    UNEVEN = "the window does not consist of whole panes"


def window_lack(window: Window, kept: int, pane: int) -> WindowLack | None:
    """SS1, SS2, SS4: a window is n panes, 1 <= n <= b. For a registered query panes are cut, and kept long enough."""
    if window.reach > kept:
        return WindowLack.LONGER
    return WindowLack.UNEVEN if window.resolution % pane else None


def shares_longer_windows(kept: tuple[int, ...] | None, asked: tuple[int, ...], *, has_expiries: bool) -> Decision:
    """SS5 (thesis 9.2): a join of windows that are not longer, from the state of the same join.

    `kept` are the windows of the state; None: no tuple has come, and they become as long as the longest.
    `has_expiries`: its pairs carry the expiries of their tuples.
    """
    if kept is None:
        return Decision("SS5", True, "no tuple has come: one state has the longest windows of all")
    own, theirs = (" and ".join(map(format_duration, lengths)) for lengths in (asked, kept))
    if any(own > kept for own, kept in zip(asked, kept, strict=True)):
        return Decision("SS5", False, f"windows of {own} are longer than those of {theirs} that are kept")
    shorter = {kept - own for own, kept in zip(asked, kept, strict=True)}
    if len(shorter) == 1:
        by = f"{format_duration(*shorter)} earlier than" if any(shorter) else "as"
        return Decision("SS5", True, f"a pair ends {by} in the windows of {theirs} that are kept")
    if has_expiries:
        return Decision("SS5", True, f"pairs in the windows of {theirs} that are kept carry when their tuples expire")
    return Decision(
        "SS5", False, f"windows of {own} are not shorter by one length than those of {theirs} that are kept"
    )


# -- computation ---------------------------------------------------------------------------------------


def scheduling_group(data: str, kind: str, windows: Iterable[Hashable]) -> str:
    """The name of the queries over some data that are executed together.

    >>> scheduling_group("(src) of length", "basic", [10]), scheduling_group("(src) of length", "running", [10])
    ('(src) of length', '(src) of length 10')
    """
    return data if kind in SCANNED else " ".join(map(str, (data, *windows)))


class Computation(NamedTuple):
    """What a query is computed from: partials, in a synopsis of a kind, over a window (of a join: over two).

    `group` is its scheduling group. `combined`: the partials are those of other predicates (SS4). `divides`: for AVG.
    """

    query: str
    group: str
    data: str
    kind: str
    window: Window | WindowPair
    partials: tuple[Partial, ...] = ()
    combined: bool = False
    divides: bool = False


_group_of = attrgetter("group")


def compute_together(mine: Computation, mates: Sequence[Computation]) -> Decision:
    """Whether a query is executed together with others over the same data.

    CS2: in one scan; CS1: looked up once for equal windows; CS5, CS4: the same for joins. CS7, CS6: the same, and the
    query combines what others read. CS3: AVG divides a sum and a count that are looked up once.
    """
    together = {mine.group}.issuperset(map(_group_of, mates))
    scanned, joined = mine.kind in SCANNED, isinstance(mine.window, WindowPair)
    if mine.combined and _parts(mine, mates):
        rule = "CS7" if scanned else "CS6"
    elif joined:
        rule = "CS5" if scanned else "CS4"
    elif scanned:
        rule = "CS2"
    else:
        rule = "CS3" if _divides([mine, *mates]) else "CS1"
    return Decision(rule, together, partial(_why_together if together else _why_apart, rule, mine, mates))


def _parts(mine: Computation, mates: Iterable[Computation]) -> list[str]:
    """The mates that read partials of a cover."""
    return [mate.query for mate in mates if not set(mate.partials).isdisjoint(mine.partials)]


def _divides(every: Sequence[Computation]) -> bool:
    """Whether some query divides, and the others read what it divides."""
    some = len(every) > 1 and any(each.divides for each in every)
    return some and all(each.kind in _DIVIDED for one in every for each in one.partials)


def _why_together(rule: str, mine: Computation, mates: Sequence[Computation]) -> str:
    if rule == "CS7":
        names = _parts(mine, mates)
        computed = f"{listed(names)} {'are' if len(names) > 1 else 'is'} computed"
        return f"while {computed}, values for {mine.query or 'this query'} over {mine.window.words} are saved"
    if rule == "CS3":
        return f"AVG divides the sum and the count over {mine.window.words}"
    if mine.kind in SCANNED:
        return f"one scan of {mine.data} answers all windows on its way to the oldest pane"
    return f"the {mine.kind} synopsis is looked up once for windows of {mine.window.words}"


def _why_apart(rule: str, mine: Computation, mates: Sequence[Computation]) -> str:
    other = next((mate for mate in mates if mate.kind != mine.kind), None)
    if other is not None:
        return f"{other.query} reads another synopsis ({other.kind}, not {mine.kind})"
    differ = f"windows of {listed(each.window.words for each in (*mates, mine))} differ"
    if rule == "CS3":
        return f"AVG divides answers over its own window, but {differ}"
    return f"the {mine.kind} synopsis is looked up for each window, and {differ}"


# -- output --------------------------------------------------------------------------------------------


class QueryOutput(NamedTuple):
    """The answers of a query. Queries with equal identities differ in SLIDE, PRIORITY and LIFETIME alone."""

    query: str
    identity: Hashable
    slide: int
    by_rows: bool = False

    @property
    def period(self) -> str:
        return f"{self.slide} rows" if self.by_rows else format_duration(self.slide)


def shares_output(registered: QueryOutput, new: QueryOutput) -> Decision:
    """CS8: an identical query whose period is not shorter gets the output of the registered one."""
    if new.identity != registered.identity:
        return Decision("CS8", False, f"{new.query} is not the same query as {registered.query}")
    return Decision("CS8", new.slide >= registered.slide, partial(_why_output, registered, new))


def _why_output(registered: QueryOutput, new: QueryOutput) -> str:
    if new.slide < registered.slide:
        return f"{registered.query} is computed every {registered.period}, {new.query} is due every {new.period}"
    return f"{registered.query} is the same query and computed every {registered.period}"
