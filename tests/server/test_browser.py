"""The page in a real browser: Debian's chromium, driven by Playwright. `tools/chromium.sh` installs it."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sash.core.errors import SashError, SourceError
from sash.runtime.streams.load import ENDED, FAILED, StreamState
from sash.server import Server, ServerSettings
from sash.server.page import page_charts
from tests.support.sparkless_session import SparklessSession, tuples

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed; the extra dev brings it")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("no chromium on this machine; tools/chromium.sh installs it on Debian", allow_module_level=True)
pytestmark = pytest.mark.ui
# It must not look for anything outside this machine; root has no sandbox.
FLAGS = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
         "disable-component-update", "disable-sync")  # fmt: skip
VIEWS = {"/": "Queries", "/answer": "Answer", "/sharing": "Sharing", "/schedule": "Schedule", "/health": "Health"}
# Milliseconds; a busy machine may take seconds to draw a chart.
PATIENCE = 60_000
# On a busy machine the page opens so long after the last tuple that the stream counts as idle.
RUNNING = re.compile("Live|Idle")
PHONE = {"width": 390, "height": 844}
# Elements that are wider than the screen, also if the user could scroll to them.
STICKS_OUT = """() => [document.documentElement, ...document.querySelectorAll('canvas, .q-table, .q-card, label, div')]
  .filter(each => each.scrollWidth > window.innerWidth || each.getBoundingClientRect().right > window.innerWidth + 1)
  .map(each => each.tagName + '.' + each.className)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=[f"--{flag}" for flag in FLAGS])
        yield launched
        launched.close()


class Feeder:
    """Pushes a micro-batch of a second every now and then, as a live stream would."""

    def __init__(self, session: SparklessSession) -> None:
        self._session = session
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        second = 13
        while not self._stopped.wait(0.3):
            self._session.push("s", tuples(*((second + i / 10, i % 3, (second * i) % 17) for i in range(10))))
            second += 1

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


@pytest.fixture
def server(session: SparklessSession) -> Iterator[Server]:
    with Server(session, ServerSettings(port=0)) as served:
        yield served


@pytest.fixture
def feeder(session: SparklessSession) -> Iterator[Feeder]:
    feeding = Feeder(session)
    yield feeding
    feeding.stop()


