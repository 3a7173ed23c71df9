"""How long it takes to parse or refuse a megabyte of text that is meant to keep the parser busy.

    python -m benchmarks.run_hostile_text [--repeat 3]

Each text is as long as asked for and as long as the limits let it be; the better of some repetitions counts. Prints
a table, and writes benchmarks/out/hostile_text.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from sash.core.errors import SashError
from sash.language import parse_script
from sash.language.reading.limits import MOST_DEEP, MOST_NESTED, MOST_VALUES, STATEMENTS

OUT = Path(__file__).parent / "out"
MEGABYTE = 1_000_000
FROM = " FROM packets [WINDOW 10 min SLIDE 2 min]"


def _filled(part: str, size: int, before: str = "", after: str = "") -> str:
    return before + part * ((size - len(before) - len(after)) // len(part)) + after


def _values(number: int) -> str:
    return ", ".join(map(str, range(number)))


TEXTS: dict[str, Callable[[int], str]] = {
    "parentheses": lambda size: _filled("(", size, "SELECT "),
    "balanced parentheses": lambda size: "SELECT " + "(" * (size // 2) + ")" * (size // 2) + FROM,
    "NOT": lambda size: _filled("NOT ", size, f"SELECT 1{FROM} WHERE ", "ok"),
    "AND": lambda size: _filled("ok AND ", size, f"SELECT 1{FROM} WHERE ", "ok"),
    "sums": lambda size: _filled("a+", size, "SELECT ", f"a{FROM}"),
    "IN list": lambda size: _filled("1, ", size, f"SELECT 1{FROM} WHERE a IN (", "1)"),
    "SELECT list": lambda size: _filled("a, ", size, "SELECT ", f"a{FROM}"),
    "UNION ALL": lambda size: _filled(f"SELECT a{FROM} UNION ALL ", size, after=f"SELECT a{FROM}"),
    "joins": lambda size: _filled(" JOIN packets [RANGE 1 min] p ON a = b", size, f"SELECT 1{FROM}"),
    "CASE": lambda size: _filled("CASE WHEN a THEN ", size, "SELECT "),
    "rows": lambda size: _filled(", (1)", size, "INSERT INTO t VALUES (1)"),
    "columns": lambda size: _filled("a INT, ", size, "CREATE TABLE t (", "b INT PRIMARY KEY)"),
    "statements": lambda size: _filled("SHOW QUERIES;", size),
    "a string": lambda size: _filled("x", size, "SELECT '", f"'{FROM}"),
    "strings": lambda size: _filled("'x' ", size, "SELECT ", FROM),
    "an interval": lambda size: _filled("9", size, "SELECT INTERVAL '", f"' DAYS{FROM}"),
    "escapes": lambda size: _filled("\\\\", size, "SELECT '", f"'{FROM}"),
    "a name": lambda size: _filled("x", size, "SELECT ", FROM),
    "a number": lambda size: _filled("1", size, "SELECT ", FROM),
    "comments": lambda size: _filled("/*x*/ ", size),
    "nested comments": lambda size: "/*" * (size // 4) + "*/" * (size // 4),
    "open comments": lambda size: _filled("/*", size),
    "a hint": lambda size: _filled("(", size, "SELECT /*+ ", "*/ 1"),
    "quotes": lambda size: _filled("'", size - 1 + size % 2),
    "lines": lambda size: _filled("\n", size),
    "semicolons": lambda size: _filled(";", size),
}
# As much as is read, of what is read slowly.
MOST = {
    "as deep as may be": "SELECT " + "(" * (MOST_NESTED - 1) + "a" + ")" * (MOST_NESTED - 1) + FROM,
    "as many levels as may be": "SELECT " + " + ".join(["a"] * (MOST_DEEP - 10)) + FROM,
    "as many ANDs as may be": f"SELECT 1{FROM} WHERE " + " AND ".join(["a = 1"] * (STATEMENTS.tokens // 4 - 10)),
    "as many values as may be": f"SELECT 1{FROM} WHERE a IN ({_values(MOST_VALUES)})",
    "as many words as may be": "SELECT " + ", ".join(["a + 1"] * (STATEMENTS.tokens // 4 - 10)) + FROM,
    "as many rows as may be": "INSERT INTO t VALUES (1)" + ", (1)" * (STATEMENTS.tokens // 4 - 10),
    "as many SELECTs as may be": f"SELECT a{FROM} UNION ALL " * (STATEMENTS.tokens // 14 - 10) + f"SELECT a{FROM}",
    "as many joins as may be": f"SELECT 1{FROM}"
    + " JOIN packets [RANGE 1 min] ON a = b" * (STATEMENTS.tokens // 11 - 10),
    "as many statements as may be": "SHOW QUERIES;" * (STATEMENTS.tokens // 3 - 10),
}


def measure(text: str, repeat: int) -> tuple[float, str]:
    """The least seconds, and what came of it."""
    taken, outcome = [], ""
    for _ in range(repeat):
        started = time.perf_counter()
        try:
            outcome = f"{len(parse_script(text))} statements"
        except SashError as error:
            outcome = str(error).splitlines()[0]
        taken.append(time.perf_counter() - started)
    return min(taken), outcome


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeat", type=int, default=3)
    repeat = arguments.parse_args().repeat
    texts = {f"1 MB: {name}": make(MEGABYTE) for name, make in TEXTS.items()}
    texts |= {f"{STATEMENTS.characters:,}: {name}": make(STATEMENTS.characters) for name, make in TEXTS.items()}
    found, longest = [], 0.0
    for name, text in (texts | MOST).items():
        seconds, outcome = measure(text, repeat)
        longest = max(longest, seconds)
        found.append({"text": name, "characters": len(text), "seconds": seconds, "outcome": outcome})
        print(f"{seconds:7.3f} s  {name:36} {outcome[:90]}")
    OUT.mkdir(exist_ok=True)
    (OUT / "hostile_text.json").write_text(json.dumps(found, indent=1))
    print(f"longest: {longest:.3f} s")


if __name__ == "__main__":
    main()
