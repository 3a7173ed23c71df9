"""The window clause behind a stream's name:

    [WINDOW|RANGE d [SLIDE [EXACTLY] d] [LAG d]]                time-based
    [WINDOW d TO d STEP d [SLIDE [EXACTLY] d] [LAG d]]          elastic: all these lengths at once
    [UNBOUNDED [SLIDE [EXACTLY] d] [LAG d]]                     all of the stream up to now
    [SINCE 'time' | midnight [SLIDE [EXACTLY] d] [LAG d]]       landmark: from there up to now
    [FROM 'time' TO 'time' [SLIDE [EXACTLY] d]]                 fixed: what there is of it by now
    [SESSION GAP d [MAX d] [SLIDE [EXACTLY] d]]                 the sessions that have ended since the last answer
    [[PARTITION BY k, ..] ROWS n [SLIDE [EXACTLY] n] [LAG n]]   row-based: everything counts tuples
    [[PARTITION BY k, ..] ROWS n SLIDE [EXACTLY] d]             the last rows as of multiples of a time
    [NOW]                                                       the tuples of the current instant

Each may end with INTERNAL: its results outlive it (thesis 3.3.2). In a clause that begins with RANGE, a number without
a unit counts seconds: the papers print [RANGE 300].

Other forms are recognised far enough to be named in the error. Multiples of the granule and the columns of
PARTITION BY are checked by the binder, which knows the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sash.core.errors import CqlError, Span
from sash.core.time import EARLIEST, LATEST, UNITS, Micros, format_duration, parse_duration
from sash.core.window import FOREVER, ElasticWindow, LandmarkWindow, MixedWindow, RowWindow, SessionWindow, TimeWindow
from sash.expr.parsing import timestamp
from sash.sql.reading.cursor import Cursor, Name

_FORMS = "WINDOW, ROWS, PARTITION BY, UNBOUNDED, SINCE, FROM or SESSION, for example [WINDOW 10 min SLIDE 2 min]"
_MOST_ROWS = 10**15
_MOST_LENGTHS = 1_000
# The longest session, in gaps, where no MAX is written.
MOST_GAPS = 100


@dataclass(frozen=True)
class WindowCall:
    """The call of another system that stands for a window: window(ts, ..), HOP(..), TUMBLE(..).

    Such a window is [start, end) of the time in `column`; one ends at `end`, and one at each SLIDE before and after it.
    """

    word: str
    at: Span
    column: Name
    end: Micros


@dataclass(frozen=True)
class WindowClause:
    """A window with the places of its parts; [NOW] is one of a microsecond, the shortest there is.

    With a `call`, the stream decides how the window lies (binding/completion.py).
    """

    window: TimeWindow | RowWindow
    span: Span
    length_at: Span
    slide_at: Span | None = None
    lag_at: Span | None = None
    partition: tuple[Name, ...] = ()
    now: bool = False
    internal_at: Span | None = None
    until_at: Span | None = None
    shortest_at: Span | None = None
    step_at: Span | None = None
    most_at: Span | None = None
    call: WindowCall | None = None


def parse_window_clause(cursor: Cursor) -> WindowClause:
    """Reads from `[` to `]`; the cursor stands behind it afterwards."""
    start = cursor.span.start
    cursor.expect("[")
    if cursor.accept("NOW"):
        return _now(cursor, start)
    if cursor.at("ROWS") or cursor.at("PARTITION BY"):
        return _row_based(cursor, start)
    if cursor.accept("UNBOUNDED"):
        return _rest(cursor, start, TimeWindow, FOREVER, cursor.previous, _duration)
    if cursor.accept("SINCE"):
        return _landmark(cursor, start)
    if cursor.accept("FROM"):
        return _fixed(cursor, start)
    if cursor.accept("SESSION"):
        return _session(cursor, start)
    word = "RANGE" if cursor.at("RANGE") else "WINDOW"
    if not cursor.accept(word):
        raise cursor.error(f"expected {_FORMS}, got {cursor.found()}")
    first = cursor.token
    # A shortest length without a unit has that of the longest: 1 TO 60 min.
    if first is not None and first.text[:1].isdigit() and first.text[-1].isdigit() and cursor.follows("TO"):
        cursor.position += 1
        return _elastic(cursor, start, None)
    measure = _range if word == "RANGE" else _duration
    length, length_at = measure(cursor, word, "a window's length", 1)
    if cursor.at("TO"):
        return _elastic(cursor, start, length)
    return _rest(cursor, start, TimeWindow, length, length_at, measure)


def _now(cursor: Cursor, start: int) -> WindowClause:
    word = cursor.previous
    internal_at = _internal(cursor)
    cursor.expect("]", "] after NOW")
    return WindowClause(TimeWindow(1), Span(start, cursor.previous.end), word, now=True, internal_at=internal_at)


def _elastic(cursor: Cursor, start: int, shortest: Micros | None) -> WindowClause:
    """`1 TO 60 min STEP 1 min` and `30 sec TO 2 min STEP 30 sec`, from TO on."""
    number = cursor.previous
    cursor.expect("TO")
    length, length_at = _duration(cursor, "TO", "a window's length", 1)
    if shortest is None:
        unit = cursor.text[length_at.start : length_at.end].lstrip("0123456789. ")
        shortest = _with_unit(cursor, number, unit)
    if shortest >= length:
        raise cursor.error("TO must be longer than the length before it; [WINDOW d] has one length", length_at)
    cursor.expect("STEP", "STEP and the difference between two lengths")
    step, step_at = _duration(cursor, "STEP", "a STEP", 1)
    _check_lengths(cursor, shortest, length, step, step_at)
    clause = _rest(cursor, start, TimeWindow, length, length_at, _duration)
    rest = clause.window
    window = ElasticWindow(length, rest.slide, rest.lag, rest.exactly, shortest, step)
    return replace(clause, window=window, step_at=step_at, shortest_at=number)


def _with_unit(cursor: Cursor, number: Span, unit: str) -> Micros:
    try:
        micros = parse_duration(f"{cursor.text[number.start : number.end]} {unit}")
    except ValueError as reason:
        raise cursor.error(str(reason), number) from None
    if micros <= 0:
        raise cursor.error("a window's length must be greater than zero", number)
    return micros


def _check_lengths(cursor: Cursor, shortest: Micros, length: Micros, step: Micros, at: Span) -> None:
    if (length - shortest) % step:
        last = format_duration(shortest + (length - shortest) // step * step)
        apart = format_duration(length - shortest)
        raise cursor.error(f"STEP must divide {apart}, the lengths' difference; or write TO {last}", at)
    if (lengths := (length - shortest) // step + 1) > _MOST_LENGTHS:
        raise cursor.error(f"STEP gives {lengths:,} lengths, and {_MOST_LENGTHS:,} are the most: take a longer one", at)


def _landmark(cursor: Cursor, start: int) -> WindowClause:
    if cursor.accept("MIDNIGHT"):
        midnight = LandmarkWindow(FOREVER, every=UNITS["day"])
        return _with_rest(cursor, start, midnight, cursor.previous)
    since, since_at = _instant(cursor, "SINCE", "midnight, or a time")
    return _with_rest(cursor, start, LandmarkWindow(FOREVER, since=since), since_at)


def _fixed(cursor: Cursor, start: int) -> WindowClause:
    since, since_at = _instant(cursor, "FROM")
    cursor.expect("TO", "TO and the window's end")
    until, until_at = _instant(cursor, "TO")
    if until <= since:
        raise cursor.error("TO must be later than FROM: the window would be empty", until_at)
    clause = _with_rest(cursor, start, LandmarkWindow(FOREVER, since=since, until=until), since_at)
    if clause.lag_at is not None:
        raise cursor.error("LAG moves the end of a window, and TO fixes it: leave out LAG", clause.lag_at)
    return replace(clause, until_at=until_at)


def _session(cursor: Cursor, start: int) -> WindowClause:
    """Every multiple of SLIDE is answered, because each session is told once; without SLIDE, those of the gap."""
    cursor.expect("GAP", "GAP and the time without tuples that ends a session, such as GAP 30 sec")
    gap, gap_at = _duration(cursor, "GAP", "a GAP", 1)
    most, most_at = MOST_GAPS * gap, None
    if cursor.accept("MAX"):
        most, most_at = _duration(cursor, "MAX", "the longest session", 1)
        if most < gap:
            raise cursor.error("MAX must not be shorter than GAP: it is the length of the longest session", most_at)
    if cursor.at("LAG"):
        raise cursor.error("LAG moves the end of a window, and a session ends after its last tuple: leave out LAG")
    clause = _rest(cursor, start, TimeWindow, gap, gap_at, _duration)
    if clause.lag_at is not None:
        reason = "LAG moves the end of a window, and a session ends after its last tuple: leave out LAG"
        raise cursor.error(reason, clause.lag_at)
    slide = gap if clause.window.slide is None else clause.window.slide
    window = SessionWindow.of(gap, most, slide)
    return replace(clause, window=window, slide_at=clause.slide_at or gap_at, most_at=most_at)


def _instant(cursor: Cursor, word: str, what: str = "a time") -> tuple[Micros, Span]:
    text = cursor.string(what)
    micros = timestamp(text, zoned=True)
    if micros is None or not EARLIEST <= micros <= LATEST:
        raise cursor.error(f"{word} needs a time such as '2026-01-01 12:00:00', got '{text}'", cursor.previous)
    return micros, cursor.previous


def _with_rest(cursor: Cursor, start: int, window: LandmarkWindow, at: Span) -> WindowClause:
    clause = _rest(cursor, start, TimeWindow, FOREVER, at, _duration)
    rest = clause.window
    return replace(clause, window=replace(window, slide=rest.slide, lag=rest.lag, exactly=rest.exactly))


def _internal(cursor: Cursor) -> Span | None:
    return cursor.previous if cursor.accept("INTERNAL") else None


def _row_based(cursor: Cursor, start: int) -> WindowClause:
    partition: list[Name] = []
    if cursor.accept("PARTITION BY"):
        partition.append(cursor.named("a column after PARTITION BY"))
        while cursor.accept(","):
            partition.append(cursor.named("a column"))
        if not cursor.at("ROWS"):
            raise cursor.error(f"expected a comma or ROWS after the columns of PARTITION BY, got {cursor.found()}")
    cursor.expect("ROWS")
    length, length_at = _count(cursor, "ROWS", "a number of rows", 1)
    return _rest(cursor, start, RowWindow, length, length_at, _count, tuple(partition))


_Measure = Callable[[Cursor, str, str, int], tuple[int, Span]]


def _rest(
    cursor: Cursor,
    start: int,
    kind: type[TimeWindow] | type[RowWindow],
    length: int,
    length_at: Span,
    measure: _Measure,
    partition: tuple[Name, ...] = (),
) -> WindowClause:
    """SLIDE, LAG, INTERNAL and the closing bracket, in the window's own unit."""
    slide, slide_at, exactly, lag, lag_at = None, None, False, 0, None
    if cursor.accept("SLIDE"):
        exactly = cursor.accept("EXACTLY")
        if kind is RowWindow and _written_duration(cursor) is not None:
            kind = MixedWindow
            slide, slide_at = _duration(cursor, "SLIDE", "a SLIDE", 1)
        else:
            slide, slide_at = measure(cursor, "SLIDE", "a SLIDE", 1)
    if kind is MixedWindow and cursor.at("LAG"):
        raise cursor.error("LAG counts tuples, and this SLIDE is a time: leave out LAG, or count tuples in SLIDE")
    if cursor.accept("LAG"):
        lag, lag_at = measure(cursor, "LAG", "a LAG", 0)
    internal_at = _internal(cursor)
    cursor.expect("]", _expected(slide_at is not None, lag_at is not None))
    span = Span(start, cursor.previous.end)
    window = kind(length, slide, lag, exactly)
    return WindowClause(window, span, length_at, slide_at, lag_at, partition, internal_at=internal_at)


