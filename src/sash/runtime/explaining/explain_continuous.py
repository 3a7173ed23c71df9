"""EXPLAIN of a continuous query: its plan, the update pattern of every edge, its stages, its state, and its expected
cost under each execution strategy.

Also EXPLAIN of INTERSECT and EXCEPT of two windows that a set-valued index answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sash.core.changes import UpdatePattern
from sash.core.time import format_duration, to_datetime
from sash.plan.continuous import (
    AUTO,
    NT,
    UPA,
    Distinct,
    Node,
    inputs,
    is_stream,
    path_below,
    sampling_of,
    streams_of,
    windows,
)
from sash.plan.costs import cost, costs_by_kind
from sash.plan.lazy_joins import eagerly, evaluation_of
from sash.plan.set_windows import Side, WindowedSet
from sash.plan.shared_joins import joined_aggregate
from sash.plan.stages import EVERYWHERE, StagePlan, Target, stages
from sash.rows.set_index import DEFAULT_DIRECTORY
from sash.runtime.continuous.continuous_queries import PlanDecision
from sash.runtime.continuous.join_layout import JoinLayout
from sash.runtime.continuous.set_runtime import SetQuery
from sash.runtime.explaining.explain_joins import explain_joins
from sash.runtime.route import SelectDecision
from sash.sharing.descriptions import SCANNED

_NAMES = {"list": "L-INDEX", "tree": "T-INDEX", "hash": "H-INDEX", "unsorted": "UH-INDEX"}


def explain_sets(asked: WindowedSet, mates: Sequence[str] = ()) -> Iterator[str]:
    """Which index answers, what it counts, and which queries ask the same."""
    kind = "G-INDEX" if asked.groups is not None else _NAMES[DEFAULT_DIRECTORY]
    counted = "group of values" if asked.groups is not None else "value"
    yield f"Answered from one {kind} of both windows, with two counts for each {counted}"
    yield f"  {_answer(asked)}"
    for side, name in zip(asked.sides, ("first", "second"), strict=True):
        yield f"  {name} count: {_window(side, asked.pane)}"
    yield f"On Spark: the values of each pane of {format_duration(asked.pane)} are counted; no tuple leaves it"
    yield f"Shared with {', '.join(mates)}" if mates else "Not shared yet"


def _answer(asked: WindowedSet) -> str:
    if asked.groups is not None:
        return f"INTERSECT: ranges in which both counts are above 0; at most {asked.groups} groups, which grow"
    if asked.negated:
        return "EXCEPT: values of which the first count is above 0, and the second is 0"
    return "INTERSECT: values of which both counts are above 0"


def _window(side: Side, pane: int) -> str:
    steps = "".join(f", {step.describe()}" for step in side.steps)
    return f"{side.window.describe()}, {side.length // pane} panes{steps}"


_PATTERNS = (
    "  MON  never expires",
    "  WKS  first in, first out: stored as it comes",
    "  WK   its expiry is known: stored in a calendar queue",
    "  STR  may be taken back: stored by its identity",
)
_KINDS = {
    "tuples": "tuples taken and given",
    "chunks": "writing chunks",
    "passed": "reading state",
    "searched": "searching state",
    "remade": "rewriting state",
    "sorted": "sorting",
    "kept": "keeping windows",
}


def explain_select(decision: SelectDecision, answer: str | None, explain_changes: Callable[[Node], str]) -> str:
    """Both explanations of a SELECT without SLIDE, or the only one. `answer` explains the decision's answer."""
    texts = [] if answer is None else [answer]
    if decision.changes is not None:
        heading = "REGISTER QUERY .. AS would make it continuous:\n" if texts else ""
        texts.append(f"{heading}{explain_changes(decision.changes)}")
    if decision.refusal is not None:
        texts.append(f"It cannot be registered without SLIDE: {str(decision.refusal).splitlines()[0]}")
    return "\n\n".join(texts)


def explain_continuous(decision: PlanDecision) -> str:
    plan, strategy = decision.choice.plan, decision.choice.strategy
    if decision.group is not None:
        joins = explain_joins(decision.group.plan, decision.current, strategy)
        shared = [*_from_synopses(decision, decision.group), *explain_plan(decision.group.plan)[1:]]
        return "\n".join([_title(plan), *shared, *joins, *_beginning(decision)])
    if isinstance(decision.query, SetQuery):
        sets = explain_sets(decision.query.asked, decision.mates)
        return "\n".join([_title(decision.written), *sets, *_beginning(decision)])
    joins = explain_joins(plan, decision.current, strategy)
    own = _own_join(decision)
    why = [*_rewriting(decision), *_evaluation(decision), *own, *joins, *_execution(decision), *_beginning(decision)]
    return "\n".join([*explain_plan(plan), *why])


