"""Random one-time questions over streams s and t with columns ts, id, k, v and g; Spark and DuckDB read them alike.

Joins of all kinds, constants and equalities where an index may serve and where it may not (OR, NOT, outer joins),
ORDER BY with LIMIT and without, sub-queries.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

WINDOWS = ["[WINDOW 6 sec]", "[WINDOW 2 sec]", "[WINDOW 3 sec LAG 1 sec]", "[ROWS 4]", "[NOW]"]
_JOINS = [",", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN USING", "LEFT JOIN USING", "RIGHT JOIN USING"]
_LISTS = [
    "id, k",
    "*",
    "x.*",
    "v AS k, id",
    "-v AS k, id",
    "k AS g, v AS k, id",
    "upper(g) AS g, k, id",
    "DISTINCT k, v, g, id",
    "row_number() OVER (ORDER BY id) AS n, k, v, g, id",
    "(SELECT MAX(k) FROM t [WINDOW 6 sec] y WHERE y.v = 1) AS m, k, v, g, id",
    "COUNT(*) OVER () AS n, k, v, g, id",
]


def _window() -> st.SearchStrategy[str]:
    return st.builds("{} {}".format, st.sampled_from("st"), st.sampled_from(WINDOWS))


def _leaf(aliases: list[str]) -> st.SearchStrategy[str]:
    name, number = st.sampled_from(aliases), st.integers(-1, 5)
    column, constant = st.sampled_from(["k", "v"]), st.sampled_from(["'a'", "'b'", "''"])
    return st.one_of(
        st.builds("{}.{} = {}".format, name, column, number),
        st.builds("{2} = {0}.{1}".format, name, column, number),
        st.builds("{}.{} IN ({}, {})".format, name, column, number, number),
        st.builds("{}.g = {}".format, name, constant),
        st.builds("{}.{} = {}.{}".format, name, column, name, column),
        st.builds("{}.g = {}.g".format, name, name),
        st.builds("{}.v < {}.k".format, name, name),
        st.builds("{}.{} IS NULL".format, name, column),
    )


def _equality(aliases: list[str]) -> st.SearchStrategy[str]:
    """A join of the last source with one before it."""
    column = st.sampled_from(["{0}.k = {1}.k", "{1}.k = {0}.k", "{0}.v = {1}.v", "{0}.g = {1}.g", "{0}.k = {1}.v"])
    return st.builds(lambda form, other: form.format(aliases[-1], other), column, st.sampled_from(aliases[:-1]))


def _condition(aliases: list[str]) -> st.SearchStrategy[str]:
    leaf = _leaf(aliases)
    either = st.builds("({} OR {})".format, leaf, leaf)
    term = st.one_of(
        leaf, leaf, either, st.builds("NOT ({})".format, leaf), st.builds("({} AND {})".format, leaf, leaf)
    )
    return st.lists(term, min_size=1, max_size=3).map(" AND ".join)


@st.composite
def joins(draw: Any) -> str:
    aliases = ["a"]
    text = f"{draw(_window())} a"
    for alias in draw(st.sampled_from([[], ["b"], ["b", "c"]])):
        kind = draw(st.sampled_from(_JOINS[:-3] if len(aliases) > 1 else _JOINS))
        aliases.append(alias)
        if kind == ",":
            text += f", {draw(_window())} {alias}"
        elif kind.endswith("USING"):
            text += f" {kind.removesuffix(' USING')} {draw(_window())} {alias} USING (k)"
        else:
            equality, more = draw(_equality(aliases)), draw(_condition(aliases))
            joined = draw(st.sampled_from([equality, equality, f"{equality} AND {more}", more]))
            text += f" {kind} {draw(_window())} {alias} ON {joined}"
    columns = ", ".join(f"{alias}.id AS {alias}{alias}, {alias}.v AS {alias}v" for alias in aliases)
    where = draw(st.one_of(st.just(""), _condition(aliases).map(" WHERE {}".format)))
    return f"SELECT {columns} FROM {text}{where}"


@st.composite
def orders(draw: Any) -> str:
    """A LIMIT over a whole order: ids differ."""
    chosen = draw(st.sampled_from(_LISTS))
    key = draw(st.sampled_from(["k", "v", "g"] if ("v" in chosen and "g" in chosen) or "*" in chosen else ["k"]))
    direction = draw(st.sampled_from(["", " ASC", " DESC"])) + draw(
        st.sampled_from(["", " NULLS FIRST", " NULLS LAST"])
    )
    where = draw(st.sampled_from(["", "", "", "", " WHERE v = 3", " WHERE k < 4"]))
    cut = f" LIMIT {draw(st.integers(0, 6))}" + draw(st.sampled_from(["", "", " OFFSET 2"]))
    window = draw(st.sampled_from(WINDOWS))
    return f"SELECT {chosen} FROM s {window} x{where} ORDER BY {key}{direction}, id{cut}"


@st.composite
def sorts(draw: Any) -> str:
    """A whole window in order: of one to three terms, not all of which leave nothing equal. Each row shows its id."""
    chosen = draw(st.sampled_from([*_LISTS, *_LISTS[:7]]))
    names = ["k", "v", "g"] if "*" in chosen or "v, g" in chosen else ["k"]
    direction = st.sampled_from(["", "", " ASC", " DESC"])
    nulls = st.sampled_from(["", "", " NULLS FIRST", " NULLS LAST"])
    further = st.lists(st.sampled_from([*names, "id", *(["ts"] if "*" in chosen else [])]), max_size=2, unique=True)
    columns = [draw(st.sampled_from([*names, *names, "id"])), *draw(further)]
    terms = [f"{column}{draw(direction)}{draw(nulls)}" for column in columns]
    where = draw(st.one_of(st.just(""), _condition(["x"]).map(" WHERE {}".format)))
    window = draw(st.sampled_from([*WINDOWS, *WINDOWS[:3]]))
    return f"SELECT {chosen} FROM s {window} x{where} ORDER BY {', '.join(terms)}"


@st.composite
def nested(draw: Any) -> str:
    inner, other = draw(joins()), draw(st.one_of(joins(), orders()))
    tested = f"SELECT 1 FROM {draw(_window())} b WHERE b.k = 1 AND b.v = a.v"
    least = f"SELECT MIN(v) FROM {draw(_window())} b WHERE k = 2"
    return draw(
        st.sampled_from(
            [
                f"SELECT COUNT(*) AS n FROM ({inner}) y UNION ALL SELECT COUNT(*) AS n FROM ({other}) z",
                f"SELECT a.id FROM {draw(_window())} a WHERE EXISTS ({tested})",
                f"SELECT a.id FROM {draw(_window())} a WHERE a.v = 3 OR NOT EXISTS ({tested})",
                f"SELECT id FROM {draw(_window())} a WHERE v > ({least})",
                f"SELECT y.aa, a.v FROM ({inner}) y JOIN {draw(_window())} a ON y.av = a.v AND a.k = 2",
            ]
        )
    )


def questions() -> st.SearchStrategy[str]:
    return st.one_of(joins(), orders(), whole_sorts(), nested())


def whole_sorts() -> st.SearchStrategy[str]:
    """Sorts that leave nothing equal."""
    return sorts().map("{}, id".format)
