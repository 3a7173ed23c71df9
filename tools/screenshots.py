"""Takes the pictures of the page in docs/figures: the packets of `sash demo`, a minute of them, in chromium.

JAVA_HOME=$(tools/java.sh) .venv/bin/python tools/screenshots.py        two minutes
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

import sash
from sash.cli.packet_queries import demo_queries
from sash.cli.packets import packets

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
RATE = 3_000
SECONDS = 60
FLAGS = ("no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "no-first-run")
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
VIEWS = {
    "queries": "/",
    "answer": "/answer?query=protocols_10s",
    "sharing": "/sharing",
    "schedule": "/schedule",
    "health": "/health",
}


def main() -> None:
    with sash.connect() as session, sync_playwright() as driver:
        session.create_stream("packets", packets(session.spark, RATE, 1), timestamp="ts", keep="1 min")
        for name, text in demo_queries(RATE).items():
            session.register(text, name=name)
        page = session.dashboard()
        session.start(trigger="1 second")
        time.sleep(SECONDS)
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=[f"--{flag}" for flag in FLAGS])
        for name, path in VIEWS.items():
            shoot(browser, page.url.rstrip("/") + path, f"page-{name}", viewport=DESK)
        shoot(
            browser, page.url, "page-mistake", viewport=DESK, text="SELECT src, SUM(lenght) FROM packets [WINDOW 1 min]"
        )
        session.use_policy("aggressive")
        time.sleep(SECONDS // 4)
        shoot(browser, page.url + "schedule", "page-dark", viewport=DESK, color_scheme="dark")
        shoot(browser, page.url, "page-phone", viewport=PHONE)
        browser.close()


def shoot(browser: Browser, url: str, name: str, text: str | None = None, **options: Any) -> None:
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(url)
    page.get_by_role("status").filter(has_text="Live").first.wait_for()
    if text is not None:
        page.locator(".cm-content").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(text)
    # Charts are drawn when their first numbers have come.
    time.sleep(4)
    page.screenshot(path=FIGURES / f"{name}.png")
    context.close()


if __name__ == "__main__":
    main()