def explain_plan(plan: Node) -> list[str]:
    every = stages(plan)
    exchanges = {path: f"Exchange {_by([column])}" for stage in every for path, column in stage.lower.items()}
    shown = [f"  {'  ' * depth}{line}" for depth, line in _tree(plan, "", 0, exchanges)]
    used = [line for line in _PATTERNS if any(each.endswith(f"-> {line.split()[0]}") for each in shown)]
    title = [_title(plan), "Plan, each edge with its update pattern"]
    return [*title, *shown, *used, *_growth(plan), *_on_spark(plan, every)]


def _tree(node: Node, path: str, depth: int, exchanges: dict[str, str]) -> Iterator[tuple[int, str]]:
    """The plan from the answer down, each node with the pattern of the edge above it; and the exchanges."""
    if path in exchanges:
        yield depth, exchanges[path]
        depth += 1
    yield depth, f"{node.describe()}  -> {node.pattern.label}"
    for place, below in enumerate(inputs(node)):
        yield from _tree(below, path_below(path, place), depth + 1, exchanges)


def _growth(plan: Node) -> list[str]:
    if is_stream(plan) or plan.pattern is not UpdatePattern.MONOTONIC or not _has_endless_rows(plan):
        return []
    return ["View: grows for ever, because no result expires; Istream(..) has the results without a view"]


def _has_endless_rows(node: Node) -> bool:
    """Whether it has more and more rows; Distinct is over finitely many values where it is over a whole stream."""
    below = inputs(node)
    return not isinstance(node, Distinct) and (not below or any(map(_has_endless_rows, below)))


# -- aggregates over a join ----------------------------------------------------------------------------------


def _from_synopses(decision: PlanDecision, layout: JoinLayout) -> Iterator[str]:
    """What answers, why, and which queries share the join and the synopses."""
    joined = joined_aggregate(decision.written)
    place = None if joined is None else layout.place_of(joined)
    assert place is not None
    table, (first, second) = layout.tables[place.table], layout.cut.windows
    panes = f"panes of {format_duration(layout.cut.length)}"
    groups = f", by {', '.join(table.keys)}" if table.keys else ""
    yield f"Answered from a join synopsis over {place.pair.first} and {place.pair.second} {panes}{groups}"
    yield f"  {table.choice.reason}"
    scanned = place.part.synopsis_kind in SCANNED
    together = (
        "one scan answers all windows that are due (CS5)" if scanned else "looked up once for equal windows (CS4)"
    )
    yield f"  {place.decision.reason} ({place.decision.rule}); {together}"
    windows = f"windows of {format_duration(first)} and {format_duration(second)}"
    alone = "not shared yet" if decision.apart is None else f"not shared with {decision.apart}"
    shared = f"shared with {', '.join(decision.mates)}" if decision.mates else alone
    yield f"One join over {windows}: {shared}"


def _own_join(decision: PlanDecision) -> list[str]:
    """Why an aggregate over a join does not share it."""
    if decision.execution in (AUTO, UPA) or joined_aggregate(decision.written) is None:
        return []
    return [f"One join for this query alone: SET EXECUTION {decision.execution} gives it its own plan"]


def _beginning(decision: PlanDecision) -> list[str]:
    """When a query that comes after its streams' first tuples has seen enough."""
    if decision.late is None:
        return []
    known = decision.late.complete_from
    when = "never complete" if known is None else f"complete as of {to_datetime(known).isoformat()} at the earliest"
    return [f"Begins with empty windows, because its streams have begun: {when}"]


# -- what was chosen, and why -----------------------------------------------------------------------------


def _rewriting(decision: PlanDecision) -> list[str]:
    """What the optimiser's change of the plan gains."""
    chosen = decision.choice
    if eagerly(chosen.plan) == decision.written:
        return []
    before = cost(decision.written, decision.statistics, chosen.strategy)
    return [f"Rewritten: {_ms(chosen.prices[chosen.strategy])} per second expected, {_ms(before)} as written"]


