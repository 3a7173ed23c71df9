"""What EXPLAIN says of a query before it is registered, and what the runtime then does.

Queries of every kind come one after the other to a session without Spark. Each is explained, registered and run. What
was said is compared with the pane tables, the partials, the schedule, the executions and the answers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.panes.partials import Partial
from sash.runtime.continuous.continuous_queries import unmeasured
from sash.runtime.continuous.join_group import JoinGroup
from sash.runtime.explaining.explain_continuous import explain_continuous
from sash.runtime.periodic.group_schedule import identity_of
from sash.runtime.periodic.stream_runtime import StreamRuntime
from sash.runtime.route import route_plan
from sash.sharing.choose_join import JoinLoad
from sash.sql import Explain, bind, parse, plan_changes
from tests.runtime.test_join_group import SEC, Tuples, begins, catalog, epochs, query_of
from tests.support.examples import examples
from tests.support.sparkless_session import SparklessSession, tuples
from tests.support.streams import stream

Queries = dict[str, tuple[str, tuple[str, ...]]]

# Queries in the order in which they come, each with the rules that must have something to say about it.
BY_KEY = "SELECT k, {what} FROM s [WINDOW {window} sec SLIDE {slide} sec]{where} GROUP BY k"


def by_key(what: str, window: int = 20, slide: int = 20, where: str = "") -> str:
    return BY_KEY.format(what=what, window=window, slide=slide, where=where and f" WHERE {where}")


SCANNED = {
    "first": (by_key("MAX(v) AS hi", window=10, slide=10), ()),
    "sums": (by_key("SUM(v) AS t"), ("CS2",)),
    "equal": (by_key("SUM(v) AS t"), ("SS1", "CS8")),
    "counts": (by_key("COUNT(v) AS n"), ("SS1", "CS2")),
    "mean": (by_key("AVG(v) AS m", window=30), ("SS2", "CS2")),
    "ones": (by_key("SUM(v) AS t", where="v = 1"), ()),
    "twos": (by_key("SUM(v) AS t", where="v = 2"), ()),
    "both": (by_key("SUM(v) AS t", window=40, slide=10, where="v IN (1, 2)"), ("SS4", "CS7")),
    "seldom": (by_key("SUM(v) AS t", slide=40), ("SS1", "CS8")),
    "often": (by_key("SUM(v) AS t", slide=10), ("SS1", "CS8")),
    "others": ("SELECT g, SUM(v) AS t FROM s [WINDOW 20 sec SLIDE 20 sec] GROUP BY g", ()),
    "rows": ("SELECT k, SUM(v) AS t FROM s [ROWS 20 SLIDE 10] GROUP BY k", ()),
    "exactly": ("SELECT k, SUM(v) AS t FROM s [WINDOW 20 sec SLIDE EXACTLY 20 sec] GROUP BY k", ("SS1", "CS2")),
}
# Windows of one group over many panes: looked up.
LOOKED_UP = {
    "long": ("SELECT SUM(v) AS t FROM s [WINDOW 400 sec SLIDE 1 sec]", ()),
    "twin": ("SELECT COUNT(v) AS n FROM s [WINDOW 400 sec SLIDE 2 sec]", ("SS1", "CS1")),
    "short": ("SELECT SUM(v) AS t FROM s [WINDOW 300 sec SLIDE 1 sec]", ("SS1", "CS1")),
    "ago": ("SELECT SUM(v) AS t FROM s [WINDOW 400 sec SLIDE 1 sec LAG 2 sec]", ("SS1", "CS1")),
    "divided": ("SELECT AVG(v) AS m FROM s [WINDOW 400 sec SLIDE 3 sec]", ("SS2", "CS3")),
    "dividend": ("SELECT SUM(v) AS m FROM s [WINDOW 400 sec SLIDE 3 sec]", ("SS1", "CS3")),
    "ones": ("SELECT SUM(v) AS t FROM s [WINDOW 400 sec SLIDE 1 sec] WHERE v = 1", ()),
    "twos": ("SELECT SUM(v) AS t FROM s [WINDOW 400 sec SLIDE 1 sec] WHERE v = 2", ()),
    "both": ("SELECT SUM(v) AS t FROM s [WINDOW 400 sec SLIDE 2 sec] WHERE v IN (1, 2)", ("SS4", "CS6")),
    "less": ("SELECT SUM(v) AS t FROM s [WINDOW 300 sec SLIDE 2 sec] WHERE v IN (1, 2)", ("SS4", "CS6")),
}
# Synopses that their users have set.
WISHED = {
    kind: {
        "first": (by_key("MAX(v) AS hi" if kind == "interval" else "SUM(v) AS t", 40, 5), ()),
        "twin": (by_key("COUNT(v) AS n", 40, 10), ("CS1",)),
        "short": (by_key("SUM(v) AS t", 20, 10), ("CS1",)),
        "mean": (by_key("AVG(v) AS m", 40, 20), ("CS1",) if kind == "interval" else ("SS2", "CS3")),
        "rare": (by_key("SUM(v) AS t", 20, 20), ("CS8",)),
    }
    for kind in ("running", "interval", "landmark")
}


@dataclass
class Said:
    """An explanation of one query, taken apart."""

    text: str
    table: str = ""
    pane: str = ""
    partials: dict[str, str] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.table, self.pane), *_ = re.findall(r"^Pane table s by (.*): panes of (.*), one pass", self.text, re.M)
        self.partials = dict(re.findall(r"^  (\S.*?): (new|shared with .*|not stored, .*)$", self.text, re.M))
        said = re.findall(r"^  (state of .*?|computed together|output): ((?:not )?shared.*)$", self.text, re.M)
        self.rules = dict(said)

    @property
    def named(self) -> set[str]:
        """The rules that have decided."""
        return set(re.findall(r"shared \((\w+)\)", "\n".join(self.rules.values())))

    @property
    def synopsis(self) -> str:
        (found,) = re.findall(r"^Synopsis: (\w+)", self.text, re.M)
        return str(found)

    @property
    def leader(self) -> str | None:
        found = re.search(r"^Schedule: .*, answered with (\w+), every", self.text, re.M)
        return found and found[1]

    @property
    def group(self) -> str:
        (found,) = re.findall(r"^Schedule: policy \S+, group (.*), sub-group", self.text, re.M)
        return str(found)

    @property
    def sub_group(self) -> set[str]:
        (found,) = re.findall(r"^Schedule: .*, sub-group SLIDE .*?, (?:with (.*)|alone in it)$", self.text, re.M)
        return set(filter(None, found.split(", ")))


class Story:
    """A session that is fed; `stored` are the partials of its pane tables, by the tables' names."""

    def __init__(self, synopsis: str | None = None, **settings: Any) -> None:
        self.session = SparklessSession(**settings)
        self.session.declare(stream())
        self.synopsis = synopsis
        self.second = 0
        self.run(1)

    def register(self, name: str, text: str) -> None:
        self.session.register(text, name, synopsis=self.synopsis)

    @property
    def runtime(self) -> StreamRuntime:
        return self.session.streams["s"].runtime

    def run(self, seconds: int) -> None:
        """One micro-batch."""
        rows = [(self.second + i / 4, i % 3, i % 4) for i in range(4 * seconds)]
        self.session.push("s", tuples(*rows))
        self.second += seconds

    def stored(self) -> dict[str, set[str]]:
        tables = self.runtime.tables() + self.runtime.tables(by_rows=True)
        return {table.label: set(map(words, table.partials)) for table in tables}

    def table(self, name: str) -> dict[str, Any]:
        tables = self.session.stats()["streams"]["s"]["pane_tables"]
        return next(dict(table) for table in tables if table["name"] == name)

    def turns(self) -> Iterator[tuple[object, str, tuple[str, ...]]]:
        """When, in which group, and for whom something was executed."""
        for executed in self.session.schedule()["executed"]:
            for turn in executed["turns"]:
                yield executed["as_of"], turn["group"], turn["queries"]


