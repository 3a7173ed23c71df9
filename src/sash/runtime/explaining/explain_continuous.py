"""EXPLAIN of a continuous query: its plan, the update pattern of every edge, its stages, its state, and its expected
cost under each execution strategy.

Also EXPLAIN of INTERSECT and EXCEPT of two windows that a set-valued index answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sash.catalog import Route, Stream
from sash.changes.buffers import buffer_for
from sash.core.changes import UpdatePattern
from sash.core.time import SECOND, format_duration, to_datetime
from sash.plan.continuous import (
    AUTO,
    NT,
    UPA,
    Distinct,
    GroupBy,
    Intersection,
    Join,
    Negation,
    Node,
    RememberedValues,
    drops_outdone,
    edges,
    executed_pattern,
    inputs,
    is_stream,
    path_below,
    sampling_of,
    strategy_below,
    streams_of,
    windows,
)
from sash.plan.costs import STORING, cost, costs_by_kind
from sash.plan.estimates import Statistics, flow_above, graph_inputs, matched_in, partial_combinations, values_of
from sash.plan.join_order import (
    GraphInput,
    JoinExecution,
    JoinInput,
    Number,
    augmented,
    connected_order,
    written_order,
)
from sash.plan.join_order import (
    cost as order_cost,
)
from sash.plan.lazy_joins import eagerly, evaluation_of, join_execution, keeps_times
from sash.plan.multi_join import MultiJoin
from sash.plan.punctuations import useful_promises
from sash.plan.set_windows import Side, WindowedSet
from sash.plan.stages import EVERYWHERE, StagePlan, Target, stages
from sash.rows.set_index import DEFAULT_DIRECTORY
from sash.runtime.continuous.continuous_queries import PlanDecision
from sash.runtime.continuous.join_layout import JoinLayout
from sash.runtime.explaining.explanation import Explanation, Section, time_sections

_NAMES = {"list": "L-INDEX", "tree": "T-INDEX", "hash": "H-INDEX", "unsorted": "UH-INDEX"}


def explain_sets(asked: WindowedSet, mates: Sequence[str] = ()) -> Iterator[Section]:
    """Which index answers, what it counts, and which queries ask the same."""
    kind = "G-INDEX" if asked.groups is not None else _NAMES[DEFAULT_DIRECTORY]
    counted = "group of values" if asked.groups is not None else "value"
    sides = zip(asked.sides, ("first", "second"), strict=True)
    counts = [f"  {name} count: {_window(side, asked.pane)}" for side, name in sides]
    title = f"Answered from one {kind} of both windows, with two counts for each {counted}"
    yield Section(title, lines=[f"  {_answer(asked)}", *counts])
    yield Section(
        "On Spark", f"the values of each pane of {format_duration(asked.pane)} are counted; no tuple leaves it"
    )
    yield Section(f"Shared with {', '.join(mates)}" if mates else "Not shared yet")


def _answer(asked: WindowedSet) -> str:
    if asked.groups is not None:
        return f"INTERSECT: ranges in which both counts are above 0; at most {asked.groups} groups, which grow"
    if asked.negated:
        return "EXCEPT: values of which the first count is above 0, and the second is 0"
    return "INTERSECT: values of which both counts are above 0"


def _window(side: Side, pane: int) -> str:
    steps = "".join(f", {step.describe()}" for step in side.steps)
    return f"{side.window.describe()}, {side.length // pane} panes{steps}"


_PATTERNS = {
    UpdatePattern.MONOTONIC: "never expires",
    UpdatePattern.WEAKEST: "first in, first out: stored as it comes",
    UpdatePattern.WEAK: "its expiry is known: stored in a calendar queue",
    UpdatePattern.STRICT: "may be taken back: stored by its identity if most tuples are, else in a calendar queue",
}
_KINDS = {
    "tuples": "tuples taken and given",
    "chunks": "writing chunks",
    "passed": "reading state",
    "searched": "searching state",
    "remade": "rewriting state",
    "sorted": "sorting",
    "kept": "keeping windows",
}


def explain_continuous(decision: PlanDecision, streams: Iterable[Stream] = ()) -> Explanation:
    """`streams` are those that the plan reads."""
    order = [] if decision.routed.order is None else [Section(decision.routed.order.describe())]
    return Explanation([*_explained(decision), *order, *time_sections(streams)])


def _explained(decision: PlanDecision) -> list[Section]:
    plan, strategy = decision.choice.plan, decision.choice.strategy
    if decision.group is not None:
        joins = explain_joins(decision.group.plan, decision.current, strategy)
        shared = [*_from_synopses(decision, decision.group), *explain_plan(decision.group.plan)[1:]]
        return [_title(plan), *shared, *joins, *_beginning(decision)]
    asked = decision.routed.windowed_set if decision.routed.route is Route.SETS else None
    if asked is not None:
        sets = explain_sets(asked, decision.mates)
        return [_title(decision.routed.written), *sets, *_beginning(decision)]
    joins = explain_joins(plan, decision.current, strategy)
    state = [*explain_state(plan, decision.current, strategy), *explain_promises(plan, strategy)]
    own = [*state, *_own_join(decision), *_nested(decision)]
    chosen = [*_rewriting(decision), *_replanning(decision), *_evaluation(decision)]
    why = [*chosen, *own, *joins, _execution(decision), *_beginning(decision)]
    return [*explain_plan(plan), *why]


def explain_plan(plan: Node) -> list[Section]:
    every = stages(plan)
    exchanges = {path: f"Exchange {_by([column])}" for stage in every for path, column in stage.lower.items()}
    shown = [f"  {'  ' * depth}{line}" for depth, line in _tree(plan, "", 0, exchanges)]
    patterns = {node.pattern for _, node in edges(plan)}
    used = [f"  {pattern.label:3}  {text}" for pattern, text in _PATTERNS.items() if pattern in patterns]
    edged = Section("Plan, each edge with its update pattern", lines=[*shown, *used])
    return [_title(plan), edged, *_growth(plan), _on_spark(plan, every)]


def _tree(node: Node, path: str, depth: int, exchanges: dict[str, str]) -> Iterator[tuple[int, str]]:
    """The plan from the answer down, each node with the pattern of the edge above it; and the exchanges."""
    if path in exchanges:
        yield depth, exchanges[path]
        depth += 1
    yield depth, f"{node.describe()}  -> {node.pattern.label}"
    for place, below in enumerate(inputs(node)):
        yield from _tree(below, path_below(path, place), depth + 1, exchanges)


def explain_state(node: Node, known: Statistics, strategy: str) -> Iterator[Section]:
    """The buffers that depend on the data, the groups that keep few tuples, and what bounds the memory of whole
    streams; from the answer down."""
    if isinstance(node, GroupBy) and drops_outdone(node, strategy):
        yield Section(f"State of {node.describe()}", "without tuples that another one outlives and outdoes")
    if _remembers_values(node):
        bounded = "bounded, a row for each value: conditions and tables leave finitely many"
        yield Section(f"State of {node.describe()}", bounded)
    lower = strategy_below(node, strategy)
    for below in inputs(node):
        if isinstance(node, STORING) and executed_pattern(below, strategy) is UpdatePattern.STRICT and strategy == UPA:
            yield _stored(below, known)
        yield from explain_state(below, known, lower)


def _remembers_values(node: Node) -> bool:
    """Whether it stands for all tuples of whole streams (thesis 2.2.1)."""
    is_whole = isinstance(node, Distinct) and node.pattern is UpdatePattern.MONOTONIC
    return is_whole or isinstance(node, RememberedValues)


def explain_promises(plan: Node, strategy: str) -> Iterator[Section]:
    """The columns about which a promise lets an operator forget tuples."""
    for node, columns in useful_promises(plan, strategy):
        names = ", ".join(dict.fromkeys(f"{each.stream}.{each.column}" for each in columns))
        yield Section(f"punctuate() on {names} frees state of {node.describe()}")


def _stored(node: Node, known: Statistics) -> Section:
    part = flow_above(node, known, UPA).announced
    kind = buffer_for(UpdatePattern.STRICT, taken_back=part).kind
    matched = [matched_in(each) for _, each in edges(node) if isinstance(each, Negation | Intersection)]
    source = "measured" if any(name in known.taken_back for name in matched) else "assumed"
    ends = f"{part:.0%} of its tuples are taken back ({source})" if part < 1 else "all of its tuples are taken back"
    return Section(f"State of {node.describe()}", f"{kind}, because {ends}")


def _growth(plan: Node) -> list[Section]:
    if is_stream(plan) or plan.pattern is not UpdatePattern.MONOTONIC or not _has_endless_rows(plan):
        return []
    return [Section("View", "grows for ever, because no result expires; Istream(..) has the results without a view")]


def _has_endless_rows(node: Node) -> bool:
    """Whether it has more and more rows; Distinct is over finitely many values where it is over a whole stream."""
    below = inputs(node)
    return not isinstance(node, Distinct) and (not below or any(map(_has_endless_rows, below)))


# -- aggregates over a join ----------------------------------------------------------------------------------


def _from_synopses(decision: PlanDecision, layout: JoinLayout) -> Iterator[Section]:
    """What answers, why, and which queries share the join and the synopses."""
    joined = decision.routed.joined
    place = None if joined is None else layout.place_of(joined)
    assert place is not None
    table, (first, second) = layout.tables[place.table], layout.cut.windows
    panes = f"panes of {format_duration(layout.cut.length)}"
    groups = f", by {', '.join(table.keys)}" if table.keys else ""
    yield Section(
        f"Answered from a join synopsis over {place.pair.first} and {place.pair.second} {panes}{groups}",
        lines=[
            f"  {table.choice.reason}",
            "  " + "; ".join(f"{each.reason} ({each.rule})" for each in (place.decision, place.together)),
        ],
    )
    windows = f"windows of {format_duration(first)} and {format_duration(second)}"
    alone = "not shared yet" if decision.apart is None else f"not shared with {decision.apart}"
    shared = f"shared with {', '.join(decision.mates)}" if decision.mates else alone
    yield Section(f"One join over {windows}", shared)


def _own_join(decision: PlanDecision) -> list[Section]:
    """Why an aggregate over a join does not share it."""
    routed = decision.routed
    if routed.is_free or routed.joined is None:
        return []
    return [Section("One join for this query alone", f"SET EXECUTION {routed.execution} gives it its own plan")]


def _nested(decision: PlanDecision) -> list[Section]:
    """Which queries with other windows use the same state, or why they do not."""
    found = decision.nested
    if found is None:
        return []
    names = f"shared with {', '.join(decision.mates)}" if found.allowed else f"not shared with {decision.apart}"
    return [Section(f"State {names}", f"{found.reason} ({found.rule})")]


def _beginning(decision: PlanDecision) -> list[Section]:
    """When a query that comes after its streams' first tuples has seen enough."""
    if decision.late is None:
        return []
    title, _, when = decision.late.described.partition(": ")
    return [Section(f"B{title[1:]}", when)]


