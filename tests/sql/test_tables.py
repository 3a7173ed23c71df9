"""Tables: their statements, and joins with them in continuous queries."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from sash.core.errors import CqlError
from sash.plan.continuous import BaseWindow, Filter, Map, NrrJoin, RelationJoin, inputs
from sash.plan.nodes import Lookup
from sash.plan.periodic import PeriodicAggregate, flatten
from sash.sql import CreateTable, Delete, Drop, Insert, Show, TableChange, Update, bind_change, parse
from tests.sql.examples import (
    CATALOG,
    check_continuous_error,
    check_error,
    continuous_plan,
    explained,
    marked,
    plan,
)

# -- statements ----------------------------------------------------------------------------------------


def test_create_table() -> None:
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    one = parse("CREATE TABLE customers (id INT PRIMARY KEY, name STRING)")
    assert one == CreateTable("customers", schema, ("id",), retroactive=True)
    other = parse("create nonretroactive table t (A INT, b DECIMAL(4, 2), c ARRAY<INT>, primary key (B, a))")
    assert isinstance(other, CreateTable) and (other.key, other.retroactive) == (("b", "A"), False)
    assert parse("DROP TABLE t") == Drop("table", "t")
    assert parse("SHOW TABLES") == Show("tables")


def change(text: str) -> TableChange:
    statement = parse(text)
    assert isinstance(statement, Insert | Update | Delete)
    return bind_change(statement, CATALOG)


def test_what_changes_say() -> None:
    found = change("INSERT INTO ports VALUES (80, 'http'), (-1, NULL)")
    assert found.table is CATALOG.table("ports") and found.kind == "insert"
    assert found.rows.to_pylist() == [{"port": 80, "name": "http"}, {"port": -1, "name": None}]
    found = change("INSERT INTO Customers (NAME, id) VALUES ('it''s', 7)")
    assert found.rows.to_pylist() == [{"id": 7, "name": "it's", "city": None}]
    found = change("UPDATE routes SET cost = 1.5, since = DATE '2024-02-29' WHERE 2 = dst AND (routes.src = 1)")
    assert found.kind == "update"
    assert found.rows.to_pylist() == [{"src": 1, "dst": 2, "cost": Decimal("1.50"), "since": date(2024, 2, 29)}]
    found = change("DELETE FROM routes WHERE src = 1 AND dst = 2")
    assert (found.kind, found.rows.to_pylist()) == ("delete", [{"src": 1, "dst": 2}])
    assert found.rows.schema.field("src").type == pa.int32()


ERRORS = [
    ("CREATE TABLE «t» (a INT, b STRING)", "'t' needs a key"),
    ("CREATE NONRETROACTIVE «STREAM» s", "expected TABLE"),
    ("CREATE TABLE t (a INT PRIMARY KEY, «a» STRING)", "declared twice"),
    ("CREATE TABLE t (a INT PRIMARY KEY, b INT «PRIMARY KEY»)", "given twice"),
    ("CREATE TABLE t (a INT PRIMARY KEY, «PRIMARY KEY» (a))", "given twice"),
    ("CREATE TABLE t (aa INT, PRIMARY KEY («a»))", "did you mean 'aa'"),
    ("CREATE TABLE t (a INT, PRIMARY KEY (a, «A»))", "twice in the key"),
    ("CREATE TABLE t («a» ARRAY<INT> PRIMARY KEY)", "a key of type ARRAY<INT>"),
    ("CREATE TABLE t («a» DOUBLE PRIMARY KEY)", "a key of type DOUBLE"),
    ("CREATE TABLE t (a «INTT» PRIMARY KEY)", "INTT"),
    ("CREATE TABLE t «FROM» x", "expected ( and the table's columns"),
    ("CREATE TABLE t (a INT PRIMARY KEY) «FROM» x", "expected the end"),
    ("SHOW «VIEWS»", "expected one of QUERIES, STREAMS, TABLES, INDEXES"),
    ("INSERT «ports» VALUES (1, 'x')", "expected INTO"),
    ("INSERT INTO ports («1», 'x')", "expected a column's name"),
    ("INSERT INTO ports VALUES «1»", "expected a row in parentheses"),
    ("INSERT INTO ports VALUES (1, «)»", "expected a constant"),
    ("INSERT INTO ports «SELECT» 1", "INSERT .. SELECT"),
    ("INSERT INTO «prots» VALUES (1, 'x')", "did you mean 'ports'"),
    ("INSERT INTO «packets» VALUES (1, 'x')", "unknown table 'packets'"),
    ("INSERT INTO ports VALUES («1, 'x', 2»)", "2 columns need as many values, this row has 3"),
    ("INSERT INTO ports (port, «nam») VALUES (1, 'x')", "did you mean 'name'"),
    ("INSERT INTO ports («port», port) VALUES (1, 2)", "named twice"),
    ("INSERT INTO «ports» (name) VALUES ('x')", "'port' is in the key of 'ports'"),
    ("INSERT INTO ports VALUES («NULL», 'x')", "cannot be NULL"),
    ("INSERT INTO ports VALUES («'x'», 'x')", "'port' is INT, and 'x' is no constant of this type"),
    ("INSERT INTO ports VALUES («3000000000», 'x')", "'port' is INT"),
    ("INSERT INTO ports VALUES (1, «2»)", "'name' is STRING, and 2 is no constant"),
    ("INSERT INTO ports VALUES («x», 'x')", "expected a constant"),
    ("INSERT INTO ports VALUES («1 + 1», 'x')", "expected a constant"),
    ("INSERT INTO ports VALUES (1, «UPPER('x'»))", "expected a constant"),
    ("UPDATE ports SET name = 'x'« »", "UPDATE changes one row: expected WHERE and the key of 'ports'"),
    ("DELETE FROM ports« »", "DELETE changes one row"),
    ("DELETE FROM ports WHERE« »", "expected a condition"),
    ("UPDATE ports SET «port» = 1 WHERE port = 2", "is in the key: DELETE the row and INSERT another"),
    ("UPDATE ports SET name = 'x', «NAME» = 'y' WHERE port = 2", "set twice"),
    ("UPDATE ports SET «nme» = 'x' WHERE port = 2", "did you mean 'name'"),
    ("UPDATE ports SET name = «1» WHERE port = 2", "'name' is STRING"),
    ("UPDATE ports SET name = 'x' WHERE «port > 2»", "fixes the key"),
    ("UPDATE ports SET name = 'x' WHERE port = 2 AND «name» = 'y'", "conditions on 'name'"),
    ("UPDATE ports SET name = 'x' WHERE «port = 2 OR port = 3»", "fixes the key"),
    ("DELETE FROM ports WHERE port = 2 AND «port» = 3", "compared twice"),
    ("DELETE FROM ports WHERE «q».port = 2", "unknown table 'q'"),
    ("DELETE FROM ports WHERE port = «'a'»", "'port' is INT"),
    ("DELETE FROM «routes» WHERE src = 1", "WHERE must fix the whole key of 'routes': add dst = .."),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_errors_point_at_the_word(text: str, reason: str) -> None:
    statement, start, end = marked(text)
    with pytest.raises(CqlError) as caught:
        change(statement)
    assert reason in caught.value.reason and caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (start, end)


# -- joins ---------------------------------------------------------------------------------------------


def test_a_join_with_a_table() -> None:
    found = continuous_plan("SELECT p.src, ports.name FROM packets [RANGE 5 sec] p, ports WHERE p.port = ports.port")
    assert isinstance(found, Map) and isinstance(found.input, NrrJoin)
    assert found.input.table is CATALOG.table("ports")
    assert found.input.keys == (("p.port", "ports.port"),)
    assert found.input.columns == (("ports.port", "port"), ("ports.name", "name"))
    assert isinstance(found.input.input, BaseWindow)
    (joined,) = inputs(continuous_plan("SELECT name FROM packets [NOW] JOIN customers c ON c.id = src"))
    assert isinstance(joined, RelationJoin) and joined.columns == (("c.id", "id"), ("c.name", "name"))


PLANS = [
    (
        "SELECT * FROM (SELECT src, port FROM packets [NOW]) a JOIN ports USING (port) WHERE name <> 'x' AND src > 1",
        [
            "Project a.port AS port, a.src AS src, ports.name AS name  -> WKS",
            "  Filter ne(ports.name, 'x')  -> WKS",
            "    Non-retroactive join with ports on a.port = ports.port  -> WKS",
            "      Project port AS a.port, src AS a.src  -> WKS",
            "        Filter gt(src, 1)  -> WKS",
            "          Project packets.src AS src, packets.port AS port  -> WKS",
            "            Window packets [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        (
            "SELECT c.city, COUNT(*) AS n FROM customers c, packets [NOW] a, ports p, packets [NOW] b"
            " WHERE a.dst = b.src AND a.src = c.id AND b.port + 1 = p.port AND a.length = p.port AND c.name = p.name"
            " GROUP BY c.city"
        ),
        [
            "Project c.city AS city, COUNT(*) AS n  -> STR",
            "  GroupBy c.city: COUNT(*)  -> STR",
            "    Filter and(eq(a.length, p.port), eq(c.name, p.name))  -> STR",
            "      Relation join with customers on a.src = c.id  -> STR",
            "        Non-retroactive join with ports on b.port + 1 = p.port  -> WK",
            "          Join on a.dst = b.src  -> WK",
            "            Window packets a [WINDOW 0.001 ms]  -> WKS",
            "            Window packets b [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        (
            "SELECT p.name, COALESCE(c.city, '?') AS city FROM packets [NOW] a LEFT JOIN ports p USING (port)"
            " LEFT JOIN customers c ON a.src = c.id AND c.name <> p.name WHERE p.name IS NULL"
        ),
        [
            "Project p.name AS name, coalesce(c.city, '?') AS city  -> STR",
            (
                "  Project a.port, a.src, p.port, p.name, if(ne(c.name, p.name), c.id, NULL) AS c.id,"
                " if(ne(c.name, p.name), c.city, NULL) AS c.city,"
                " if(ne(c.name, p.name), c.name, NULL) AS c.name  -> STR"
            ),
            "    Relation left join with customers on a.src = c.id  -> STR",
            "      Filter is_null(p.name)  -> WKS",
            "        Non-retroactive left join with ports on a.port = p.port  -> WKS",
            "          Window packets a [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
    (
        "SELECT cost FROM packets [UNBOUNDED] a JOIN ports p USING(port) JOIN routes r ON a.src=r.src AND p.port=r.dst",
        [
            "Project r.cost AS cost  -> MON",
            "  Non-retroactive join with routes on a.src = r.src AND p.port = r.dst  -> MON",
            "    Non-retroactive join with ports on a.port = p.port  -> MON",
            "      Window packets a [UNBOUNDED]  -> MON",
        ],
    ),
    (
        (
            "SELECT a.src FROM packets [NOW] a, ports p WHERE a.port = p.port AND NOT EXISTS"
            " (SELECT 1 FROM trades [NOW] t WHERE t.symbol = p.name)"
        ),
        [
            "Project a.src AS src  -> STR",
            "  Negation on p.name = t.symbol, kept while there is no match  -> STR",
            "    Non-retroactive join with ports on a.port = p.port  -> WKS",
            "      Window packets a [WINDOW 0.001 ms]  -> WKS",
            "    Window trades t [WINDOW 0.001 ms]  -> WKS",
        ],
    ),
]


@pytest.mark.parametrize(("query", "lines"), PLANS)
def test_plans(query: str, lines: list[str]) -> None:
    assert explained(query) == lines


REFUSED = [
    ("SELECT * FROM packets [NOW], ports «[NOW]» WHERE packets.port = ports.port", "only streams have windows"),
    ("SELECT src FROM packets [NOW], «ports»", "found by its key: add ports.port = .."),
    ("SELECT p.src FROM packets [NOW] p JOIN «ports» t ON p.protocol = t.name", "found by its key: add t.port = .."),
    ("SELECT p.src FROM packets [NOW] p, «routes» r WHERE p.src = r.src AND r.dst = 5", "r.src = .. AND r.dst = .."),
    ("SELECT 1 AS x FROM packets [NOW] p «FULL JOIN» ports ON p.port = ports.port", "LEFT JOIN keeps the tuples"),
    ("SELECT 1 AS x FROM «ports» LEFT JOIN packets [NOW] p ON p.port = ports.port", "join it with the window"),
    ("SELECT 1 AS x FROM packets [NOW] p LEFT JOIN «ports» t ON p.protocol = t.name", "by its key: add t.port = .."),
    (
        "SELECT 1 AS x FROM packets [NOW] a LEFT JOIN packets [NOW] b USING (src) JOIN «ports» p ON p.port = a.port",
        "cannot be joined with what may be taken back (a row-based window, groups, NOT EXISTS, an outer join",
    ),
    ("SELECT 1 AS x FROM trades [NOW] t, ports WHERE «t.price = ports.port»", "port is INT and is compared as DOUBLE"),
    ("SELECT 1 AS x FROM packets [ROWS 5] p, «ports» WHERE p.port = ports.port", "may be taken back"),
    ("SELECT 1 AS x FROM packets [NOW] p, customers a, «customers» b WHERE src = a.id AND dst = b.id", "another TABLE"),
    ("SELECT 1 AS x FROM packets «[UNBOUNDED]» p, customers c WHERE p.src = c.id", "would have to remember the whole"),
    (
        "SELECT src FROM packets [NOW] WHERE EXISTS (SELECT 1 FROM «ports» p WHERE p.port = 80)",
        "join it with the window",
    ),
    ("SELECT p.src FROM packets [NOW] p, ports WHERE p.port = ports.«prt»", "did you mean 'port'"),
]


@pytest.mark.parametrize(("query", "reason"), REFUSED)
def test_refused(query: str, reason: str) -> None:
    check_continuous_error(query, reason)


# -- periodic queries ----------------------------------------------------------------------------------


def test_a_lookup_before_the_aggregation() -> None:
    text = (
        "SELECT p.name, port, MAX(r.cost) AS cost FROM packets W a JOIN ports p USING (port), routes r"
        " WHERE a.src = r.src AND r.dst = a.dst AND p.name <> 'x' AND a.src > r.dst GROUP BY name, p.port"
    )
    found = flatten(plan(text))
    assert isinstance(found, PeriodicAggregate)
    ports, routes = CATALOG.table("ports"), CATALOG.table("routes")
    assert found.lookups == (Lookup(ports, (("port", "port"),)), Lookup(routes, (("src", "src"), ("dst", "dst"))))
    assert [key.expression.sql for key in found.keys] == ["`ports(port).name`", "port"]
    assert str(found.calls[0].argument) == "`routes(src, dst).cost`"
    tests = "`ports(port)` AND `routes(src, dst)` AND `ports(port).name` <> 'x' AND src > dst"
    assert found.predicate is not None and found.predicate.sql == tests
    assert [output.name for output in found.outputs] == ["name", "port", "cost"]


def test_queries_that_look_up_the_same_have_the_same_expressions() -> None:
    one = flatten(
        plan("SELECT p.name, COUNT(*) AS n FROM packets W, ports p WHERE packets.port = p.port GROUP BY name")
    )
    other = flatten(plan("SELECT x.name, COUNT(*) AS n FROM packets W a JOIN ports x ON x.port = a.port GROUP BY name"))
    assert one == other


NOT_LOOKED_UP = [
    ("SELECT COUNT(*) FROM packets W p, «customers» c WHERE p.src = c.id", "a TABLE in a periodic query"),
    ("SELECT COUNT(*) FROM packets W, «ports»", "found by its key: add ports.port = .."),
    ("SELECT COUNT(*) FROM packets W p, «routes» r WHERE p.src = r.src", "add r.dst = .."),
    ("SELECT COUNT(*) FROM packets W p, «ports» WHERE p.port + 1 = ports.port", "found by its key"),
    ("SELECT COUNT(*) FROM packets W p, ports WHERE «p.protocol = ports.port»", "protocol is STRING and port is INT"),
    ("SELECT COUNT(*) FROM packets W p «LEFT JOIN» ports USING (port)", "LEFT JOIN with a table"),
    ("SELECT COUNT(*) FROM packets W JOIN routes r USING (src, «cost»)", "USING names columns of the key"),
    ("SELECT COUNT(*) FROM packets W p, ports «[NOW]» WHERE p.port = ports.port", "the windows of a query slide"),
    ("SELECT COUNT(*) FROM packets W p, ports «p» WHERE p.port = 1", "stands twice in FROM"),
    ("SELECT COUNT(*) FROM «ports», packets W WHERE packets.port = ports.port", "stands first in FROM"),
    ("SELECT COUNT(*) FROM packets [ROWS 9 SLIDE 3], «ports» WHERE packets.port = ports.port", "row-based windows"),
    ("SELECT COUNT(*) FROM packets W p, ports WHERE p.port = ports.port AND «port» = 80", "write p.port or ports.port"),
    ("SELECT COUNT(*) FROM packets W p, ports t WHERE p.port = t.port AND t.«nam» = 'x'", "did you mean 'name'"),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM packets W) a, «ports»", "tables beside sub-queries"),
    ("SELECT COUNT(*) FROM packets W p, ports, «trades» W2", "joins of streams"),
]


@pytest.mark.parametrize(("query", "reason"), NOT_LOOKED_UP)
def test_not_looked_up(query: str, reason: str) -> None:
    check_error(query.replace(" W2", " [WINDOW 10 min SLIDE 2 min] WHERE p.port = ports.port"), reason)


def test_one_time_queries_have_no_tables() -> None:
    text = "SELECT COUNT(*) FROM packets [WINDOW 1 min] p, «ports» WHERE p.port = ports.port"
    check_error(text, "tables in one-time queries", periodic=False)


def test_conditions_on_a_table_stand_above() -> None:
    top = continuous_plan("SELECT src FROM packets [NOW] p, ports t WHERE p.port = t.port AND UPPER(t.name) = 'X'")
    assert isinstance(top, Map) and isinstance(top.input, Filter) and isinstance(top.input.input, NrrJoin)
