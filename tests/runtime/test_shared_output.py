"""Rule CS8: an identical query with a longer period is answered with the faster one, and alone when that ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sash.core.time import SECOND, to_micros
from sash.runtime.answers.answer import Answer
from sash.runtime.compiler import CompiledQuery
from sash.runtime.settings import Settings
from tests.support.feed import Feed, compiled
from tests.support.streams import START, stream, to_table

MAX = "SELECT k, MAX(v) AS hi FROM s [WINDOW 10 sec SLIDE {slide} sec] GROUP BY k"


class Story:
    """A tuple per second, and queries that come and go."""

    def __init__(self, policy: str = "conservative") -> None:
        self.feed = Feed(stream(), Settings(policy))
        self.answers: list[Answer] = []
        self._second = 0
        self._known: dict[str, CompiledQuery] = {}

    def now(self, **queries: str) -> None:
        new = {name: text for name, text in queries.items() if name not in self._known}
        self._known |= {each.name: each for each in compiled(new, self.feed.declared)}
        self._known = {name: each for name, each in self._known.items() if name in queries}
        self.feed.runtime.synchronise(list(self._known.values()))

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self._second += 1
            row = (START + self._second * SECOND, self._second % 3, None, self._second * 7 % 50, None, None)
            self.answers += self.feed.push(to_table([row]))

    def times(self, query: str) -> list[int]:
        return [(to_micros(a.as_of) - START) // SECOND for a in self.answers if a.query == query]


def test_the_slower_query_has_the_answers_of_the_faster() -> None:
    story = Story()
    story.now(fast=MAX.format(slide=2), slow=MAX.format(slide=3), slowest=MAX.format(slide=4))
    story.run(13)
    assert story.times("fast") == story.times("slow") == story.times("slowest") == [2, 4, 6, 8, 10, 12]
    by_time: dict[object, list[Answer]] = {}
    for answer in story.answers:
        by_time.setdefault(answer.as_of, []).append(answer)
    for same in by_time.values():
        assert len({id(answer.table) for answer in same}) == 1, "one table for all three"
    scheduled = [(to_micros(a.as_of) - START) // SECOND for a in story.answers if a.query == "slow" and a.scheduled]
    assert scheduled == [t for t in range(2, 13, 2) if (START // SECOND + t) % 3 == 0]


@pytest.mark.parametrize(
    "text",
    [
        f"{MAX} UNION ALL {MAX.replace('MAX', 'MIN')}",
        f"{MAX} HAVING MAX(v) > (SELECT AVG(v) FROM s [WINDOW 10 sec SLIDE {{slide}} sec])",
        MAX.replace("BY k", "BY GROUPING SETS ((k), ())"),
    ],
)
def test_so_it_has_when_an_answer_is_made_of_several(text: str) -> None:
    story = Story()
    story.now(fast=text.format(slide=2), slow=text.format(slide=3))
    story.run(13)
    assert story.times("fast") == story.times("slow") == [2, 4, 6, 8, 10, 12]


def test_its_own_period_comes_back_when_the_faster_one_ends() -> None:
    story = Story()
    slow, slowest = MAX.format(slide=5), MAX.format(slide=6)
    story.now(fast=MAX.format(slide=2), slow=slow, slowest=slowest)
    story.run(9)
    story.now(slow=slow, slowest=slowest)
    story.run(30)
    after = [t for t in story.times("slow") if t >= 8]
    assert after[0] == 8 and after[1] <= 8 + 5
    assert {b - a for a, b in pairwise(after[1:])} == {5}
    assert story.times("slowest") == story.times("slow"), "the next fastest leads"


def test_a_faster_query_that_comes_later_leads_once_the_longer_panes_are_gone() -> None:
    """Until then, at times that are not its own, the slower one's window would begin inside a pane of five seconds."""
    story = Story()
    story.now(slow=MAX.format(slide=5))
    story.run(12)
    story.now(slow=MAX.format(slide=5), fast=MAX.format(slide=2))
    story.run(30)
    early, late = ([t for t in story.times("slow") if low < t <= high] for low, high in ((12, 24), (26, 42)))
    assert early == [15, 20]
    assert late == [t for t in story.times("fast") if t > 26] and len(late) >= 7
    assert max(b - a for a, b in pairwise(story.times("slow"))) <= 5


def test_who_does_not_follow() -> None:
    """Exactly means exactly, another window is another query, and without sharing nobody follows."""
    story = Story()
    story.now(
        fast=MAX.format(slide=2),
        exact=MAX.format(slide="EXACTLY 3"),
        other=MAX.format(slide=4).replace("WINDOW 10", "WINDOW 12"),
    )
    story.run(25)
    assert all((START // SECOND + t) % 3 == 0 for t in story.times("exact"))
    assert all((START // SECOND + t) % 4 == 0 for t in story.times("other"))
    alone = Story("no-sharing")
    alone.now(fast=MAX.format(slide=2), slow=MAX.format(slide=3))
    alone.run(13)
    assert alone.times("slow") != alone.times("fast")


def test_the_leader_has_the_priority_of_its_followers() -> None:
    story = Story()
    fast, slow = compiled({"fast": MAX.format(slide=2), "slow": MAX.format(slide=3)}, story.feed.declared)
    story.feed.runtime.synchronise([fast, replace(slow, priority=7)])
    story.run(3)
    (group,) = story.feed.runtime.groups.values()
    assert group.schedule.local.task_of("fast").priority == 7
    assert group.schedule.leaders == {"fast"}
