"""The window clause: its parsed form, its checks against the stream, and that its text reads back as itself."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.errors import NotSupportedError
from sash.core.window import FOREVER, ElasticWindow, LandmarkWindow, RowWindow, SessionWindow, TimeWindow, Window
from sash.plan.expressions import RowExpression
from sash.plan.nodes import StreamScan, StreamWindow
from tests.sql.examples import MIN, check_error, find

SEC = 1_000_000
DAY = 86_400 * SEC
YEAR_2026 = 20_454 * DAY
WINDOWS: list[tuple[str, Window]] = [
    ("[WINDOW 10 min SLIDE 2 min]", TimeWindow(10 * MIN, 2 * MIN)),
    ("[RANGE 10 min SLIDE EXACTLY 2 min LAG 1 min]", TimeWindow(10 * MIN, 2 * MIN, MIN, True)),
    ("[UNBOUNDED SLIDE 1 min]", TimeWindow(FOREVER, MIN)),
    ("[Unbounded Slide Exactly 1 min Lag 2 sec]", TimeWindow(FOREVER, MIN, 2 * SEC, True)),
    ("[ROWS 100 SLIDE 10]", RowWindow(100, 10)),
    ("[rows 1 slide exactly 3 lag 0]", RowWindow(1, 3, 0, True)),
    ("[ROWS 7 SLIDE 7 LAG 9]", RowWindow(7, 7, 9)),
    ("[WINDOW 1 to 60 min STEP 1 min SLIDE 10 sec]", ElasticWindow(60 * MIN, 10 * SEC, shortest=MIN, step=MIN)),
    (
        "[Range 30 sec To 1.5 min Step 30 sec Slide Exactly 1 min Lag 1 sec]",
        ElasticWindow(90 * SEC, MIN, SEC, True, 30 * SEC, 30 * SEC),
    ),
    ("[SINCE '2026-01-01' SLIDE 1 min LAG 2 sec]", LandmarkWindow(FOREVER, MIN, 2 * SEC, since=YEAR_2026)),
    ("[Since Midnight Slide Exactly 1 min]", LandmarkWindow(FOREVER, MIN, 0, True, every=DAY)),
    (
        "[FROM '2026-01-01 01:00+01:00' TO '2026-01-02T00:00:30Z' SLIDE 1 min]",
        LandmarkWindow(FOREVER, MIN, since=YEAR_2026, until=YEAR_2026 + DAY + 30 * SEC),
    ),
]

SESSIONS = [
    ("[SESSION GAP 30 sec]", SessionWindow.of(30 * SEC, 50 * MIN, 30 * SEC)),
    ("[Session Gap 30s Max 10 min]", SessionWindow.of(30 * SEC, 10 * MIN, 30 * SEC)),
    ("[SESSION GAP INTERVAL '1' MINUTE SLIDE 10 sec]", SessionWindow.of(MIN, 100 * MIN, 10 * SEC)),
    ("[SESSION GAP 1 min MAX 1 min SLIDE EXACTLY 2 min] AS p", SessionWindow.of(MIN, MIN, 2 * MIN)),
]


@pytest.mark.parametrize(("clause", "window"), SESSIONS)
def test_sessions(clause: str, window: Window) -> None:
    time = RowExpression("ts", pa.timestamp("us", "UTC"), ("ts",))
    windowed = find(f"SELECT COUNT(*) FROM packets {clause}", StreamWindow)
    assert windowed == StreamWindow(StreamScan("packets"), window, (), time)


@pytest.mark.parametrize(("clause", "window"), WINDOWS)
def test_windows_of_periodic_queries(clause: str, window: Window) -> None:
    windowed = find(f"SELECT COUNT(*) FROM packets {clause}", StreamWindow)
    assert windowed == StreamWindow(StreamScan("packets"), window)
    assert type(windowed.window) is type(window)


@pytest.mark.parametrize(
    ("clause", "window"),
    [
        ("[UNBOUNDED]", TimeWindow(FOREVER)),
        ("[UNBOUNDED LAG 5 sec]", TimeWindow(FOREVER, None, 5 * SEC)),
        ("[ROWS 10]", RowWindow(10)),
        ("[ROWS 10 LAG 3] AS p", RowWindow(10, None, 3)),
        ("[SINCE midnight]", LandmarkWindow(FOREVER, every=DAY)),
        ("[FROM '2026-01-01' TO '2026-01-02']", LandmarkWindow(FOREVER, since=YEAR_2026, until=YEAR_2026 + DAY)),
    ],
)
def test_windows_of_one_time_queries(clause: str, window: Window) -> None:
    assert find(f"SELECT COUNT(*) FROM packets {clause}", StreamWindow, periodic=False).window == window


def test_partitioned_rows() -> None:
    windowed = find("SELECT COUNT(*) FROM packets [PARTITION BY SRC, `a b`, src ROWS 3 SLIDE 1]", StreamWindow)
    src = RowExpression("src", pa.int32(), ("src",))
    spaced = RowExpression("`a b`", pa.int32(), ("a b",))
    assert windowed == StreamWindow(StreamScan("packets"), RowWindow(3, 1), (src, spaced))


@st.composite
def landmarks(draw: st.DrawFn) -> Window:
    slide, lag, exactly = draw(st.integers(1, 10_000)) * SEC, draw(st.integers(0, 9)) * SEC, draw(st.booleans())
    if draw(st.booleans()):
        return LandmarkWindow(FOREVER, slide, lag, exactly, every=DAY)
    since = draw(st.integers(-(10**9), 10**10)) * SEC
    if draw(st.booleans()):
        return LandmarkWindow(FOREVER, slide, lag, exactly, since=since)
    return LandmarkWindow(FOREVER, slide, 0, exactly, since=since, until=since + draw(st.integers(1, 10**6)) * SEC)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kind, unit = draw(st.sampled_from([(TimeWindow, SEC), (RowWindow, 1)]))
    lengths = st.integers(1, 10_000).map(lambda n: n * unit)
    length = draw(st.one_of(lengths, st.just(FOREVER)) if kind is TimeWindow else lengths)
    return kind(length, draw(lengths), draw(st.one_of(st.just(0), lengths)), draw(st.booleans()))


@st.composite
def elastic(draw: st.DrawFn) -> Window:
    shortest, step, slide, lag = (draw(st.integers(1, 10_000)) * SEC for _ in range(4))
    longest = shortest + draw(st.integers(1, 999)) * step
    return ElasticWindow(longest, slide, lag, draw(st.booleans()), shortest, step)


@st.composite
def sessions(draw: st.DrawFn) -> Window:
    gap, longer, slide = (draw(st.integers(1, 10_000)) * SEC for _ in range(3))
    return SessionWindow.of(gap, gap + longer, slide)


@given(st.one_of(windows(), landmarks(), elastic(), sessions()))
def test_a_windows_text_reads_back_as_itself(window: Window) -> None:
    assert find(f"SELECT COUNT(*) FROM packets {window}", StreamWindow).window == window


ERRORS = [
    ("[ROWS «0» SLIDE 1]", "ROWS must be greater than zero, got 0"),
    ("[ROWS «1.5» SLIDE 1]", "expected a number of rows, a whole number"),
    ("[ROWS «many»]", "expected a number of rows"),
    ("[ROWS 5 SLIDE «0»]", "SLIDE must be greater than zero"),
    ("[ROWS 5 SLIDE 1 LAG «-1»]", "LAG must not be negative"),
    ("[ROWS «9999999999999999» SLIDE 1]", "absurdly long"),
    ("[ROWS «10 min» SLIDE 1]", "ROWS counts tuples, 10 min is a duration: write [WINDOW 10 min]"),
    ("[ROWS 10 SLIDE 1 LAG «1sec»]", "LAG counts tuples"),
    ("[WINDOW «10» SLIDE 1 min]", "WINDOW is a duration in a time-based window, such as '10 sec'; [ROWS 10]"),
    ("[WINDOW 10 min SLIDE «5»]", "SLIDE is a duration"),
    ("[WINDOW 10 min SLIDE 5 min LAG «5»]", "LAG is a duration"),
    ("[UNBOUNDED SLIDE «1»]", "SLIDE is a duration"),
    ("[UNBOUNDED SLIDE «1500 ms»]", "SLIDE 1500 ms is not a multiple of the granule"),
    ("[PARTITION BY «srcs» ROWS 5 SLIDE 1]", "unknown column 'srcs'; did you mean 'src'?"),
    ("[PARTITION BY src «WINDOW» 5 min]", "expected a comma or ROWS"),
    ("[PARTITION BY src «+» 1 ROWS 5]", "expected a comma or ROWS"),
    ("[«SLIDE» 5]", "expected WINDOW, ROWS, PARTITION BY, UNBOUNDED, SINCE, FROM or SESSION"),
    ("[SESSION «30» sec]", "expected GAP and the time without tuples that ends a session, such as GAP 30 sec"),
    ("[SESSION GAP «0 sec»]", "a GAP must be greater than zero"),
    ("[SESSION GAP «30»]", "GAP is a duration"),
    ("[SESSION GAP 1 min MAX «30 sec»]", "MAX must not be shorter than GAP: it is the length of the longest session"),
    ("[SESSION GAP 1 min «LAG» 30 sec]", "a session ends after its last tuple: leave out LAG"),
    ("[SESSION GAP 1 min SLIDE 5 sec LAG «30 sec»]", "a session ends after its last tuple: leave out LAG"),
    ("[SESSION GAP «1500 ms» SLIDE 1 sec]", "GAP 1500 ms is not a multiple of the granule"),
    ("[SESSION GAP 1 sec MAX «2500 ms»]", "MAX 2500 ms is not a multiple of the granule"),
    ("[SESSION GAP 1 sec SLIDE «2500 ms»]", "SLIDE 2500 ms is not a multiple of the granule"),
    ("[WINDOW 5 TO «5 min» STEP 1 min SLIDE 1 min]", "TO must be longer than the length before it"),
    ("[WINDOW «0» TO 5 min STEP 1 min SLIDE 1 min]", "a window's length must be greater than zero"),
    ("[WINDOW «1.5» TO 5 sec STEP 500 ms SLIDE 1 min]", "WINDOW 1500 ms is not a multiple of the granule"),
    ("[WINDOW 1 TO 5 min «SLIDE» 1 min]", "expected STEP and the difference between two lengths, got 'SLIDE'"),
    ("[WINDOW 1 TO 6 min STEP «2 min» SLIDE 1 min]", "STEP must divide 5 min, the lengths' difference; or"),
    ("[WINDOW 1 TO 2 sec STEP «500 ms» SLIDE 1 min]", "STEP 500 ms is not a multiple of the granule"),
    ("[WINDOW 1 sec TO 1 hour STEP «1 sec» SLIDE 1 min]", "STEP gives 3,600 lengths, and 1,000 are the most"),
    ("[WINDOW 1 TO 5 min STEP 1 min SLIDE 1 min] WHERE «window_length» > 60", "it cannot stand in WHERE; HAVING tests"),
    ("[WINDOW 1 TO 5 min STEP 1 min SLIDE 1 min] GROUP BY «window_length» % 2", "inside a key; GROUP BY has it"),
    ("[WINDOW 5 min SLIDE 1 min] HAVING «window_length» > 60", "unknown column 'window_length'"),
    ("[SINCE «yesterday» SLIDE 1 min]", "expected midnight, or a time in quotes, got 'yesterday'"),
    ("[SINCE «'2026-13-01'» SLIDE 1 min]", "SINCE needs a time such as '2026-01-01 12:00:00', got '2026-13-01'"),
    ("[SINCE «'2026-01-01 00:00:00.5'» SLIDE 1 min]", "nearest: '2026-01-01 00:00:00' or '2026-01-01 00:00:01'"),
    ("[FROM '2026-01-01' «SLIDE» 1 min]", "expected TO and the window's end, got 'SLIDE'"),
    ("[FROM '2026-01-02' TO «'2026-01-02'» SLIDE 1 min]", "TO must be later than FROM"),
    ("[FROM '2026-01-01' TO «'2026-01-02 00:00:00.1'» SLIDE 1 min]", "is not a multiple of the granule"),
    ("[FROM '2026-01-01' TO '2026-01-02' SLIDE 1 min LAG «1 min»]", "TO fixes it: leave out LAG"),
]
LATER = [
    ("[PARTITION BY «tags» ROWS 5 SLIDE 1]", "PARTITION BY of ARRAY<STRING>"),
    ("«[ROWS 5]»", "continuous queries (a window without SLIDE)"),
    ("[«NOW»]", "windows of the current instant (NOW)"),
    ("«[UNBOUNDED]»", "continuous queries (a window without SLIDE)"),
]


@pytest.mark.parametrize(("clause", "reason"), ERRORS)
def test_errors_point_at_the_word(clause: str, reason: str) -> None:
    check_error(f"SELECT COUNT(*) FROM packets {clause}", reason)


def test_lengths_are_no_part_of_aggregates_and_lists() -> None:
    window = "packets [WINDOW 1 TO 5 min STEP 1 min SLIDE 1 min]"
    check_error(f"SELECT SUM(«window_length» + 1) FROM {window}", "it cannot stand inside an aggregate")
    check_error(f"SELECT «TOP»(3, src) FROM {window}", "TOP over windows of several lengths; give each length its own")


@pytest.mark.parametrize(("clause", "what"), LATER)
def test_what_comes_later_says_so(clause: str, what: str) -> None:
    assert isinstance(check_error(f"SELECT COUNT(*) FROM packets {clause}", what), NotSupportedError)


@pytest.mark.parametrize("clause", ["[ROWS 5 SLIDE «2»]", "[UNBOUNDED SLIDE EXACTLY «2 sec»]"])
def test_a_slide_on_a_one_time_query(clause: str) -> None:
    check_error(f"SELECT COUNT(*) FROM packets {clause}", "leave out SLIDE", periodic=False)
