"""How long it takes to parse or refuse a megabyte of text that is meant to keep the parser busy; and to plan queries
that are meant to keep the optimiser busy.

    python -m benchmarks.run_hostile_text [--repeat 3]

Each text is as long as asked for and as long as the limits let it be; queries have as many windows and conditions as
the limits let them have, and are parsed, bound and planned as if they were registered. The better of some repetitions
counts, in seconds of processor time. Prints a table, and writes benchmarks/out/hostile_text.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from sash.catalog import Catalog, Stream
from sash.core.errors import SashError
from sash.runtime.compiler import as_select
from sash.runtime.continuous.continuous_queries import unmeasured
from sash.runtime.route import route_plan
from sash.sql import bind, parse_script, plan_changes
from sash.sql.reading.limits import MOST_DEEP, MOST_JOINED, MOST_NESTED, MOST_READ, MOST_VALUES, STATEMENTS

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
# Texts of the greatest allowed length that are slow to read.
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

WINDOW = "packets [RANGE 1 min]"
# As many conditions between windows as fit beside the windows.
MANY = STATEMENTS.tokens // 15


def _joined(conditions: Iterable[str], columns: str = "a0.a", windows: int = MOST_JOINED) -> str:
    sources = ", ".join(f"{WINDOW} a{number}" for number in range(windows))
    return f"SELECT {columns} FROM {sources} WHERE " + " AND ".join(conditions)


def _chain(windows: int = MOST_JOINED) -> list[str]:
    return [f"a{number}.a = a{number + 1}.b" for number in range(windows - 1)]


def _between(operator: str) -> list[str]:
    pairs = ((number, number % (MOST_JOINED - 1)) for number in range(MANY))
    return [f"a{place}.a + {number} {operator} a{place + 1}.b + {number}" for number, place in pairs]


def _tested(test: str, number: int) -> str:
    return f"SELECT a FROM {WINDOW} a WHERE " + " AND ".join([test] * number)


def _sub_queries() -> str:
    sources = ", ".join(f"({_joined(_chain())}) s{number}" for number in range(MOST_READ // MOST_JOINED))
    return f"SELECT s0.a FROM {sources} WHERE s0.a = s1.a AND s1.a = s2.a AND s2.a = s3.a"


_PLACES = range(MOST_JOINED)
PLANNED = {
    "a chain": _joined(_chain()),
    "a star": _joined(f"a0.a + {number} = a{number}.a" for number in _PLACES[1:]),
    "a clique": _joined(f"a{one}.a + {other} = a{other}.a + {one}" for one in _PLACES for other in range(one)),
    "one attribute": _joined(f"a0.a = a{number}.a" for number in _PLACES[1:]),
    "many keys": _joined(_between("=")),
    "many conditions": _joined([*_chain(), *_between(">")]),
    "many columns": _joined(
        _chain(), ", ".join(f"a{each % MOST_JOINED}.a + {each} AS c{each}" for each in range(MANY))
    ),
    "sub-queries": _sub_queries(),
    "UNION ALL of joins": " UNION ALL ".join([_joined(_chain(4), windows=4)] * (MOST_READ // 4)),
    "UNION": " UNION ".join([f"SELECT a FROM {WINDOW}"] * MOST_READ),
    "EXCEPT": " EXCEPT ".join([f"SELECT a FROM {WINDOW}"] * MOST_READ),
    "EXISTS": _tested(f"EXISTS (SELECT * FROM {WINDOW} t WHERE t.a = a.a)", MOST_READ - 1),
    "NOT EXISTS": _tested(f"NOT EXISTS (SELECT * FROM {WINDOW} t WHERE t.a = a.a)", MOST_READ - 1),
    "NOT IN": _tested(f"a NOT IN (SELECT b FROM {WINDOW} t)", 4),
    "more NOT INs than may be": _tested(f"a NOT IN (SELECT b FROM {WINDOW} t)", MOST_READ - 1),
    "more windows than may be": _joined(_chain(1_000), windows=1_000),
}


def _read(text: str) -> str:
    return f"{len(parse_script(text))} statements"


def _plan(text: str) -> str:
    unmeasured(route_plan(plan_changes(bind(as_select(text), _catalog()))))
    return "planned"


def _catalog() -> Catalog:
    known = Catalog()
    columns = [("ts", pa.timestamp("us", "UTC")), ("a", pa.int32()), ("b", pa.int32())]
    known.add_stream(Stream("packets", pa.schema(columns), "ts"))
    return known


def measure(text: str, repeat: int, action: Callable[[str], str] = _read) -> tuple[float, str]:
    """The least seconds, and the result."""
    taken, outcome = [], ""
    for _ in range(repeat):
        started = time.process_time()
        try:
            outcome = action(text)
        except SashError as error:
            outcome = str(error).splitlines()[0]
        taken.append(time.process_time() - started)
    return min(taken), outcome


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeat", type=int, default=3)
    repeat = arguments.parse_args().repeat
    texts = {f"1 MB: {name}": make(MEGABYTE) for name, make in TEXTS.items()}
    texts |= {f"{STATEMENTS.characters:,}: {name}": make(STATEMENTS.characters) for name, make in TEXTS.items()}
    found, longest = [], 0.0
    work = [(name, text, _read) for name, text in (texts | MOST).items()]
    work += [(f"planned: {name}", text, _plan) for name, text in PLANNED.items()]
    for name, text, action in work:
        seconds, outcome = measure(text, repeat, action)
        longest = max(longest, seconds)
        found.append({"text": name, "characters": len(text), "seconds": seconds, "outcome": outcome})
        print(f"{seconds:7.3f} s  {name:36} {outcome[:90]}")
    OUT.mkdir(exist_ok=True)
    (OUT / "hostile_text.json").write_text(json.dumps(found, indent=1))
    print(f"longest: {longest:.3f} s")


if __name__ == "__main__":
    main()
