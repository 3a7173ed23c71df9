"""Random workloads for properties of schedulers, and how they are put into one."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from sash.schedule import LocalScheduler

GROUP_NAMES = st.sampled_from(["G1", "G2"])
PRICES = st.tuples(st.integers(0, 30).map(float), st.sampled_from([0.0, 0.5, 4.0]))


@dataclass(frozen=True)
class Query:
    group: str
    slide: int
    exactly: bool
    priority: int
    price: tuple[float, float]

    def add_to(self, scheduler: LocalScheduler, name: str, now: int) -> None:
        access, post = self.price
        scheduler.add(
            name,
            self.group,
            self.slide,
            now=now,
            exactly=self.exactly,
            priority=self.priority,
            access=access,
            post=post,
        )


QUERY = st.builds(Query, GROUP_NAMES, st.integers(1, 12), st.booleans(), st.integers(-1, 2), PRICES)
ORDINARY = st.builds(Query, GROUP_NAMES, st.integers(1, 12), st.just(False), st.integers(-1, 2), PRICES)
WORKLOADS = st.lists(QUERY, min_size=1, max_size=10)


def fill(scheduler: LocalScheduler, workload: list[Query]) -> LocalScheduler:
    for number, query in enumerate(workload):
        query.add_to(scheduler, f"q{number}", now=0)
    return scheduler
