"""Every query that the papers print (tests/golden/printed_queries.sql), over small data, against DuckDB."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sash
from sash.catalog import Catalog, Stream
from sash.core.errors import CqlError
from sash.core.time import SECOND, to_micros
from sash.runtime.route import route
from sash.sql import CreateStream, bind, parse
from sash.sql.reading.script import parse_script
from tests.runtime.test_continuous import answer_of_changes
from tests.support.feed import answers_of
from tests.support.oracle import duck, recompute, same_rows

PRINTED = Path(__file__).parent.parent / "golden" / "printed_queries.sql"
MINUTE = 60 * SECOND
START = 1_700_000_000 // 1800 * 1800 * SECOND
STREAMS = """
    CREATE STREAM S (ts TIMESTAMP, a INT, b INT, K INT, length INT, protocol STRING, user STRING)
      FROM parquet OPTIONS (path 's') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM T (ts TIMESTAMP, b INT) FROM parquet OPTIONS (path 't') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM S1 (ts TIMESTAMP, a INT, v INT) FROM parquet OPTIONS (path 's1') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM S2 (ts TIMESTAMP, a INT, w INT) FROM parquet OPTIONS (path 's2') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM S3 (ts TIMESTAMP, a INT) FROM parquet OPTIONS (path 's3') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM Stream1 (ts TIMESTAMP, a INT) FROM parquet OPTIONS (path 'stream1') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM Stream2 (ts TIMESTAMP, a INT) FROM parquet OPTIONS (path 'stream2') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM Link1 (ts TIMESTAMP, source_IP_address STRING, protocol STRING, payload INT)
      FROM parquet OPTIONS (path 'link1') TIMESTAMP ts KEEP 1 hour;
    CREATE STREAM Link2 (ts TIMESTAMP, source_IP_address STRING, protocol STRING, payload INT)
      FROM parquet OPTIONS (path 'link2') TIMESTAMP ts KEEP 1 hour;