# -- what was chosen, and why -----------------------------------------------------------------------------


def _rewriting(decision: PlanDecision) -> list[Section]:
    """What the optimiser's change of the plan gains."""
    chosen = decision.choice
    if eagerly(chosen.plan) == decision.routed.written:
        return []
    before = cost(decision.routed.written, decision.statistics, chosen.strategy)
    expected = f"{_ms(chosen.prices[chosen.strategy])} per second expected, {_ms(before)} as written"
    return [Section("Rewritten", expected)]


def _replanning(decision: PlanDecision) -> list[Section]:
    """Since when this plan runs instead of the registered one, and why no other plan of several windows takes over."""
    sections, found = list[Section](), decision.replaced
    if found is not None:
        as_of = to_datetime(found.at).isoformat()
        title = f"Plan replaced as of {as_of}, by what was measured"
        sections.append(Section(title, f"the plan before it cost {_ms(found.before)}"))
    if decision.fixed is not None and len(windows(decision.choice.plan)) > 1:
        sections.append(Section("Plan not replaced while it runs", decision.fixed))
    return sections


def _evaluation(decision: PlanDecision) -> list[Section]:
    """Whether a join under SLIDE is computed at the multiples alone, and what the other way would cost."""
    prices, lazy = decision.choice.evaluations, evaluation_of(decision.choice.plan)
    if prices is None:
        return []
    like = "" if decision.like is None else f", as query '{decision.like}'"
    if lazy is None:
        costs = f"{_ms(prices.eager)} per second expected, {_ms(prices.lazy)} at the multiples alone"
        return [Section(f"Evaluated by every micro-batch{like}", costs)]
    algorithm = f"algorithm {5 if keeps_times(lazy) else 4} of the thesis"
    costs = f"{_ms(prices.lazy)} per second expected, {_ms(prices.eager)} by every micro-batch"
    return [Section(f"Evaluated at the multiples alone ({algorithm}){like}", costs)]


