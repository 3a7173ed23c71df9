"""What a schedule remembers about the queries of a task is what it would find out anew, whoever comes and goes."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.core.time import SECOND
from sash.runtime.periodic.joint_queries import JointQueries
from sash.runtime.periodic.pane_group import PaneGroup
from sash.runtime.settings import Settings
from tests.support.examples import examples
from tests.support.feed import Feed, compiled
from tests.support.streams import START, batches, stream, to_table

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
