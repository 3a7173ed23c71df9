"""What an answer's rows are about, and how much they say: for charts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.sql import SelectStatement, parse
from sash.sql.roles import is_list, key_columns, value_columns

W = "[WINDOW 1 min SLIDE 1 sec]"
JOINED = (
    f"SELECT k, a.d, b.m FROM (SELECT k, COUNT(DISTINCT v) AS d FROM s {W} GROUP BY k) a "
    f"LEFT JOIN (SELECT k, MEDIAN(v) AS m FROM s {W} GROUP BY k) b USING (k)"
)


@pytest.mark.parametrize(
    ("text", "columns", "values"),
    [
        (f"SELECT COUNT(*) AS n, AVG(x) AS a FROM s {W}", ["n", "a"], ["n", "a"]),
        (f"SELECT k, SUM(v) AS t FROM s {W} GROUP BY k", ["k", "t"], ["t"]),
        (f"SELECT k AS customer, SUM(v) AS t FROM s {W} GROUP BY k", ["customer", "t"], ["t"]),
        (f"SELECT v % 2 AS odd, COUNT(*) AS n FROM s {W} GROUP BY v % 2", ["odd", "n"], ["n"]),
        (f"SELECT v % 2, COUNT(*) AS n FROM s {W} GROUP BY 1", ["(v % 2)", "n"], ["n"]),
        (f"SELECT TOP(3, src) FROM s {W}", ["src", "count"], ["count"]),
        (f"SELECT TOP(3, src, SUM(v)) FROM s {W}", ["src", "weight"], ["weight"]),
        (f"SELECT HISTOGRAM(v) FROM s {W}", ["v", "count"], ["count"]),
        (f"SELECT k, FREQUENT(9, v) FROM s {W} GROUP BY k", ["k", "v", "count"], ["count"]),
        (JOINED, ["k", "d", "m"], ["d", "m"]),
    ],
)
def test_values(text: str, columns: list[str], values: list[str]) -> None:
    statement = parse(text)
    assert isinstance(statement, SelectStatement)
    schema = pa.schema([(name, pa.int64()) for name in columns])
    found = value_columns(statement.select.tree, schema)
    assert found == values
    assert is_list(statement.select.tree) == any(word in text for word in ("TOP", "HISTOGRAM", "FREQUENT"))
    assert key_columns(schema, found) == [name for name in columns if name not in values]
