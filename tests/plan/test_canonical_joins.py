"""However an aggregate over a join is written: the same skeleton, one join, and each query's own answers."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from sash.plan.shared_joins import JoinedAggregate, shared_rows
from tests.runtime.test_join_group import CONDITIONS, END, SEC, SELECTS, Tuples, check, query_of, streams
from tests.support.examples import examples

ALIASES = ["s", "t", "x", "Y", "one", "`a b`"]
# Self-joins: with sides that conditions tell apart, and with sides that are alike.
SELF = ["s.b = t.b AND s.a > 1", "s.b = t.b AND s.a < t.a", "s.b = t.b", "s.b = t.b AND s.a = t.b AND t.a > 0"]


def text(streams: tuple[str, str], asked: str, groups: str, where: str, windows: tuple[int, int, int]) -> str:
    """The sides are `s` and `t`, whatever their streams are."""
    first, second, slide = windows
    sides = [
        f"{streams[0]} [WINDOW {first} sec SLIDE {slide} sec] s",
        f"{streams[1]} [WINDOW {second} sec SLIDE {slide} sec] t",
    ]
    return f"SELECT {asked} FROM {', '.join(sides)} WHERE {where} {groups}".strip()


def rewritten(written: str, aliases: tuple[str, str], *, swap: bool, turn: bool) -> str:
    """Other aliases, the other side first, the equality of the keys the other way round."""
    named = dict(zip("st", aliases, strict=True))
    before, sources, after = re.fullmatch(r"(.*FROM )(.*?)( WHERE .*)", written).groups()
    sides = [re.sub(r"\] ([st])$", lambda found: f"] {named[found[1]]}", side) for side in sources.split(", ")]
    if turn:
        after = after.replace("s.b = t.b", "t.b = s.b")
    before, after = (re.sub(r"\b([st])\.", lambda found: f"{named[found[1]]}.", part) for part in (before, after))
    return f"{before}{', '.join(reversed(sides) if swap else sides)}{after}"


@st.composite
def writings(draw: st.DrawFn, conditions: list[str], names: tuple[str, str], most: int) -> list[tuple[str, str]]:
    """Queries over one join, each as it might be written, and otherwise."""
    where, found = draw(st.sampled_from(conditions)), []
    for _ in range(draw(st.integers(1, most))):
        windows = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3)))
        one = text(names, *draw(st.sampled_from(SELECTS)), where, windows)
        aliases = draw(st.lists(st.sampled_from(ALIASES), min_size=2, max_size=2, unique_by=str.lower))
        found.append(
            (one, rewritten(one, (aliases[0], aliases[1]), swap=draw(st.booleans()), turn=draw(st.booleans())))
        )
    return found


def same(one: JoinedAggregate, other: JoinedAggregate) -> bool:
    """Everything but how the query calls its own keys, aggregates and outputs."""
    asked = [
        ([key.expression for key in each.query.keys], [(call.function, call.argument) for call in each.query.calls])
        for each in (one, other)
    ]
    return (
        one.skeleton == other.skeleton
        and one.windows == other.windows
        and set(one.columns) == set(other.columns)
        and set(one.window_columns) == set(other.window_columns)
        and one.computed == other.computed
        and asked[0] == asked[1]
    )


@given(pairs=writings(CONDITIONS, ("s", "t"), 1) | writings(SELF, ("s", "s"), 1))
@settings(max_examples=examples(80), deadline=None)
def test_aliases_and_the_order_of_sides_make_no_difference(pairs: list[tuple[str, str]]) -> None:
    for one, other in pairs:
        assert same(query_of(one), query_of(other)), (one, other)


@given(
    pairs=writings(CONDITIONS, ("s", "t"), 3) | writings(SELF, ("s", "s"), 3),
    tuples=st.fixed_dictionaries({"s": streams, "t": streams}),
    cut=st.integers(1, END - 1),
)
@settings(max_examples=examples(25), deadline=None)
def test_whoever_is_written_otherwise_shares_and_is_answered_as_alone(
    pairs: list[tuple[str, str]], tuples: Tuples, cut: int
) -> None:
    texts = [each for pair in pairs for each in pair]
    assert shared_rows([query_of(each) for each in texts]) is not None
    check({f"q{number}": each for number, each in enumerate(texts)}, tuples, [cut * SEC, END * SEC])


def test_constants_of_several_types_are_several_columns() -> None:
    written = "SELECT SUM(s.a + t.a + 1), SUM(s.a + t.a + CAST(1 AS BIGINT)), SUM(s.a + t.a + 1.0)"
    query = query_of(f"{written} FROM s [WINDOW 2 sec SLIDE 1 sec], t [WINDOW 2 sec SLIDE 1 sec] WHERE s.b = t.b")
    assert len({call.argument for call in query.query.calls}) == len(query.columns) == 3
