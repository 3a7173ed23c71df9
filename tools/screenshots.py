"""Takes the pictures of the page in docs/figures: a minute of the packets of `sash demo`, in chromium.

JAVA_HOME=$(tools/java.sh) .venv/bin/python tools/screenshots.py        two minutes
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

import sash
from sash.cli.demo_stream import packets

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
RATE = 3_000
SECONDS = 60
WHOLE = ("sharing", "schedule", "health")
FLAGS = ("no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "no-first-run")
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# Windows and slides in seconds, as dashboards have them for each of these keys.
SCALES = ((10, 2), (20, 3), (60, 5), (120, 10))
KEYS = {"sources": "src", "ports": "port", "protocols": "protocol"}
VIEWS = {
    "queries": "/",
    "answer": "/answer?query=protocols_10s",
    "sharing": "/sharing",
    "schedule": "/schedule",
    "health": "/health",
}


def queries() -> Iterator[tuple[str, str]]:
    for name, key in KEYS.items():
        for window, slide in SCALES:
            yield (
                f"{name}_{window}s",
                (
                    f"SELECT {key}, SUM(length) AS bytes, COUNT(*) AS packets, AVG(length) AS average "
                    f"FROM packets [WINDOW {window} sec SLIDE {slide} sec] GROUP BY {key}"
                ),
            )
    yield "top_talkers", "SELECT TOP(10, src, SUM(length)) FROM packets [WINDOW 30 sec SLIDE 2 sec]"
    yield (
        "median_length",
        "SELECT MEDIAN(length) AS median, COUNT(DISTINCT src) AS n FROM packets [WINDOW 30 sec SLIDE 5 sec]",
    )
    yield "flooding", "SELECT src, dst FROM packets [RANGE 2 sec] WHERE protocol = 'UDP' AND length > 1400"


def main() -> None:
    with sash.connect() as session, sync_playwright() as driver:
        session.create_stream("packets", packets(session.spark, RATE, 1), timestamp="ts", keep="1 min")
        for name, text in queries():
            session.register(text, name=name)
        page = session.dashboard()
        session.start(trigger="1 second")
        time.sleep(SECONDS)
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=[f"--{flag}" for flag in FLAGS])
        for name, path in VIEWS.items():
            shoot(browser, page.url.rstrip("/") + path, f"page-{name}", viewport=DESK, whole=name in WHOLE)
        shoot(
            browser, page.url, "page-mistake", viewport=DESK, text="SELECT src, SUM(lenght) FROM packets [WINDOW 1 min]"
        )
        shoot(browser, page.url + "schedule", "page-dark", viewport=DESK, color_scheme="dark")
        shoot(browser, page.url, "page-phone", viewport=PHONE)
        browser.close()


def shoot(browser: Browser, url: str, name: str, text: str | None = None, whole: bool = False, **options: Any) -> None:
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(url)
    page.get_by_role("status").filter(has_text=re.compile("Live|Overloaded")).first.wait_for()
    if text is not None:
        page.locator(".cm-content").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(text)
    # Charts are drawn when their first numbers have come.
    time.sleep(4)
    page.screenshot(path=FIGURES / f"{name}.png", full_page=whole)
    context.close()


if __name__ == "__main__":
    main()