def words(partial: Partial) -> str:
    text = partial.kind if partial.argument is None else f"{partial.kind}({partial.argument})"
    return text if partial.predicate is None else f"{text} where {partial.predicate}"


def told(story: Story, name: str, text: str) -> Said:
    synopsis = "" if story.synopsis is None else f" SYNOPSIS {story.synopsis}"
    return Said(str(story.session.explain(f"REGISTER QUERY {name} AS {text}{synopsis}")))


# A comma that is not in a list of values.
_COMMA = re.compile(r", (?![^(]*\))")


def check_state(story: Story, name: str, said: Said, before: dict[str, set[str]]) -> None:
    """Which table, cut how; which partials are stored for the query alone, for others too, or not at all."""
    known, now = before.get(said.table, set()), story.stored()[said.table]
    table = story.table(said.table)
    assert name in table["queries"] and table["pane"].split()[0] == said.pane.split()[0]
    assert said.partials
    for partials, how in said.partials.items():
        for partial in _COMMA.split(partials):
            assert (partial in known, partial in now) == {"new": (False, True), "shared": (True, True),
                                                         "not": (False, False)}[how.split()[0]], partial  # fmt: skip
    parts = re.search(r"combined as \((.*)\) \(SS4\)", said.text)
    assert table["covered"].get(name, []) == ([] if parts is None else re.split(r"\) [+-] \(", parts[1]))
    covers = [decision for decision in said.rules.values() if decision.startswith("shared (SS4)")]
    assert bool(covers) == (name in table["covered"])
    for what, decision in said.rules.items():
        if what.startswith("state of"):
            assert decision.startswith("shared") == (set(said.partials) <= known or name in table["covered"])


