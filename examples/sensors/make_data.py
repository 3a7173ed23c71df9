"""Writes a day of made-up readings, always the same ones: readings/part-1.json to readings/part-4.json.

Forty sensors tell the temperature of ten rooms every five minutes, with a few minutes' delay now and then.

    sensor 13 is silent from 23:20 on; 14 tells the same value from 09:00 on
    room 7 becomes hot in the last hour
"""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
Reading = tuple[float, float, int, float]  # when it comes, when it was taken, both in seconds; sensor; value


def readings(chance: random.Random) -> list[Reading]:
    found: list[Reading] = []
    for sensor in range(40):
        for second in range(7 * sensor, 86_400, 300):
            if sensor == 13 and second >= 84_000:
                continue
            value = 20 + 3 * math.sin((second - 32_400) / 86_400 * 2 * math.pi) + chance.gauss(0, 0.3)
            if sensor % 10 == 7 and second >= 23 * 3_600:
                value += 15
            if sensor == 14 and second >= 9 * 3_600:
                value = 21.5
            late = chance.uniform(0, 200) if chance.random() < 0.05 else 0
            found.append((second + late, second, sensor, round(value, 2)))
    return sorted(found)


def main() -> None:
    Path("readings").mkdir(exist_ok=True)
    found = readings(random.Random(2))
    for part in range(4):
        lines = [
            json.dumps({"ts": (MIDNIGHT + timedelta(seconds=taken)).isoformat(), "sensor": sensor, "celsius": value})
            for comes, taken, sensor, value in found
            if part * 21_600 <= comes and (comes < (part + 1) * 21_600 or part == 3)
        ]
        Path("readings", f"part-{part + 1}.json").write_text("\n".join(lines) + "\n")
    print(f"{len(found)} readings in readings/")


if __name__ == "__main__":
    main()