def _execution(decision: PlanDecision) -> Section:
    chosen = decision.choice
    prices = ", ".join(f"{strategy} {_ms(price)}" for strategy, price in chosen.prices.items())
    expected = f"  expected per second of event time: {prices} (direct is never chosen)"
    known = [f"  {line}" for line in _known(decision)]
    return Section("Execution", f"{chosen.strategy}, {_why(decision)}", [expected, *known])


def _why(decision: PlanDecision) -> str:
    if decision.like is not None:
        return f"as query '{decision.like}', which is the same"
    if decision.routed.execution != AUTO:
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


def _title(plan: Node) -> Section:
    sampling = sampling_of(plan)
    if sampling is not None:
        return Section(f"Continuous, answered at the multiples of {format_duration(sampling.slide)}")
    return Section("Continuous", "every arrival and every expiry changes the answer")


def _on_spark(plan: Node, every: Sequence[StagePlan]) -> Section:
    """How each stage is spread over buckets, from the windows up."""
    if len(every) == 1:
        reason = "" if every[0].spread else ", because no column is a key of all compared inputs"
        return Section("On Spark", f"{_buckets(plan, every[0])}{reason}")
    shown = [f"  {number}  {_buckets(plan, stage)}" for number, stage in enumerate(every, 1)]
    return Section("On Spark", f"{len(every)} stages", shown)


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