def _duration(cursor: Cursor, word: str, what: str, least: int) -> tuple[int, Span]:
    start = cursor.span.start
    token = cursor.token
    if token is not None and token.text.isdigit() and cursor.follows("]", "SLIDE", "LAG"):
        raise cursor.error(
            f"{word} is a duration in a time-based window, such as '10 sec'; "
            f"[ROWS {token.text}] and its SLIDE and LAG count tuples"
        )
    micros = cursor.duration(what, least=least)
    return micros, Span(start, cursor.previous.end)


def _range(cursor: Cursor, word: str, what: str, least: int) -> tuple[int, Span]:
    """A duration; seconds, where a number has no unit."""
    token = cursor.token
    if token is None or not token.text.isdecimal() or not cursor.follows("]", "SLIDE", "LAG", "INTERNAL"):
        return _duration(cursor, word, what, least)
    return cursor.seconds(what, least=least), cursor.previous


def _count(cursor: Cursor, word: str, what: str, least: int) -> tuple[int, Span]:
    start = cursor.span.start
    _refuse_duration(cursor, word)
    count = cursor.integer(f"{what}, a whole number")
    span = Span(start, cursor.previous.end)
    if count < least:
        must = "must be greater than zero" if least else "must not be negative"
        raise cursor.error(f"{word} {must}, got {count}", span)
    if count > _MOST_ROWS:
        raise cursor.error(f"{word} {count} is absurdly long; the longest is {_MOST_ROWS} tuples", span)
    return count, span


def _refuse_duration(cursor: Cursor, word: str) -> None:
    """`ROWS 10 min`, and `ROWS 100 SLIDE 10 LAG 10 min`."""
    span = _written_duration(cursor)
    if span is None:
        return
    written = cursor.text[span.start : span.end]
    number = "".join(each for each in written if each.isdigit() or each == ".")
    way_out = f"[WINDOW {written}]" if word == "ROWS" else f"{word} {number}"
    raise cursor.error(f"{word} counts tuples, {written} is a duration: write {way_out}", span)


def _written_duration(cursor: Cursor) -> Span | None:
    """The place of a number with a unit of time; None if there is something else."""
    ahead = Cursor(cursor.tokens, cursor.text, cursor.position)
    try:
        ahead.duration("a duration")
    except CqlError:
        return None
    return Span(cursor.span.start, ahead.previous.end)


def _expected(has_slide: bool, has_lag: bool) -> str:
    if has_lag:
        return "]"
    return "LAG or ]" if has_slide else "SLIDE, LAG or ]"
