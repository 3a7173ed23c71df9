"""The examples run as their READMEs say, and their answers are those of DuckDB over the same files."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sash.cli import app
from sash.core.time import parse_duration, to_micros
from sash.sql import RegisterQuery, parse_script
from tests.support.oracle import recompute, same_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

EXAMPLES = Path(__file__).parents[2] / "examples"
WINDOW = re.compile(r"\[WINDOW (\d+ \w+) SLIDE")


class Example:
    """One example that has been run: its output, its answers, and its files as tables of DuckDB."""

    def __init__(self, name: str, folder: Path) -> None:
        runpy.run_path(str(EXAMPLES / name / "make_data.py"), run_name="__main__")
        # The JVM of the shared Spark session was started in another directory.
        text = re.sub(r"path '(\w+)'", rf"path '{folder}/\1'", (EXAMPLES / name / "queries.sql").read_text())
        script = folder / "queries.sql"
        script.write_text(text)
        result = CliRunner().invoke(app, ["run", str(script), "--until-drained", "--answers", "answers"])
        assert result.exit_code == 0, result.output
        self.output = result.stdout
        for shown in re.findall(r"```text\n(.*?)```", (EXAMPLES / name / "README.md").read_text(), re.DOTALL):
            assert shown in self.output
        self.texts = {s.name: s.text for s in parse_script(text) if isinstance(s, RegisterQuery)}
        self.folder = folder
        self.duck = duckdb.connect()
        self.duck.sql("SET TimeZone = 'UTC'")

    def rows(self, query: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / "answers" / query).to_pylist()

    def last(self, query: str) -> list[dict[str, Any]]:
        rows = self.rows(query)
        newest = max(row["as_of"] for row in rows)
        return [{k: v for k, v in row.items() if k != "as_of"} for row in rows if row["as_of"] == newest]

    def sql(self, text: str) -> list[dict[str, Any]]:
        return self.duck.sql(text).to_arrow_table().to_pylist()

    def is_answered_like_duckdb(self, query: str, stream: str, least: int) -> None:
        """An aggregate over one window: its last answers, and some of the others, recomputed from the tuples."""
        tuples = self.duck.sql(f"SELECT *, epoch_us(ts) AS _us FROM {stream}").to_arrow_table()
        length = parse_duration(WINDOW.search(self.texts[query])[1])  # type: ignore[index]
        rows = self.rows(query)
        moments = sorted({row["as_of"] for row in rows})
        assert len(moments) >= least, query
        for as_of in {*moments[:: 1 + len(moments) // 8], *moments[-2:]}:
            ours = [{k: v for k, v in row.items() if k != "as_of"} for row in rows if row["as_of"] == as_of]
            theirs = recompute(self.texts[query], tuples, to_micros(as_of), length)
            assert same_rows(ours, theirs), (query, as_of)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Example]:
    monkeypatch.chdir(tmp_path)
    return lambda name: Example(name, tmp_path)


def test_web_log(example: Callable[[str], Example]) -> None:
    run = example("web_log")
    run.duck.sql(
        "CREATE TABLE log AS SELECT column0 AS client, strptime(column3, '[%d/%b/%Y:%H:%M:%S') AS ts, "
        "column5 AS request, column6 AS status, column7 AS size, column9 AS agent "
        "FROM read_csv('log/*.log', delim = ' ', quote = '\"', header = false, nullstr = '-')"
    )
    for query, least in {"traffic_5_min": 100, "traffic_30_min": 20, "traffic_2_hours": 8, "statuses": 20}.items():
        run.is_answered_like_duckdb(query, "log", least)
    run.is_answered_like_duckdb("visitors", "log", 20)
    run.is_answered_like_duckdb("scanners", "log", 5)
    assert {row["client"] for row in run.rows("scanners")} == {"198.51.100.66"}
    (surge,) = run.last("error_surge")
    assert surge["failures"] > 2 * surge["failures_before"] == 0
    carts = run.sql(
        "WITH recent AS (FROM log WHERE ts > TIMESTAMP '2026-03-02 13:50:00') "
        "SELECT client, ts FROM recent cart WHERE request LIKE 'POST /cart%' AND NOT EXISTS (FROM recent paid WHERE "
        "paid.client = cart.client AND paid.request LIKE 'POST /order%' AND paid.status = 200)"
    )
    assert carts and {row["client"] for row in run.last("open_carts")} == {row["client"] for row in carts}
    (page, *_) = run.last("pages")
    assert page["page"] == "/style.css"
    assert "average" in run.output.partition("SELECT status, COUNT(*)")[2]


def test_packets(example: Callable[[str], Example]) -> None:
    run = example("packets")
    run.duck.sql(
        "CREATE TABLE packets AS SELECT * FROM read_csv('packets/*.csv', header = false, "
        "names = ['ts', 'src', 'dst', 'protocol', 'port', 'flag', 'length'])"
    )
    for query, least in {"usual_length": 12, "protocols": 20, "web": 20, "secure_web": 20, "any_web": 12}.items():
        run.is_answered_like_duckdb(query, "packets", least)
    run.is_answered_like_duckdb("port_scanners", "packets", 5)
    assert {row["src"] for row in run.rows("port_scanners")} == {"10.0.0.99", "10.0.0.66"}
    top = run.sql(
        "SELECT src, SUM(length) AS weight FROM packets WHERE ts > TIMESTAMP '2026-03-02 09:02:00' "
        "GROUP BY src ORDER BY weight DESC LIMIT 3"
    )
    assert same_rows(run.last("talkers_10_min"), top, ordered=True)
    shakes = run.sql(
        "SELECT a.dst, COUNT(*), MAX(epoch_us(b.ts) - epoch_us(a.ts)) FROM packets a, packets b WHERE a.src = b.dst "
        "AND a.dst = b.src AND a.port = b.port AND a.flag = 'SYN' AND b.flag = 'SYN-ACK' AND b.ts >= a.ts "
        "AND b.ts <= a.ts + INTERVAL 1 SECOND AND a.ts > TIMESTAMP '2026-03-02 09:11:30' GROUP BY a.dst"
    )
    assert shakes and same_rows(run.last("handshakes"), shakes)
    unanswered = {(row["src"], row["dst"]) for row in open_now(run.rows("half_open"))}
    assert unanswered == {("10.0.0.66", "10.0.1.5")}


def open_now(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that a change stream leaves: those that joined, and neither expired nor were taken back."""
    end = max(change["_ts"] for change in changes)
    standing: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in sorted(changes, key=lambda change: change["_ts"]):
        key = (change["src"], change["dst"], change["port"], change["_exp"])
        if change["_sign"] > 0:
            standing[key] = change
        else:
            del standing[key]
    return [row for row in standing.values() if row["_exp"] > end]