# -- the order of a join (thesis 5.3): what is known of its inputs, and the cost of probing them in each order --------


def explain_joins(plan: Node, known: Statistics, strategy: str) -> list[Section]:
    """A section for every join in a plan, from the answer down."""
    execution = join_execution(plan, SECOND)
    joins = [node for node in _downward(plan) if isinstance(node, Join | MultiJoin)]
    return [_join_section(join, known, strategy, execution) for join in joins]


def _downward(plan: Node) -> Iterator[Node]:
    yield plan
    for below in inputs(plan):
        yield from _downward(below)


def _join_section(join: Join | MultiJoin, known: Statistics, strategy: str, execution: JoinExecution) -> Section:
    if not isinstance(join, MultiJoin):
        return _order_of(join, known, strategy, execution)
    section = _order_of(join, known, strategy, execution) if join.is_common else _of_graph(join, known, strategy)
    when = "multiple of SLIDE" if execution.lazy else "micro-batch"
    again = f"  every {when} chooses the order again, by the tuples stored then"
    return section._replace(lines=[*section.lines, again])


def _order_of(join: Join | MultiJoin, known: Statistics, strategy: str, execution: JoinExecution) -> Section:
    below, flows = inputs(join), [flow_above(each, known, strategy) for each in inputs(join)]
    # Without keys every tuple meets every tuple: as if all had one value.
    names = list(zip(*join.keys, strict=True)) or [()] * len(below)
    values = [values_of(each, own, known) if own else 1.0 for each, own in zip(below, names, strict=True)]
    sides = [
        JoinInput(flow.rate, flow.live / max(flow.rate, 1e-9), many, many)
        for flow, many in zip(flows, values, strict=True)
    ]
    order = augmented(sides, execution=execution)
    shown = [own[0] if own else each.describe() for own, each in zip(names, below, strict=True)]
    lines = []
    for place in order:
        rate, live, many = map(_number, (flows[place].rate, flows[place].live, values[place]))
        lines.append(f"  {shown[place]}: {rate} tuples per second, {live} in the window, {many} values")
    return Section(
        f"{join.describe()}, probed in the order {', '.join(shown[place] for place in order)}",
        f"{_number(order_cost(order, sides, execution))} tuples probed per second, "
        f"{_number(order_cost(range(len(sides)), sides, execution))} as written",
        lines,
    )


def _of_graph(join: MultiJoin, known: Statistics, strategy: str) -> Section:
    """Every input has an order of its own, along the equalities."""
    flows = [flow_above(each, known, strategy) for each in join.inputs]
    sides, names = graph_inputs(join, flows, known), [_name(each) for each in join.inputs]
    passed, written = (
        _number(partial_combinations(join, flows, known, order)) for order in (connected_order, written_order)
    )
    lines = []
    for place, (flow, name) in enumerate(zip(flows, names, strict=True)):
        order = ", ".join(names[other] for other in connected_order(sides, place)[1:])
        rate, live, many = _number(flow.rate), _number(flow.live), _values(join, place, sides[place])
        lines.append(f"  {name} probes {order}: {rate} tuples per second, {live} in the window, {many}")
    visited = f"{passed} partial combinations visited per second, {written} as written, none is stored"
    return Section(join.describe(), visited, lines)


def _values(join: MultiJoin, place: int, side: GraphInput) -> str:
    """How many values an input has of each of its attributes."""
    return ", ".join(
        f"{_number(many)} values of {' and '.join(join.attributes[number][place])}"
        for number, many in side.values.items()
    )


def _name(node: Node) -> str:
    return " and ".join(window.alias for window in windows(node))


def _number(estimate: Number) -> str:
    return f"{float(estimate):,.0f}" if estimate >= 10 else f"{float(estimate):.2g}"
