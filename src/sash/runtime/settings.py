"""The options of a session, above all about sharing and scheduling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sash.core.errors import SashError, nearest
from sash.core.time import Micros, parse_duration
from sash.plan.continuous import AUTO
from sash.schedule import Policy
from sash.schedule import policy as policy_named

DEFAULT_POLICY = "hybrid-late-pending"
# A process of a few gigabytes keeps about this many groups, with some aggregates and panes each.
DEFAULT_MAX_GROUPS = 5_000_000
DEFAULT_CLUSTER_GROUPS = 2_000_000
# About this many rows take two gigabytes, with some columns each.
DEFAULT_MAX_ROWS = 20_000_000
PREDICATE_SHARING = ("auto", "always", "never")


@dataclass(frozen=True)
class Settings:
    """`filter_precision` is the parameter p of collective indexes (Arasu and Widom, 4.1.2).

    `share_predicates`: whether a WHERE of several terms may be answered from the synopses of its terms (SS4).
    `refresh_when_idle`: live, queries may be answered before they are due when there is time.
    `cluster_groups`: a pane table with more groups than this goes to the cluster, if it can.
    `max_groups`: the most groups that the windows of one pane table, or a synopsis of a join, may have in this process.
    `max_rows`: the most rows that one continuous plan, one stored window in memory, or one KEEP of a query, may keep.
    `replace_plans`: a running continuous plan is replaced when another one is expected to cost much less.
    """

    policy: str = DEFAULT_POLICY
    share_predicates: str = "auto"
    refresh_when_idle: bool = False
    filter_precision: int = 8
    max_groups: int = DEFAULT_MAX_GROUPS
    cluster_groups: int = DEFAULT_CLUSTER_GROUPS
    max_rows: int = DEFAULT_MAX_ROWS
    replace_plans: bool = True

    def __post_init__(self) -> None:
        self.make_policy()
        if self.share_predicates not in PREDICATE_SHARING:
            hint = nearest(self.share_predicates, PREDICATE_SHARING)
            known = ", ".join(PREDICATE_SHARING)
            raise SashError(f"unknown share_predicates '{self.share_predicates}'{hint}; known: {known}")
        if self.filter_precision < 1:
            raise SashError(f"filter_precision must be 1 or more, not {self.filter_precision}")
        if self.max_groups < 1:
            raise SashError(f"max_groups must be 1 or more, not {self.max_groups}")
        if self.cluster_groups < 1:
            raise SashError(f"cluster_groups must be 1 or more, not {self.cluster_groups}")
        if self.max_rows < 1:
            raise SashError(f"max_rows must be 1 or more, not {self.max_rows}")

    @property
    def share_in_questions(self) -> str:
        """A question that is asked once has no synopsis of its own to compare prices with."""
        return "never" if self.share_predicates == "never" else "always"

    @property
    def shares(self) -> bool:
        """Whether the executions of queries depend on each other."""
        return self.make_policy().joint_until(0, 0) is not None

    def make_policy(self) -> Policy:
        return policy_named(self.policy)


@dataclass(frozen=True)
class SessionSettings(Settings):
    """All options of `connect`.

    `keep_answers` is how many answers a query remembers, `answer_memory` how many bytes all answers may take.
    `executor_rows`: a continuous plan's epochs with more tuples run on the executors; None: where they take less time.
    `share_results`: there Spark divides a bucket of a join with more results. `execution` is the strategy of continuous
    plans; `partitions` is the number of partitions of their state buffers. `max_lag`: how long a live micro-batch may
    take. `packages` are connectors for Sash's own Spark session.
    """

    isolation: str = "ttu"
    keep_answers: int = 1_000
    answer_memory: int = 256 * 2**20
    executor_rows: int | None = None
    share_results: int = 100_000
    execution: str = AUTO
    partitions: int | None = None
    max_lag: str | None = None
    packages: Sequence[str] = ()


def duration(what: str, text: str) -> Micros:
    """An option that is a length of time; the error names the option."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise SashError(f"{what}: {error}") from None
