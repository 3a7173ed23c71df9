"""A schedule remembers facts about the queries of a task. They equal those found anew, after queries came and went."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.settings import Settings
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.streams import START, batches, stream, to_table
from tests.work.packets import PacketSession

FORMS = (
    "SELECT COUNT(*) AS n FROM s {w}",
    "SELECT k, MEDIAN(v) AS m, SUM(v) AS t FROM s {w} GROUP BY k",
    # Conditions that are answered from each other's partials, as long as these are stored.
    "SELECT SUM(v) AS t FROM s {w} WHERE k = 1",
    "SELECT SUM(v) AS t FROM s {w} WHERE k = 2",
    "SELECT SUM(v) AS t FROM s {w} WHERE k IN (1, 2)",
    # The second part reads another pane table.
    "SELECT n, m FROM (SELECT COUNT(*) AS n FROM s {w}) a CROSS JOIN (SELECT MODE(v) AS m FROM s {w} WHERE k = 1) b",
)
TEXTS = [
    form.format(w=f"[WINDOW {length} sec SLIDE {slide} sec]")
    for form in FORMS
    for length in (4, 6)
    for slide in ("1", "2", "EXACTLY 2")
]


def described(joint: JointQueries) -> tuple[object, ...]:
    wanted = {group.label: list(parts) for group, parts in joint.wanted.items()}
    kinds = [(kind.first.name, kind.leader, kind.part) for kind in joint.kinds]
    assert all(each is joint.home.queries[each.name] for each in joint.queries)
    return joint.names, joint.places, kinds, wanted, [bound.reading for bound in joint._narrowest], joint._reaches


def check(group: PaneGroup) -> None:
    schedule, known = group.schedule, dict(group.schedule._joint)
    tasks = {task.key: task for task in schedule.local.tasks()}
    assert known.keys() <= tasks.keys()
    for key, joint in known.items():
        schedule.forget_joint()
        if joint.members == tasks[key].members:
            anew = schedule._joint_queries(tasks[key])
            assert anew is not None and described(joint) == described(anew)
            assert joint._some_rest == anew._some_rest
    schedule._joint |= known


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=9), batches(most=40), st.data())
def test_it_is_as_found_out_anew(texts: list[str], parts: list[pa.Table], data: st.DataObject) -> None:
    feed = Feed(stream(), Settings(data.draw(st.sampled_from(["hybrid", "no-sharing"])), share_predicates="always"))
    known = compiled({f"q{number}": text for number, text in enumerate(texts)}, feed.declared)
    for part in parts:
        feed.runtime.synchronise([each for each in known if data.draw(st.integers(0, 3)) > 0])
        feed.push(part)
        for group in feed.runtime.groups.values():
            check(group)
    groups = list(feed.runtime.groups.values())
    feed.runtime.synchronise([])
    assert not any(group.schedule._joint for group in groups)


def test_a_cover_that_is_given_up_is_forgotten() -> None:
    feed = Feed(stream(), Settings("conservative", share_predicates="always"))
    one, two, both = (form.format(w="[WINDOW 4 sec SLIDE {s} sec]") for form in FORMS[2:5])
    texts = {"one": one.format(s=1), "two": two.format(s=1), "both": both.format(s=2)}
    known = compiled(texts, feed.declared)
    feed.runtime.synchronise(known)
    feed.push(to_table([(START + second * SECOND, 1 + second % 2, "a", 1, 1, 1.0) for second in range(1, 12)]))
    (bound,) = feed.runtime.active["both"].readings
    assert bound.covered is not None
    feed.runtime.synchronise(known[2:])
    assert bound.covered is None and not bound.group.schedule._joint
    feed.push(to_table([(START + second * SECOND, 1 + second % 2, "a", 1, 1, 1.0) for second in range(12, 20)]))
    check(bound.group)


# -- what is told of all queries at once is what each of them says by itself -------------------------------

WINDOWS = ("2 sec", "5 sec", "9 sec LAG 2 sec", "30 sec")


def exactly(window: str) -> str:
    length, *lag = window.split(" LAG ")
    words = " ".join([f"WINDOW {length} SLIDE EXACTLY 1 sec", *(f"LAG {each}" for each in lag)])
    return f"SELECT src, SUM(length) AS bytes FROM packets [{words}] GROUP BY src"


@pytest.mark.parametrize("others", [(), ("[UNBOUNDED SLIDE EXACTLY 1 sec]",)])
def test_which_answers_are_complete(others: tuple[str, ...]) -> None:
    """While windows fill, and for queries that came later, some of them with partials that nobody stored before."""
    seen = set()
    with PacketSession() as session:
        for number, window in enumerate(WINDOWS):
            session.register(exactly(window), f"q{number}")
        for number, window in enumerate(others):
            session.register(f"SELECT src, SUM(length) AS bytes FROM packets {window} GROUP BY src", f"other{number}")
        for second in range(20):
            if second == 6:
                for number, window in enumerate(WINDOWS):
                    session.register(exactly(window).replace("SUM", "MAX"), f"later{number}")
            session.go_on()
            actives = list(session.streams["packets"].runtime.active.values())
            clock = actives[0].home.clock
            if not clock.has_closed:
                continue
            joint = JointQueries(actives)
            complete = joint.complete(clock.position)
            assert complete == [kind.first.is_complete(clock.position) for kind in joint.kinds]
            seen |= set(complete)
    assert seen == {False, True}


def test_lateness_is_that_of_each_query() -> None:
    """Answers are noted for all queries of a task at once, until one of them is noted alone."""
    with PacketSession() as session:
        for number in range(4):
            session.register(exactly(f"{20 + number} sec"), f"q{number}")
        session.go_on(5)
        actives = list(session.streams["packets"].runtime.active.values())
        pane, now = actives[0].home.clock.length, actives[0].home.clock.position
        joint = JointQueries(actives)
        for step, late in ((1, 0), (2, 3), (3, 2)):
            assert joint.awake(now + step * pane, now + (step + late) * pane, pane) is joint
        assert [(each.answered, each.lateness) for each in actives] == [(now + 3 * pane, 5)] * 4
        alone = JointQueries(actives[:1])
        assert alone.awake(now + 4 * pane, now + 5 * pane, pane) is alone
        # The first query has this answer already.
        others = joint.awake(now + 4 * pane, now + 4 * pane, pane)
        assert others is not None and others.names == joint.names[1:]
        assert [each.lateness for each in actives] == [6, 5, 5, 5]
        assert joint.awake(now + 5 * pane, now + 5 * pane, pane) is joint
        assert joint.awake(now + 5 * pane, now + 5 * pane, pane) is None
        assert {each.answered for each in actives} == {now + 5 * pane}


def test_windows_whose_expression_fails_keep_none_from_their_answers() -> None:
    """All are finished together: 20 s of packets overflow, where 10 s do not."""
    with PacketSession() as session:
        session.register("SELECT SUM(length) AS n FROM packets [WINDOW 10 sec SLIDE 20 sec]", "sum")
        session.go_on(21)
        most = (2**63 - 1) // session.queries["sum"].answers()[-1].table["n"][0].as_py()
        text = "SELECT SUM(length) * {most} AS n FROM packets [WINDOW {w} sec SLIDE 20 sec] HAVING COUNT(*) > 0"
        lengths = (5, 10, 20)
        found = {w: session.register(text.format(most=most, w=w), f"q{w}") for w in lengths}
        session.go_on(20)
        assert {w: query.error is None for w, query in found.items()} == {5: True, 10: True, 20: False}
        short, long = (found[w].answers()[-1].table["n"][0].as_py() for w in (5, 10))
        assert long == 2 * short > 2**62