def leader_of(story: Story, name: str) -> str:
    active = story.runtime.active[name]
    return active.home.schedule.leader(active).name


def identity(story: Story, name: str) -> Hashable:
    return identity_of(story.runtime.active[name].compiled)


def check_computation(story: Story, name: str, said: Said) -> None:
    """With whom a query is executed, and from which synopsis."""
    queries = story.session.stats()["queries"]
    turns = [(as_of, group, names) for as_of, group, names in story.turns() if name in names]
    assert turns
    if said.leader is not None:
        leader = story.session.queries[said.leader]
        mine = story.session.queries[name]
        assert all(said.leader in names for _, _, names in turns), "executed with its leader only"
        assert mine.latest().table is leader.latest().table, "one table for both"
        return
    assert {group for _, group, _ in turns} == {said.group} == {queries[name]["sub_group"]}
    same = {other for other, facts in queries.items() if facts.get("sub_group") == said.group}
    # Identical queries are followers, not mates: also while windows have panes of two lengths, and nobody follows.
    mates = {other for other in same if identity(story, other) != identity(story, name)}
    together = said.rules.get("computed together")
    if together is not None:
        assert together.startswith("shared") == bool(mates), mates
    else:
        assert not mates
    task = next(task for task in story.table(said.table)["tasks"] if name in task["queries"])
    assert said.sub_group <= set(task["queries"])
    (group,) = [each for each in story.runtime.groups.values() if each.label == said.table]
    bound = story.runtime.active[name].readings[0]
    assert group.choices.place(bound.stored, group.panes).kind == said.synopsis


STORIES = [(SCANNED, 41, None), (LOOKED_UP, 7, None), *((queries, 41, kind) for kind, queries in WISHED.items())]


@pytest.mark.parametrize(
    ("queries", "seconds", "synopsis"), STORIES, ids=["scanned", "looked up", "running", "interval", "landmark"]
)
def test_what_is_said_is_done(queries: Queries, seconds: int, synopsis: str | None) -> None:
    check_story(Story(synopsis), queries, seconds)


