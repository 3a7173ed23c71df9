"""An explanation is made of sections: what stands in a query's text does not divide them."""

from __future__ import annotations

import copy
import pickle

from sash.catalog import Catalog, Route
from sash.core.time import SECOND
from sash.plan.continuous import UPA, Aggregated, GroupBy
from sash.plan.estimates import Statistics
from sash.runtime.compiler import as_select
from sash.runtime.explaining.explain import explain_select
from sash.runtime.explaining.explain_continuous import explain_state
from sash.runtime.explaining.explain_stored import explain_rows
from sash.runtime.explaining.explanation import Explanation, Section
from sash.runtime.route import RouteDecision, SelectDecision
from sash.sql import bind_stored
from tests.runtime.test_explain_stages import JOIN
from tests.support.plans import INT
from tests.support.streams import stream

PARTS = (Section("State of GroupBy a: MAX(b)", "small", ["  as: it is"]), Section("Plan"), Section("Plan", "b"))


def test_a_title_may_have_a_colon() -> None:
    made = Explanation(PARTS)
    assert made == "State of GroupBy a: MAX(b): small\n  as: it is\nPlan\nPlan: b"
    assert made.sections == {"state of groupby a: max(b)": "small\n  as: it is", "plan": "b"}
    longest = GroupBy(JOIN, ("S.a",), (Aggregated("longest", "max", "T.b", INT),))
    (found,) = Explanation(explain_state(longest, Statistics(), UPA)).sections
    assert found == f"State of {longest.describe()}".lower()


def test_a_line_of_a_text_is_no_title() -> None:
    known = Catalog()
    known.add_stream(stream(keep=60 * SECOND))
    text = "SELECT v FROM s [WINDOW 4 sec] WHERE CAST(v AS STRING) = 'a\nPlan: b'"
    made = explain_rows(bind_stored(as_select(text), known))
    assert "\nPlan: b'" in made and list(made.sections) == ["one-time"]


def test_two_explanations_are_one() -> None:
    def explain_changes(routed: RouteDecision) -> Explanation:
        return Explanation([Section("Continuous", "always"), Section("Plan", lines=["  Window s"])])

    question = Explanation([Section("One-time", "by Spark")])
    both = explain_select(SelectDecision(changes=RouteDecision(Route.CHANGES)), question, explain_changes)
    heading = "REGISTER QUERY .. AS would make it continuous:"
    assert both == f"One-time: by Spark\n\n{heading}\nContinuous: always\nPlan\n  Window s"
    assert list(both.sections) == ["one-time", heading.lower(), "continuous", "plan"]


def test_copies_have_the_sections() -> None:
    made = Explanation(PARTS)
    for again in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again == made and again.parts == made.parts