def _evaluation(decision: PlanDecision) -> list[str]:
    """Whether a join under SLIDE is computed at the multiples alone, and what the other way would cost."""
    prices, lazy = decision.choice.evaluations, evaluation_of(decision.choice.plan)
    if prices is None:
        return []
    like = "" if decision.like is None else f", as query '{decision.like}'"
    if lazy is None:
        costs = f"{_ms(prices.eager)} per second expected, {_ms(prices.lazy)} at the multiples alone"
        return [f"Evaluated by every micro-batch{like}: {costs}"]
    algorithm = f"algorithm {5 if lazy.restores else 4} of the thesis"
    costs = f"{_ms(prices.lazy)} per second expected, {_ms(prices.eager)} by every micro-batch"
    return [f"Evaluated at the multiples alone ({algorithm}){like}: {costs}"]


def _execution(decision: PlanDecision) -> list[str]:
    chosen = decision.choice
    prices = ", ".join(f"{strategy} {_ms(price)}" for strategy, price in chosen.prices.items())
    return [
        f"Execution: {chosen.strategy}, {_why(decision)}",
        f"  expected per second of event time: {prices} (direct is never chosen)",
        *(f"  {line}" for line in _known(decision)),
    ]


def _why(decision: PlanDecision) -> str:
    if decision.like is not None:
        return f"as query '{decision.like}', which is the same"
    if decision.execution != AUTO:
        return "because SET EXECUTION says so"
    if NT not in decision.choice.candidates:
        return "because its answer never takes rows back"
    return f"the cheaper of upa and nt: {_difference(decision)}"


def _difference(decision: PlanDecision) -> str:
    """The kinds of work that speak most for negative tuples, and most against them."""
    plan, known = decision.choice.plan, decision.statistics
    upa, nt = (costs_by_kind(plan, known, strategy) for strategy in (UPA, NT))
    more = {kind: nt[kind] - upa[kind] for kind in nt}
    dearest, spared = max(more, key=more.__getitem__), min(more, key=more.__getitem__)
    against = f"negative tuples cost {_ms(more[dearest])} more for {_KINDS[dearest]}"
    return against if more[spared] >= 0 else f"{against} and {_ms(-more[spared])} less for {_KINDS[spared]}"


def _known(decision: PlanDecision) -> list[str]:
    """The numbers behind the prices, and their sources."""
    known, plan = decision.statistics, decision.choice.plan
    rates = [
        f"{stream} {known.rates.get(stream.lower(), known.rate):,.6g} tuples per second "
        f"({'measured' if stream.lower() in known.rates else 'assumed'})"
        for stream in streams_of(plan)
    ]
    source = "measured" if known.rates else "assumed"
    other = [
        *(f"{name}: {number:.3g} of the tuples" for name, number in known.selectivities.items()),
        *(f"{name}: about {number:,.0f} values" for name, number in known.distinct.items()),
    ]
    lines = [f"{', '.join(rates)}; {known.epochs:,.3g} micro-batches per second ({source})"]
    return [*lines, *(f"{line} (measured)" for line in other)]


def _ms(micros: float) -> str:
    return f"{micros / 1_000:,.3g} ms" if micros < 1e6 else f"{micros / 1_000:,.0f} ms"


def _title(plan: Node) -> str:
    sampling = sampling_of(plan)
    if sampling is not None:
        return f"Continuous, answered at the multiples of {format_duration(sampling.slide)}"
    return "Continuous: every arrival and every expiry changes the answer"


def _on_spark(plan: Node, every: Sequence[StagePlan]) -> list[str]:
    """How each stage is spread over buckets, from the windows up."""
    if len(every) == 1:
        reason = "" if every[0].spread else ", because no column is a key of all compared inputs"
        return [f"On Spark: {_buckets(plan, every[0])}{reason}"]
    numbered = enumerate(every, 1)
    shown = (f"  {number}  {_buckets(plan, stage)}" for number, stage in numbered)
    return [f"On Spark: {len(every)} stages", *shown]


def _buckets(plan: Node, stage: StagePlan) -> str:
    if not stage.spread:
        return "one bucket"
    copied = [windows(plan)[place].alias for place, target in stage.windows.items() if target is EVERYWHERE]
    copied += ["the exchanged changes" for target in stage.lower.values() if target is EVERYWHERE]
    everywhere = f"; every bucket has {', '.join(copied)}" if copied else ""
    return f"buckets {_by([*stage.windows.values(), *stage.lower.values()])}{everywhere}"


def _by(targets: Sequence[Target]) -> str:
    named = sorted({target for target in targets if isinstance(target, str)})
    if not named:
        return "to every bucket" if EVERYWHERE in targets else "into one bucket"
    return f"by {', '.join(named)}"