WHATS = (
    "SUM(v) AS t",
    "COUNT(v) AS n",
    "AVG(v) AS m",
    "MAX(v) AS hi",
    "MIN(w) AS lo",
    "MEDIAN(v) AS d",
    "COUNT(*) AS n",
)
WHERES = ("", " WHERE v = 1", " WHERE v = 2", " WHERE v IN (1, 2)", " WHERE v IN (0, 1, 2)")


@st.composite
def some_query(draw: st.DrawFn) -> str:
    what, where = draw(st.sampled_from(WHATS)), draw(st.sampled_from(WHERES))
    window, slide = draw(st.sampled_from((5, 10, 20, 200))), draw(st.sampled_from((5, 10, 20)))
    lag = draw(st.sampled_from(("", " LAG 5 sec")))
    span = f"[WINDOW {window} sec SLIDE {slide} sec{lag}]"
    keys = draw(st.booleans())
    return f"SELECT {'k, ' * keys}{what} FROM s {span}{where}{' GROUP BY k' * keys}"


@settings(max_examples=examples(60))
@given(
    texts=st.lists(some_query(), min_size=2, max_size=6),
    mode=st.sampled_from(("auto", "always", "never")),
    policy=st.sampled_from(("conservative", "hybrid-late-pending")),
)
def test_what_is_said_of_any_queries_is_done(texts: list[str], mode: str, policy: str) -> None:
    story = Story(share_predicates=mode, policy=policy)
    check_story(story, {f"q{number}": (text, ()) for number, text in enumerate(texts)}, 21)


def check_story(story: Story, queries: Queries, seconds: int) -> None:
    for name, (text, rules) in queries.items():
        before, facts = story.stored(), story.session.stats()
        said = told(story, name, text)
        assert set(rules) <= said.named, said.text
        assert (story.stored(), story.session.stats()) == (before, facts), "to explain changes nothing"
        story.register(name, text)
        story.run(seconds)
        check_state(story, name, said, before)
        check_computation(story, name, said)
        assert told(story, name, text).rules == said.rules, "the decisions are kept"
    for name, (text, _) in queries.items():
        check_now(story, name, told(story, name, text))
    story.session.close()


def check_now(story: Story, name: str, said: Said) -> None:
    """What is said of a query after others have come: its table, its synopsis, its task, whose answers it gets."""
    active, facts = story.runtime.active[name], story.session.stats()["queries"][name]
    if active.home.schedule.is_plain:
        return  # While windows have panes of two lengths, every query has its own SLIDE; EXPLAIN says what comes then.
    assert facts["pane_table"] == said.table and name in story.table(said.table)["queries"]
    assert leader_of(story, name) == (said.leader or name)
    if said.leader is None:
        assert facts["sub_group"] == said.group
        assert active.home.choices.place(active.readings[0].stored, active.home.panes).kind == said.synopsis
    output = said.rules.get("output")
    assert (said.leader is not None) == (output is not None and output.startswith("shared"))


def test_a_decision_is_made_anew_when_mates_leave() -> None:
    story = Story()
    for name in ("long", "twin", "short", "divided"):
        story.register(name, LOOKED_UP[name][0])
        story.run(7)
    text = LOOKED_UP["divided"][0]
    assert told(story, "divided", text).rules["computed together"].startswith("shared (CS3)")
    story.session.drop_query("long")
    story.run(7)
    assert told(story, "divided", text).rules["computed together"].startswith("shared (CS3)")
    story.session.drop_query("twin")
    story.run(7)
    assert "computed together" not in told(story, "divided", text).rules
    story.session.close()


def test_the_faster_of_identical_queries_leads_from_then_on() -> None:
    story = Story()
    for name in ("first", "sums"):
        story.session.register(SCANNED[name][0], name)
    story.run(41)
    said = told(story, "often", SCANNED["often"][0])
    assert said.leader is None and said.rules["output"].startswith("not shared (CS8): sums is computed every 20 sec")
    story.session.register(SCANNED["often"][0], "often")
    story.run(41)
    now = told(story, "sums", SCANNED["sums"][0])
    assert now.leader == "often" and now.rules["output"].startswith("shared (CS8): often is the same query")
    assert story.session.queries["sums"].latest().table is story.session.queries["often"].latest().table
    story.session.close()