"""


@dataclass(frozen=True)
class PrintedText:
    where: str
    text: str
    slip: str | None

    @property
    def slides(self) -> bool:
        return "SLIDE" in self.text


def printed() -> list[PrintedText]:
    found = []
    for part in filter(str.strip, PRINTED.read_text().split(";\n")):
        lines = part.strip().splitlines()
        comments = [line.removeprefix("-- ") for line in lines if line.startswith("--")]
        text = "\n".join(line for line in lines if not line.startswith("--")).strip()
        slip = next((comment for comment in comments if comment.startswith("slip: ")), None)
        found.append(PrintedText(comments[-2] if slip else comments[-1], text, slip))
    return found


ALL = printed()
READ = [each for each in ALL if each.slip is None]
PANES = [each for each in READ if "[WINDOW" in each.text]
CONTINUOUS = [each for each in READ if each not in PANES]


def declared() -> list[Stream]:
    made = []
    for statement in parse_script(STREAMS):
        assert isinstance(statement, CreateStream) and statement.schema is not None
        made.append(Stream(statement.name, statement.schema, statement.timestamp, keep=statement.keep))
    return made


def catalog() -> Catalog:
    known = Catalog()
    for stream in declared():
        known.add_stream(stream)
    return known


def test_all_texts_are_there() -> None:
    assert len([each for each in ALL if "corrected" not in each.where]) == 30
    assert len(READ) == 30, "as many can be read: each slip has its correction"


@pytest.mark.parametrize("each", [each for each in ALL if each.slip is not None], ids=lambda each: each.where)
def test_slips_are_refused_at_their_words(each: PrintedText) -> None:
    known = catalog()
    statement = f"REGISTER QUERY q AS {each.text}"
    with pytest.raises(CqlError) as error:
        route(bind(parse(statement).select, known))  # type: ignore[union-attr]
    word = statement[error.value.span.start : error.value.span.end]
    assert word in ("S1", "a", ".", "TCP", "UDP", "U") or "omitted" in str(each.slip)


# -- without a JVM: aggregates over one window, from panes ------------------------------------------------


def tuples(stream: Stream, places: list[int], **columns: list[Any]) -> pa.Table:
    """Tuples at these seconds."""
    values = {"ts": [START + place * SECOND for place in places], **columns}
    arrays = [pa.array(values[field.name], pa.int64() if field.name == "ts" else field.type) for field in stream.schema]
    table = pa.table(
        [array.cast(field.type) for array, field in zip(arrays, stream.schema, strict=True)], stream.schema
    )
    return table.append_column("_us", table["ts"].cast(pa.int64()))


def of_s(stream: Stream, count: int = 240) -> pa.Table:
    """Forty minutes."""
    numbers = range(count)
    return tuples(
        stream, [10 * n + 1 for n in numbers], a=[(n * 37) % 401 for n in numbers], b=[n % 7 for n in numbers],
        K=[n % 4 for n in numbers], length=[(n * 53) % 211 for n in numbers],
        protocol=[("TCP", "UDP", "ICMP")[n % 3] for n in numbers], user=[("U", "V")[n % 5 > 1] for n in numbers],
    )  # fmt: skip


def test_periodic_queries_from_panes() -> None:
    stream = declared()[0]
    rows = of_s(stream)
    found = answers_of(stream, {each.where: each.text for each in PANES}, [rows.slice(i * 60, 60) for i in range(4)])
    for each in PANES:
        length, _ = (int(number) * MINUTE for number in re.findall(r"(\d+) min", each.text))
        assert len(found[each.where]) >= 7
        for answer in found[each.where]:
            expected = recompute(each.text, rows, to_micros(answer.as_of), length)
            assert same_rows(answer.table.to_pylist(), expected), (each.where, answer.as_of)


# -- on Spark: everything else, in one session -------------------------------------------------------------


def data() -> dict[str, pa.Table]:
    s, t, s1, s2, s3, one, two, *links = declared()
    half = range(60)
    return {
        "S": of_s(s),
        "T": tuples(t, [40 * n + 3 for n in half], b=[n % 5 for n in half]),
        "S1": tuples(s1, [15 * n + 2 for n in half], a=[n % 6 for n in half], v=list(half)),
        "S2": tuples(s2, [15 * n + 7 for n in half], a=[n % 4 for n in half], w=list(half)),
        "S3": tuples(s3, [45 * n + 11 for n in half], a=[n % 5 for n in half]),
        # Each tuple has one partner, which comes 23, 43 or 57 seconds later.
        "Stream1": tuples(one, [10 * n for n in half], a=list(half)),
        "Stream2": tuples(two, [10 * n + (23, 43, 57)[n % 3] for n in half], a=list(half)),
        **{
            link.name: tuples(
                link, [20 * n + 3 * place + 1 for n in half],
                source_IP_address=[f"10.0.0.{(n * (place + 2)) % 7}" for n in half],
                protocol=[("ftp", "telnet")[n % 2] for n in half], payload=list(half),
            )
            for place, link in enumerate(links)
        },
    }  # fmt: skip


DATA = data()
_NAME = r"\b(S|T|S[123]|Stream[12]|Link[12])\b"
_WINDOW = re.compile(rf"{_NAME}(?!\.)(?: ?\[RANGE (\d+)( sec| min|)(?: SLIDE \d+ sec)?\])?", re.IGNORECASE)


def defined(text: str, now: int) -> Counter[Any]:
    """The relational query over the windows as of a time, by DuckDB."""

    def window(match: re.Match[str]) -> str:
        name, length, unit = match.groups()
        seen = f"_us <= {now}"
        if length is not None:
            seen += f" AND _us > {now - int(length) * (MINUTE if unit == ' min' else SECOND)}"
        return f"(SELECT * EXCLUDE (_us) FROM {name} WHERE {seen}) {name}"

    inner = re.sub(r"\w+stream(?:-restore)?\((.*?)\)", r"\1", " ".join(text.split()), flags=re.IGNORECASE)
    for name, table in DATA.items():
        duck().register(name, table)
    head, clause, rest = re.split(r"(\bFROM\b)", inner, maxsplit=1, flags=re.IGNORECASE)
    table = duck().sql(head + clause + _WINDOW.sub(window, rest)).to_arrow_table()
    return listed(table)


def listed(table: pa.Table) -> Counter[Any]:
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    return Counter(zip(*(map(exact, column.to_pylist()) for column in columns), strict=True))


def exact(value: Any) -> Any:
    return int(value) if isinstance(value, float) or hasattr(value, "as_integer_ratio") else value


def pairs(now: int) -> list[tuple[int, int, tuple[int, int, int, int]]]:
    """The join of Stream1 and Stream2: when each pair comes, when it expires, and its columns."""
    found = []
    for one, a in zip(DATA["Stream1"]["_us"].to_pylist(), DATA["Stream1"]["a"].to_pylist(), strict=True):
        for other, b in zip(DATA["Stream2"]["_us"].to_pylist(), DATA["Stream2"]["a"].to_pylist(), strict=True):
            if a == b and abs(one - other) < MINUTE and max(one, other) <= now:
                found.append((max(one, other), min(one, other) + MINUTE, (one, a, other, b)))
    return sorted(found)


@pytest.mark.spark
def test_all_other_queries(spark: Any) -> None:
    with sash.connect(spark=spark) as session:
        for stream in declared():
            frame = spark.createDataFrame(DATA[stream.name].drop_columns(["_us"]))
            session.create_stream(stream.name, frame, timestamp="ts", keep="1 hour")
        queries = [session.register(each.text, name=f"q{place}") for place, each in enumerate(CONTINUOUS)]
        # A question about the whole stream is answered from panes, by a query that has them.
        for place, each in enumerate(CONTINUOUS):
            if "[" not in each.text:
                session.register(each.text.replace("FROM S", "FROM S [UNBOUNDED SLIDE 1 min]"), name=f"u{place}")
        session.run()
        for each, query in zip(CONTINUOUS, queries, strict=True):
            assert query.error is None, each.where
            if "SLIDE" in each.text or "Wstream" in each.text:
                check_results(each, query)
            else:
                check_changes(each, query)
                check_asked(each, session)


def check_changes(each: PrintedText, query: sash.Query) -> None:
    """A relation is the definition's at every instant at which it changes."""
    changes = query.changes()
    assert changes.num_rows > 3, each.where
    stamps = sorted(set(changes["_ts"].cast(pa.int64()).to_pylist()))
    for now in (*stamps[:: max(1, len(stamps) // 12)], stamps[-1]):
        assert of_changes(changes, now) == defined(each.text, now), (each.where, now)


def of_changes(changes: pa.Table, now: int) -> Counter[Any]:
    kept = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) and not name.startswith("_") else column
        for name, column in zip(changes.column_names, changes.columns, strict=True)
    ]
    found = answer_of_changes(pa.Table.from_arrays(kept, changes.column_names), now)
    return Counter({tuple(map(exact, row)): count for row, count in found.items()})


def check_asked(each: PrintedText, session: sash.Session) -> None:
    """The same relation, asked once: from panes or from stored rows."""
    answer = session.query(each.text)
    as_of = to_micros(datetime.fromisoformat(answer.schema.metadata[b"as_of"].decode()))
    assert listed(answer) == defined(each.text, as_of), each.where


def check_results(each: PrintedText, query: sash.Query) -> None:
    if "restore" in each.text:
        check_restored(each, query)
    elif "[ROWS 10]\nFROM Stream1[RANGE 1 min]" in each.text:
        last = pairs(max(DATA["Stream2"]["_us"].to_pylist()))[-10:]
        assert listed(query.view()) == Counter(row for _, _, row in last)
    else:
        check_chunks(each, query)


def check_chunks(each: PrintedText, query: sash.Query) -> None:
    """The sum of ten chunks of six seconds is that of a minute."""
    answers = query.answers()
    assert len(answers) > 90, each.where
    stamps, values = DATA["Stream1"]["_us"].to_pylist(), DATA["Stream1"]["a"].to_pylist()
    for answer in answers:
        now = to_micros(answer.as_of)
        inside = [value for ts, value in zip(stamps, values, strict=True) if now - MINUTE < ts <= now]
        assert listed(answer.table) == Counter([(sum(inside),)]), (each.where, answer.as_of)


def check_restored(each: PrintedText, query: sash.Query) -> None:
    """The pairs as of each ten seconds, and those that have come and gone since the ten seconds before."""
    answers, restored = query.answers(), 0
    assert len(answers) > 50, each.where
    for answer in answers:
        now = to_micros(answer.as_of)
        rows = Counter(row for come, gone, row in pairs(now) if gone > now or come > now - 10 * SECOND)
        restored += sum(gone <= now and come > now - 10 * SECOND for come, gone, _ in pairs(now))
        assert listed(answer.table) == rows, (each.where, answer.as_of)
    assert restored > 3, "nothing to restore shows nothing"
