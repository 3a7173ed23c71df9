"""Writes two hours of a made-up shop's access log, always the same one: log/part-1.log to log/part-4.log.

The lines have the combined log format of Apache and nginx. In them are

    300 visitors who look at pages; some put things into a cart, and two thirds of these order
    a crawler that takes one page after the other
    198.51.100.66, who looks for pages that are not there, from 13:55 to 13:59
    an outage: from 13:50 on, orders fail with status 500
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PAGES = ("/", "/shoes", "/shoes/1", "/shoes/2", "/hats", "/hats/1", "/about", "/style.css")
SIZES = {"/": 5_000, "/shoes": 9_000, "/hats": 8_000, "/style.css": 30_000}
BROWSER, CRAWLER = "Mozilla/5.0 (X11; Linux x86_64)", "ExampleBot/2.1 (+http://example.org/bot)"
Request = tuple[float, str, str, int, int, str]


def visits(chance: random.Random) -> list[Request]:
    requests: list[Request] = []
    for visitor in range(300):
        client, second = f"192.0.2.{visitor % 250}", chance.uniform(0, 7_000)
        for _ in range(chance.randrange(3, 25)):
            page = chance.choices(PAGES, (20, 15, 8, 6, 10, 5, 2, 30))[0]
            size = SIZES.get(page, 3_000) + chance.randrange(500)
            requests.append((second, client, f"GET {page}", 200, size, BROWSER))
            second += chance.expovariate(1 / 20)
        if chance.random() < 0.4:
            requests.append((second, client, "POST /cart", 200, 400, BROWSER))
            if chance.random() < 0.67:
                second += chance.uniform(20, 200)
                status = 500 if second >= 6_600 else 200
                requests.append((second, client, "POST /order", status, 600, BROWSER))
    return requests


def robots(chance: random.Random) -> list[Request]:
    crawler = [(5.0 * n, "203.0.113.9", f"GET {PAGES[n % 7]}", 200, 3_000, CRAWLER) for n in range(1_440)]
    scanner = [
        (6_900 + 1.2 * n, "198.51.100.66", f"GET /admin/{chance.randrange(999)}.php", 404, 200, "-") for n in range(200)
    ]
    return crawler + scanner


def line(request: Request) -> str:
    second, client, text, status, size, agent = request
    moment = NOON + timedelta(seconds=int(second))
    return f'{client} - - [{moment:%d/%b/%Y:%H:%M:%S +0000}] "{text} HTTP/1.1" {status} {size} "-" "{agent}"\n'


def main() -> None:
    chance = random.Random(7)
    requests = sorted(request for request in visits(chance) + robots(chance) if request[0] < 7_200)
    Path("log").mkdir(exist_ok=True)
    for part in range(4):
        inside = [request for request in requests if part * 1_800 <= request[0] < (part + 1) * 1_800]
        Path("log", f"part-{part + 1}.log").write_text("".join(map(line, inside)))
    print(f"{len(requests)} requests in log/")


if __name__ == "__main__":
    main()