def test_a_query_that_no_micro_batch_has_met_yet_is_known() -> None:
    """Neither is one that was dropped since the last micro-batch."""
    story = Story()
    story.session.register(SCANNED["first"][0], "first", lifetime="1 hour")
    story.session.register(SCANNED["sums"][0], "sums")
    assert told(story, "seldom", SCANNED["seldom"][0]).leader == "sums"
    story.run(41)
    story.session.drop_query("sums")
    said = told(story, "seldom", SCANNED["seldom"][0])
    assert said.leader is None and said.partials["sum(v)"] == "new"
    assert set(story.runtime.active) == {"first", "sums"}
    story.session.register(SCANNED["seldom"][0], "seldom")
    story.run(41)
    assert set(story.runtime.active) == {"first", "seldom"} and story.session.queries["seldom"].answered
    story.session.close()


@pytest.mark.parametrize("mode", ["never", "always"])
def test_a_cover_that_is_not_wanted_is_not_shared(mode: str) -> None:
    story = Story()
    story.session.close()
    story.session = SparklessSession(share_predicates=mode)
    story.session.declare(stream())
    for name in ("first", "ones", "twos"):
        story.session.register(SCANNED[name][0], name)
    story.run(21)
    before, (text, _) = story.stored(), SCANNED["both"]
    said = told(story, "both", text)
    (decision,) = [each for what, each in said.rules.items() if what.startswith("state of")]
    assert decision.startswith("shared (SS4)" if mode == "always" else "not shared (SS4): share_predicates is 'never'")
    story.session.register(text, "both")
    story.run(21)
    assert (story.stored() == before) == (mode == "always")
    story.session.close()


def test_without_sharing_nobody_reads_an_output() -> None:
    story = Story()
    story.session.close()
    story.session = SparklessSession(policy="no-sharing")
    story.session.declare(stream())
    story.session.register(SCANNED["sums"][0], "sums")
    story.run(41)
    said = told(story, "seldom", SCANNED["seldom"][0])
    assert "output" not in said.rules and said.leader is None
    story.session.register(SCANNED["seldom"][0], "seldom")
    story.run(81)
    assert story.session.queries["seldom"].answered < story.session.queries["sums"].answered
    story.session.close()


# -- joins ---------------------------------------------------------------------------------------------

JOIN = "SELECT {what} FROM s [WINDOW {first} sec SLIDE 1 sec], t [WINDOW {second} sec SLIDE 1 sec] WHERE s.a = t.a"


def join(what: str, first: int, second: int) -> str:
    return JOIN.format(what=what, first=first, second=second)


JOINS = {
    "equal": join("MAX(s.b) AS hi", 4, 4),
    "shorter": join("MAX(s.b) AS hi", 2, 2),
    "apart": join("COUNT(*) AS n", 4, 3),
}


def joins_of(what: str) -> dict[str, str]:
    return {"q": join(what, 8, 8), "twin": join(what, 8, 8), "short": join(what, 4, 4)}


# Queries over one join, and how many groups there are thought to be, by the kind of synopsis that is chosen then.
KINDS = {
    "basic": (JOINS, 1),
    "interval": (joins_of("MAX(s.b) AS hi"), 1000),
    "running": (joins_of("COUNT(*) AS n"), 1),
    "table": ({f"q{n}": join("COUNT(*) AS n", n % 7 + 1, n % 11 + 1) for n in range(80)}, 1000),
}