@pytest.fixture
def open_page(browser: Any, server: Server) -> Iterator[Callable[..., Any]]:
    """A page of the server; what the browser complains of fails the test."""
    contexts, complaints = [], []

    def visit(path: str = "/", **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(server.url.rstrip("/") + path)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not complaints


def write(page: Any, text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_a_query_from_its_registration_to_its_end(
    open_page: Callable[..., Any], session: SparklessSession, feeder: Feeder
) -> None:
    page = open_page()
    write(page, "SELECT COUNT(*) AS n, SUM(v) AS t FROM s [WINDOW 3 sec SLIDE 1 sec]")
    page.get_by_label("Name").fill("counts")
    page.get_by_role("button", name="Register").click()
    page.get_by_text("Registered counts.").wait_for()
    page.get_by_role("link", name="counts").click()
    as_of = page.get_by_text("as of 2")
    as_of.wait_for()
    first, drawn = as_of.inner_text(), page.locator("canvas").first.screenshot()
    page.get_by_text("as of 2").filter(has_not_text=first).wait_for()
    page.wait_for_timeout(500)
    assert page.locator("canvas").first.screenshot() != drawn, "the line moves"
    page.goto(page.url.split("/answer")[0])
    page.get_by_role("button", name="Drop counts").click()
    page.get_by_role("button", name="Drop it").click()
    page.get_by_role("link", name="counts").wait_for(state="detached")
    assert "counts" not in session.queries


@pytest.fixture
def busy() -> Iterator[None]:
    """Threads that take the interpreter from the server's event loop."""
    stopped = threading.Event()

    def work() -> None:
        while not stopped.is_set():
            sum(range(10_000))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield
    stopped.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "milliseconds", [30, pytest.param(80, marks=pytest.mark.deep), pytest.param(200, marks=pytest.mark.deep)]
)
def test_what_is_typed_stays(open_page: Callable[..., Any], feeder: Feeder, busy: None, milliseconds: int) -> None:
    """The text is wrong all the time, so that marks come while one types."""
    text = "SELECT " + ", ".join(f"v + nothing AS t{i}" for i in range(20))[:293]
    assert len(text) == 300
    page = open_page()
    write(page, "SELECT nothing FROM s")
    page.locator(".sash-error").first.wait_for()
    write(page, "")
    page.keyboard.type(text, delay=milliseconds)
    assert page.locator(".cm-content").inner_text() == text
    page.get_by_role("alert").first.filter(has_text=text[-20:]).wait_for()
    assert page.locator(".cm-content").inner_text() == text


def test_a_mistake_is_shown_at_its_word(open_page: Callable[..., Any]) -> None:
    page = open_page()
    write(page, "SELECT SUM(vv) AS t FROM s [WINDOW 10 sec SLIDE 1 sec]")
    wrong = page.locator(".sash-error")
    wrong.first.wait_for()
    assert wrong.first.inner_text() == "vv"
    assert "unknown column 'vv'" in page.get_by_role("alert").first.inner_text()
    write(page, "SELECT SUM(v) AS t FROM s [WINDOW 10 sec SLIDE 1 sec]")
    wrong.first.wait_for(state="detached")


# Whether a chart has a pixel in the first colour of the palette.
PAINTED = """() => [...document.querySelectorAll('canvas')].some(canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4)
    if (data[i] === 0 && data[i + 1] === 114 && data[i + 2] === 178 && data[i + 3] === 255) return true;
  return false;
})"""


def test_a_group_that_appears_once_is_drawn(open_page: Callable[..., Any], session: SparklessSession) -> None:
    text = "SELECT k, SUM(v) AS total FROM s [WINDOW 1 sec SLIDE 1 sec] GROUP BY k HAVING SUM(v) > 1000"
    session.register(text, name="alert")
    for second in range(13, 30):
        session.push("s", tuples((second, 1, 5_000 if second == 20 else 5)))
    assert sum(each.table.num_rows for each in session.queries["alert"].answers()) == 1
    page = open_page("/answer?query=alert")
    page.wait_for_function(PAINTED)


def test_a_query_that_there_is_not(open_page: Callable[..., Any]) -> None:
    page = open_page("/answer?query=unknown")
    page.get_by_text("There is no query unknown.").wait_for()
    assert page.locator("canvas").count() == 0 and page.get_by_text("SELECT").count() == 0
    page.goto(page.url.replace("unknown", "TOTALS"))
    page.get_by_text("SELECT k, SUM(v)").wait_for()


def test_the_view_of_a_query_that_has_failed(open_page: Callable[..., Any], session: SparklessSession) -> None:
    session.register("SELECT COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE 1 sec]", name="silent")
    session.queries["silent"].failure = SashError("it has too many groups")
    page = open_page("/answer?query=silent")
    page.get_by_role("alert").filter(has_text="Failed: it has too many groups").wait_for()
    page.get_by_text("It has given no answer.").wait_for()
    assert not page.locator("canvas").is_visible() and not page.get_by_text("Bars").is_visible()
    # A query that failed later shows its answers until then.
    page.goto(page.url.replace("silent", "totals"))
    page.get_by_text("as of 2").wait_for()
    session.queries["totals"].failure = SashError("it has too many groups")
    page.get_by_role("alert").filter(has_text="Failed: it has too many groups").wait_for()
    page.get_by_text("as of 2").wait_for()


def test_a_long_answer_has_pages(open_page: Callable[..., Any], session: SparklessSession) -> None:
    session.register("SELECT v, COUNT(*) AS n FROM s [WINDOW 60 sec SLIDE 1 sec] GROUP BY v", name="values")
    session.push("s", tuples(*((20 + each / 100, 1, 1_000 + each) for each in range(60)), (22, 1, 1)))
    page = open_page("/answer?query=values")
    page.get_by_text("Table", exact=True).click()
    page.get_by_text(re.compile("1-25 of")).wait_for()
    page.get_by_role("columnheader", name="v").click()
    # A second click before the server has sorted would ask for the same order again.
    page.locator("th.sorted").wait_for()
    page.get_by_role("columnheader", name="v").click()
    page.get_by_role("cell", name="1059").wait_for()
    page.get_by_role("button", name="Next page").click()
    page.get_by_text(re.compile("26-50 of")).wait_for()
    page.get_by_role("cell", name="1034").wait_for()


def test_numbers_of_an_axis(open_page: Callable[..., Any]) -> None:
    shown = {0: "0", 0.25: "0.25", 999: "999", 1_500: "1.5k", -2_000_000: "-2M", 27_710_052: "27.710052M", 3e9: "3G"}
    page = open_page()
    assert {value: page.evaluate(f"({page_charts.SHORT})({value})") for value in shown} == shown


def test_a_question_is_answered_in_a_table(open_page: Callable[..., Any]) -> None:
    page = open_page()
    write(page, "SELECT k, SUM(v) AS total FROM s [WINDOW 10 sec] GROUP BY k")
    page.get_by_role("button", name="Ask once").click()
    page.get_by_text("2 rows, as of").wait_for()
    assert page.get_by_role("cell", name="total").or_(page.get_by_role("columnheader", name="total")).count() >= 1


def test_a_question_that_fails_says_why(open_page: Callable[..., Any]) -> None:
    page = open_page()
    write(page, "SELECT k FROM s [WINDOW 10 sec SLIDE 1 sec]")
    page.get_by_role("button", name="Ask once").click()
    page.get_by_role("alert").first.filter(has_text="SLIDE").wait_for()


@pytest.mark.parametrize("path", VIEWS)
@pytest.mark.parametrize("how", ["desk", "phone", "dark"])
def test_every_view(open_page: Callable[..., Any], feeder: Feeder, path: str, how: str) -> None:
    options: dict[str, Any] = {"viewport": PHONE} if how == "phone" else {}
    page = open_page(path, **options, **({"color_scheme": "dark"} if how == "dark" else {}))
    page.get_by_role("status").filter(has_text=RUNNING).first.wait_for()
    assert page.title() == f"{VIEWS[path]} · Sash"
    if how == "phone":
        page.locator("canvas, .q-table__grid-content, .q-table").first.wait_for(state="attached")
        assert page.evaluate(STICKS_OUT) == []
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (shade in ("rgb(18, 18, 18)", "rgb(29, 29, 29)")) == (how == "dark"), shade


def test_sharing_leads_with_what_is_saved(open_page: Callable[..., Any], feeder: Feeder) -> None:
    page = open_page("/sharing", viewport=PHONE)
    card = page.locator(".q-card").filter(has_text="Rows expanded")
    card.get_by_text("times less").wait_for()
    assert not card.get_by_text("instead of").inner_text().endswith("instead of 0")
    page.get_by_text("every 5 sec · (k) of v").first.wait_for()


def test_the_keyboard_reaches_every_view(open_page: Callable[..., Any]) -> None:
    page = open_page()
    reached = set()
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.innerText"))
    assert set(VIEWS.values()) <= reached
    page.get_by_role("link", name="Health").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/health")


def test_another_policy(open_page: Callable[..., Any], session: SparklessSession, feeder: Feeder) -> None:
    page = open_page("/schedule")
    page.get_by_label("Policy").click()
    page.get_by_role("option", name="aggressive").click()
    page.get_by_text("aggressive from the next micro-batch on").wait_for()
    assert session.policy == "aggressive"


@pytest.mark.parametrize(
    ("doing", "said"),
    [
        (StreamState(FAILED, SourceError("the disk is gone")), "Stopped by an error"),
        (StreamState(ENDED), "everything has been read"),
    ],
)
def test_it_says_plainly_that_the_engine_has_stopped(
    open_page: Callable[..., Any], session: SparklessSession, doing: StreamState, said: str
) -> None:
    page = open_page()
    session.doing = doing
    page.get_by_role("status").filter(has_text=said).first.wait_for()


def test_a_query_that_has_failed_is_told_on_every_view(
    open_page: Callable[..., Any], session: SparklessSession, feeder: Feeder
) -> None:
    session.queries["totals"].failure = SashError("it has too many groups")
    page = open_page()
    page.get_by_role("status").filter(has_text="Failing").filter(has_text="query totals").wait_for()
    row = page.get_by_role("row").filter(has_text="totals")
    assert "failed" in row.inner_text() and "it has too many groups" in row.inner_text()
    page.get_by_role("link", name="State").click()
    problem = page.get_by_role("alert").filter(has_text="Query totals: it has too many groups")
    problem.wait_for()
    assert problem.bounding_box()["y"] < page.locator("canvas").first.bounding_box()["y"], "problems come first"


def test_a_token_in_the_address_opens_the_page(browser: Any, session: SparklessSession) -> None:
    with Server(session, ServerSettings(port=0, token="let me in")) as served:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        refused = page.goto(served.url)
        assert refused.status == 401 and page.get_by_role("link").count() == 0
        page.goto(f"{served.url}?token=let%20me%20in")
        # The state is sent through the websocket, which has to be let in as well.
        page.get_by_role("status").filter(has_text=RUNNING).first.wait_for()
        assert "token" not in page.url
        page.close()


def test_a_token_in_the_form_opens_the_page(browser: Any, session: SparklessSession) -> None:
    with Server(session, ServerSettings(port=0, token="let me in")) as served:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{served.url}answer?query=totals")
        page.get_by_label("Token").fill("let me")
        page.get_by_role("button", name="Open").click()
        page.get_by_role("alert").filter(has_text="This is not the token.").wait_for()
        page.get_by_label("Token").fill("let me in")
        page.get_by_role("button", name="Open").click()
        page.get_by_role("status").filter(has_text=RUNNING).first.wait_for()
        assert page.url == f"{served.url}answer?query=totals"
        page.close()


def test_what_users_write_is_never_markup(open_page: Callable[..., Any], session: SparklessSession) -> None:
    picture = "<img src=x onerror=alert(1)>"
    session.register(f"SELECT COUNT(*) AS n FROM s [WINDOW 3 sec SLIDE 1 sec] WHERE g <> '{picture}'", name="odd")
    page = open_page("/answer?query=odd")
    page.get_by_text(picture).wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_the_dashboard_of_a_session(browser: Any, session: SparklessSession) -> None:
    """Opened, stopped and opened again: NiceGUI's application is one per process."""
    for _ in range(2):
        opened = session.dashboard()
        assert session.dashboard() is opened
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(opened.url)
        page.get_by_role("status").filter(has_text=RUNNING).first.wait_for()
        page.close()
        opened.stop()


def test_the_page_keeps_to_the_limits_of_the_server(browser: Any, session: SparklessSession) -> None:
    with Server(session, ServerSettings(port=0, max_queries=1)) as served:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(served.url)
        page.get_by_label("Name").fill("another")
        page.get_by_role("button", name="Register").click()
        page.get_by_role("alert").first.filter(has_text="1 queries are registered, and not more").wait_for()
        page.close()
    assert list(session.queries) == ["totals"]