def test_stock_ticks(example: Callable[[str], Example]) -> None:
    run = example("stock_ticks")
    columns = {
        "trades": ("ts", "symbol", "exchange", "price", "shares", "toward_ask"),
        "quotes": ("ts", "symbol", "bid", "ask"),
    }
    for table, names in columns.items():
        run.duck.sql(
            f"CREATE TABLE {table} AS SELECT * FROM read_csv('{table}/*.csv', header = false, names = {list(names)})"
        )
    for query, least in {"vwap_1_min": 40, "vwap_5_min": 40, "vwap_30_min": 8}.items():
        run.is_answered_like_duckdb(query, "trades", least)
    day = run.sql("SELECT symbol, SUM(shares), MIN(price), MAX(price) FROM trades GROUP BY symbol ORDER BY symbol")
    assert same_rows(run.last("today"), day, ordered=True)
    assert {row["symbol"] for row in run.rows("momentum")} == {"DIP"}
    assert {row["symbol"] for row in run.last("surge")} == {"HOT"}
    outside = run.sql(
        "SELECT t.symbol, t.ts, t.price, q.ask FROM trades t ASOF JOIN quotes q "
        "ON t.symbol = q.symbol AND t.ts >= q.ts WHERE t.price > 1.005 * q.ask"
    )
    ours = [{k: row[k] for k in ("symbol", "ts", "price", "ask")} for row in run.rows("above_the_ask")]
    assert outside and same_rows([row | {"ts": row["ts"].replace(tzinfo=None)} for row in ours], outside)
    assert "HOT" in run.output.partition("ORDER BY price * shares")[2]


def test_sensors(example: Callable[[str], Example]) -> None:
    run = example("sensors")
    run.duck.sql(
        "CREATE TABLE readings AS SELECT ts::TIMESTAMPTZ AS ts, sensor, celsius FROM read_json('readings/*.json')"
    )
    for query, least in {
        "sensors_10_min": 140,
        "sensors_1_hour": 70,
        "sensors_6_hours": 24,
        "hot": 5,
        "stuck": 10,
    }.items():
        run.is_answered_like_duckdb(query, "readings", least)
    assert {row["sensor"] for row in run.rows("stuck")} == {14}
    assert (
        {row["sensor"] for row in run.rows("hot")} == {7, 17, 27, 37} == {row["sensor"] for row in run.last("warming")}
    )
    assert run.last("silent") == [{"sensor": 13}]
    rooms = run.sql(
        "SELECT sensor % 10 AS room, AVG(celsius), MAX(celsius) FROM readings "
        "WHERE ts > TIMESTAMPTZ '2026-03-02 23:00:00+00' GROUP BY room ORDER BY room"
    )
    assert same_rows(run.last("rooms"), rooms, ordered=True)
    assert run.last("extremes")[0]["readings"] == run.sql("SELECT COUNT(*) AS n FROM readings")[0]["n"]