@pytest.mark.parametrize("kind", KINDS)
def test_queries_over_one_join_are_executed_as_is_said(kind: str) -> None:
    """All founders: the layout has a place for each, by SS3; who has the same group is executed in one turn."""
    texts, groups = KINDS[kind]
    queries = {name: query_of(text) for name, text in texts.items()}
    group = JoinGroup(queries, JoinLoad(groups=groups))
    rows: Tuples = {
        name: [(SEC * i + place, {"a": i % 2, "b": i, "c": "x", "d": 0.5, "e": i}) for i in range(1, 12)]
        for place, name in enumerate(("s", "t"))
    }
    for changes, _, high in epochs(group.plan, rows, [SEC * 6, SEC * 12]):
        group.absorb(group.rows(changes))
        list(group.advance(high - 1, begins(rows, high)))
    turns = [turn for executed in group.timeline.executed(group) for turn in executed.turns]
    assert turns
    places = {name: group.layout.place_of(query) for name, query in queries.items()}
    for name, place in places.items():
        assert place is not None and place.decision.rule == "SS3" and place.decision.allowed
        assert place.part.kind == kind and place.together.rule == ("CS5" if kind == "basic" else "CS4")
        mates = {other for other, each in places.items() if each is not None and each.group == place.group}
        is_mate = {other for other, each in places.items() if kind == "basic" or each.pair == place.pair}  # type: ignore[union-attr]
        assert mates == is_mate, "one scan for all windows, one lookup for equal ones"
        mine = [turn for turn in turns if name in turn.queries]
        assert {turn.group for turn in mine} == {place.group}
        assert all(set(turn.queries) == mates for turn in mine)


@pytest.mark.parametrize(("text", "why"), [
    (join("MAX(s.b) AS hi", 9, 9), "windows of 9 sec and 9 sec are longer"),
    (join("MAX(s.e) AS hi", 4, 4), "column s.e is not kept"),
    (join("MAX(s.b) AS hi", 1, 4), "no synopsis without groups answers windows of 1 and 4 panes"),
])  # fmt: skip
def test_a_query_that_a_join_group_does_not_keep_is_apart(text: str, why: str) -> None:
    group = JoinGroup({name: query_of(each) for name, each in JOINS.items() if name != "apart"})
    asked = query_of(text)
    assert group.layout.place_of(asked) is None
    refused = group.layout.why_not(asked)
    assert refused is not None and why in refused
    with pytest.raises(ValueError, match="does not keep"):
        group.enter("late", asked)


def test_explain_of_a_join_names_the_rules() -> None:
    statement = parse(f"EXPLAIN {JOINS['equal']}")
    assert isinstance(statement, Explain)
    known = catalog()
    decision = unmeasured(route_plan(plan_changes(bind(statement.select, known))))
    shown, place = explain_continuous(decision), decision.group and decision.group.place_of(query_of(JOINS["equal"]))
    assert place is not None
    rule = "(CS5)" if place.part.kind == "basic" else "(CS4)"
    assert f"{place.decision.reason} (SS3); " in shown and rule in shown


# -- questions -----------------------------------------------------------------------------------------


def test_explain_names_the_rows_where_panes_came_later_than_the_window() -> None:
    """A query that came after the first micro-batch has panes of a part of the window; the stored rows have all."""
    session = SparklessSession()
    session.declare(replace(stream(), keep=40 * SEC))
    session.push("s", tuples(*((second, 1, 1) for second in range(1, 11))))
    session.register("SELECT k, SUM(v) AS t FROM s [WINDOW 20 sec SLIDE 5 sec] GROUP BY k", "late")
    question = "SELECT k, SUM(v) AS t FROM s [WINDOW 20 sec] GROUP BY k"
    for seconds, way in (
        (range(11, 22), "over the stored rows (KEEP 40 sec), because panes begin later than its window"),
        (range(22, 42), "answered from pane table s by (k)"),
    ):
        session.push("s", tuples(*((second, 1, 1) for second in seconds)))
        assert way in session.explain(question)
        answer = session.query(question)
        assert answer["t"].to_pylist() == [20] and answer.schema.metadata[b"complete"] == b"true"
