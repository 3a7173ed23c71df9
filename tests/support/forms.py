"""Queries with holistic aggregates, item lists and several windows, each beside the same question in DuckDB's words.

`{w}` is the window clause; in DuckDB's text `{t}` is the window's tuples and `{t[5]}` those of the last 5 units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    ours: str
    theirs: str


def _ranked(k: int, by: str, items: str, weight: str, present: str) -> str:
    """The k heaviest items per key by SQL's window functions."""
    keys = f"{by}, " if by else ""
    partition = f"PARTITION BY {by} " if by else ""
    return (
        f"SELECT {keys}item, weight FROM (SELECT {keys}{items} AS item, {weight} AS weight, "
        f"row_number() OVER ({partition}ORDER BY {weight} DESC NULLS LAST, {items}) AS place "
        f"FROM {{t}} WHERE {present} IS NOT NULL GROUP BY {keys}{items}) WHERE place <= {k}"
    )


_NTH = "list_sort(list({x}) FILTER (WHERE {x} IS NOT NULL))[greatest(1, count({x}) * {n} // {d})]"


def _nth(x: str, n: int, d: int) -> str:
    return _NTH.format(x=x, n=n, d=d)


def _listed(x: str, order: str, where: str = "") -> str:
    """The values that are not NULL, in an order; no list is an empty one."""
    name = x.split()[-1]
    return f"coalesce(list({x} ORDER BY {order}) FILTER (WHERE {name} IS NOT NULL{where}), [])"


_HEIGHT = "CASE WHEN v > 30 THEN 'high' WHEN v IS NULL THEN 'none' ELSE g END"
_MANY = "CASE WHEN COUNT(*) > 2 THEN MAX(v) > 9 ELSE COUNT(*) > 0 END"
_MODE = (
    "SELECT a.k, b.v FROM (SELECT DISTINCT k FROM {t}) a LEFT JOIN (SELECT k, v, row_number() OVER "
    "(PARTITION BY k ORDER BY count(*) DESC, v) AS place FROM {t} WHERE v IS NOT NULL GROUP BY k, v) b "
    "ON a.k IS NOT DISTINCT FROM b.k AND b.place = 1"
)

FORMS = [
    Form(
        "SELECT k, COUNT(DISTINCT v) AS d, MEDIAN(v) AS m FROM s {w} GROUP BY k",
        "SELECT k, COUNT(DISTINCT v), quantile_cont(v, 0.5) FROM {t} GROUP BY k",
    ),
    Form(
        "SELECT COUNT(DISTINCT g) AS d, MEDIAN(x) AS m, COUNT(*) AS n, SUM(v) AS t FROM s {w} WHERE v > 5",
        "SELECT COUNT(DISTINCT g), quantile_cont(x, 0.5), COUNT(*), SUM(v) FROM {t} WHERE v > 5",
    ),
    Form(
        "SELECT g, QUANTILE(v, 0.9) AS q, QUANTILE(x, 0.25) AS r, QUANTILE(g, 1) AS s FROM s {w} GROUP BY g",
        f"SELECT g, {_nth('v', 9, 10)}, {_nth('x', 1, 4)}, max(g) FROM {{t}} GROUP BY g",
    ),
    Form(
        "SELECT QUANTILE(g, 0.5) AS q, QUANTILE_CONT(v, 0.3) AS c, MAX(v) AS hi FROM s {w}",
        f"SELECT {_nth('g', 1, 2)}, quantile_cont(v, 0.3), MAX(v) FROM {{t}}",
    ),
    Form("SELECT k, MODE(v) AS m FROM s {w} GROUP BY k", _MODE),
    Form(
        "SELECT k, COUNT_MIN(v, 5) AS c, COUNT_MIN(g, 'a') AS d FROM s {w} GROUP BY k",
        "SELECT k, count(*) FILTER (WHERE v = 5), count(*) FILTER (WHERE g = 'a') FROM {t} GROUP BY k",
    ),
    Form(
        "SELECT k, COUNT(DISTINCT k) AS one, COUNT(DISTINCT v % 7) AS sevens FROM s {w} GROUP BY k",
        "SELECT k, COUNT(DISTINCT k), COUNT(DISTINCT v % 7) FROM {t} GROUP BY k",
    ),
    Form(
        "SELECT k, COUNT(DISTINCT v) AS d FROM s {w} GROUP BY k HAVING MEDIAN(v) > 10 AND COUNT(*) > 1",
        "SELECT k, COUNT(DISTINCT v) FROM {t} GROUP BY k HAVING quantile_cont(v, 0.5) > 10 AND COUNT(*) > 1",
    ),
    Form(
        "SELECT k, SUM(v) FILTER (WHERE v > 5) AS t, COUNT(*) FILTER (WHERE g = 'a') AS n, COUNT_IF(v > 5) AS c, "
        "COUNT(DISTINCT v) FILTER (WHERE v < 30) AS d, MEDIAN(v) FILTER (WHERE g = 'b') AS m FROM s {w} "
        "WHERE v % 2 = 0 GROUP BY k",
        "SELECT k, SUM(v) FILTER (WHERE v > 5), COUNT(*) FILTER (WHERE g = 'a'), count_if(v > 5), "
        "COUNT(DISTINCT v) FILTER (WHERE v < 30), quantile_cont(v, 0.5) FILTER (WHERE g = 'b') FROM {t} "
        "WHERE v % 2 = 0 GROUP BY k",
    ),
    Form(
        "SELECT g, BOOL_AND(v > 9) AS a, SOME(v > 9) AS o, ANY_VALUE(v) AS v, EVERY(k = 1) FILTER (WHERE v > 9) AS e, "
        "COUNT_IF(v > 5) FILTER (WHERE k = 1) AS c FROM s {w} GROUP BY g",
        "SELECT g, bool_and(v > 9), bool_or(v > 9), min(v), bool_and(k = 1) FILTER (WHERE v > 9), "
        "count(*) FILTER (WHERE v > 5 AND k = 1) FROM {t} GROUP BY g",
    ),
    Form(
        "SELECT k, FIRST(v) AS o, MAX(v) AS h, MIN(v) AS l, LAST(v) AS c, LAST(g) IGNORE NULLS AS g, "
        "MIN_BY(g, v) AS lo, MAX_BY(x, v) FILTER (WHERE k = 1) AS hi FROM s {w} GROUP BY k",
        "SELECT k, first(v ORDER BY _us, v NULLS FIRST), MAX(v), MIN(v), last(v ORDER BY _us, v NULLS FIRST), "
        "last(g ORDER BY _us, g) FILTER (WHERE g IS NOT NULL), "
        "first(g ORDER BY v, g NULLS FIRST) FILTER (WHERE v IS NOT NULL), "
        "last(x ORDER BY v, x NULLS FIRST) FILTER (WHERE v IS NOT NULL AND k = 1) FROM {t} GROUP BY k",
    ),
    Form(
        "SELECT g, BIT_AND(v) AS a, BIT_OR(w) AS o, BIT_XOR(v) AS x, COUNT(DISTINCT k, v) AS d FROM s {w} GROUP BY g",
        "SELECT g, bit_and(v), bit_or(w), bit_xor(v), count(DISTINCT (k, v)) FILTER (WHERE k IS NOT NULL AND v IS NOT "
        "NULL) FROM {t} GROUP BY g",
    ),
    Form(
        "SELECT k, COVAR_POP(v, x) AS c, COVAR_SAMP(v, x) AS d, CORR(v, x) AS r, REGR_SLOPE(v, x) AS b, "
        "REGR_INTERCEPT(v, x) AS a, REGR_R2(v, x) AS r2, REGR_COUNT(v, x) AS n, SKEWNESS(v) AS s, KURTOSIS(v) AS u "
        "FROM s {w} GROUP BY k",
        "SELECT k, covar_pop(v, x), covar_samp(v, x), "
        "CASE WHEN regr_sxx(v, x) > 0 AND regr_syy(v, x) > 0 THEN corr(v, x) END, "
        "CASE WHEN regr_sxx(v, x) > 0 THEN regr_slope(v, x) END, "
        "CASE WHEN regr_sxx(v, x) > 0 THEN regr_intercept(v, x) END, "
        "CASE WHEN regr_sxx(v, x) > 0 THEN regr_r2(v, x) END, regr_count(v, x), "
        "(avg(v * v * v) - 3 * avg(v) * var_pop(v) - avg(v) ** 3) / nullif(stddev_pop(v), 0) ** 3, "
        "CASE WHEN var_pop(v) > 0 THEN kurtosis_pop(v) END FROM {t} GROUP BY k",
    ),
    Form(
        "SELECT k, PERCENTILE(v, 0.3) AS p, PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY v DESC) AS c, "
        "PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY v) AS d, PERCENTILE_DISC(0.7) WITHIN GROUP (ORDER BY v DESC) AS e "
        "FROM s {w} GROUP BY k",
        "SELECT k, quantile_cont(v, 0.3), quantile_cont(v, 0.7), percentile_disc(0.3) WITHIN GROUP (ORDER BY v), "
        "percentile_disc(0.7) WITHIN GROUP (ORDER BY v DESC) FROM {t} GROUP BY k",
    ),
    Form(
        "SELECT k, COLLECT_LIST(v) AS l, COLLECT_SET(v) AS s, COUNT(DISTINCT v) AS d, ARRAY_AGG(g, 3) AS a, "
        "COLLECT_LIST(DISTINCT g) FILTER (WHERE v > 9) AS f FROM s {w} GROUP BY k",
        f"SELECT k, {_listed('v', '_us, v')}, {_listed('DISTINCT v', 'v')}, count(DISTINCT v), "
        f"{_listed('g', '_us, g')}[:3], {_listed('DISTINCT g', 'g', ' AND v > 9')} FROM {{t}} GROUP BY k",
    ),
    Form(
        "SELECT COLLECT_LIST(w) AS l, LISTAGG(g, '-') AS a, STRING_AGG(DISTINCT g) AS b, "
        "LISTAGG(g, '+', 4) WITHIN GROUP (ORDER BY v DESC) AS c, LISTAGG(g, '') WITHIN GROUP (ORDER BY g) AS d, "
        "LISTAGG(g, '.') WITHIN GROUP (ORDER BY v) AS e "
        "FROM s {w} WHERE v < 50",
        f"SELECT {_listed('w', '_us, w')}, string_agg(g, '-' ORDER BY _us, g), string_agg(DISTINCT g, '' ORDER BY g), "
        f"nullif(array_to_string({_listed('g', 'v DESC, g DESC')}[:4], '+'), ''), string_agg(g, '' ORDER BY g), "
        "string_agg(g, '.' ORDER BY v NULLS FIRST, g) "
        "FROM {t} WHERE v < 50",
    ),
    Form(
        "SELECT COUNT(*) AS n, MEDIAN(v) AS m FROM s {w} HAVING COUNT(*) > 9 AND MAX(v) > 20",
        "SELECT COUNT(*), quantile_cont(v, 0.5) FROM {t} HAVING COUNT(*) > 9 AND MAX(v) > 20",
    ),
    Form("SELECT 1 AS one FROM s {w} HAVING SUM(v) % 2 = 0", "SELECT 1 FROM {t} HAVING SUM(v) % 2 = 0"),
    *(
        Form(f"{text} FROM s {{w}} {rest}", f"{text} FROM {{t}} {rest}")
        for text, rest in (
            (
                f"SELECT {_HEIGHT} AS c, SUM(CASE WHEN k = 1 THEN v END) AS t, CASE COUNT(*) WHEN 1 THEN 2 END AS n",
                f"WHERE CASE WHEN k IS NULL THEN v > 5 ELSE TRUE END GROUP BY {_HEIGHT} HAVING {_MANY}",
            ),
            (f"SELECT MAX(v) AS m, {_MANY} AS n", f"HAVING {_MANY}"),
        )
    ),
    Form("SELECT TOP(2, g) FROM s {w}", _ranked(2, "", "g", "count(*)", "g")),
    Form("SELECT k, TOP(3, v) FROM s {w} GROUP BY k", _ranked(3, "k", "v", "count(*)", "v")),
    Form("SELECT k, TOP(2, g, SUM(w)) FROM s {w} GROUP BY k", _ranked(2, "k", "g", "sum(w)", "g")),
    Form("SELECT TOP(3, v % 10, SUM(x)) FROM s {w}", _ranked(3, "", "v % 10", "sum(x)", "v % 10")),
    Form("SELECT HISTOGRAM(v) FROM s {w}", "SELECT v, count(*) FROM {t} WHERE v IS NOT NULL GROUP BY v"),
    Form(
        "SELECT g, HISTOGRAM(k) FROM s {w} WHERE v < 40 GROUP BY g",
        "SELECT g, k, count(*) FROM {t} WHERE v < 40 AND k IS NOT NULL GROUP BY g, k",
    ),
]

# The windows of several lengths in DuckDB's texts.
_LAST = [f"{{t[{n}]}}" for n in range(10)]
# Several windows in one query: the sub-queries' lengths are given, only SLIDE is free.
SEVERAL = [
    Form(
        "SELECT a.k, a.hi - a.lo AS spread, b.n FROM (SELECT k, MAX(v) AS hi, MIN(v) AS lo FROM s "
        "[{u} {l[9]} SLIDE {s}] GROUP BY k) a JOIN (SELECT k, COUNT(*) AS n FROM s [{u} {l[3]} SLIDE {s}] GROUP BY k) "
        "b USING (k) WHERE b.n > 1",
        "SELECT a.k, a.hi - a.lo, b.n FROM (SELECT k, MAX(v) AS hi, MIN(v) AS lo FROM {t[9]} GROUP BY k) a JOIN "
        "(SELECT k, COUNT(*) AS n FROM {t[3]} GROUP BY k) b USING (k) WHERE b.n > 1",
    ),
    Form(
        "SELECT k, COALESCE(b.m, -1) AS m, a.d FROM (SELECT k, COUNT(DISTINCT v) AS d FROM s [{u} {l[6]} SLIDE {s}] "
        "GROUP BY k) a LEFT JOIN (SELECT k, MEDIAN(v) AS m FROM s [{u} {l[2]} SLIDE {s}] WHERE v > 20 GROUP BY k) b "
        "USING (k)",
        "SELECT a.k, COALESCE(b.m, -1), a.d FROM (SELECT k, COUNT(DISTINCT v) AS d FROM {t[6]} GROUP BY k) a LEFT JOIN "
        "(SELECT k, quantile_cont(v, 0.5) AS m FROM {t[2]} WHERE v > 20 GROUP BY k) b USING (k)",
    ),
    Form(
        "SELECT b.n - a.n AS more FROM (SELECT COUNT(*) AS n FROM s [{u} {l[4]} SLIDE {s}]) a "
        "CROSS JOIN (SELECT COUNT(*) AS n FROM s [{u} {l[8]} SLIDE {s}]) b",
        "SELECT b.n - a.n FROM (SELECT COUNT(*) AS n FROM {t[4]}) a CROSS JOIN (SELECT COUNT(*) AS n FROM {t[8]}) b",
    ),
    *(
        Form(text.format(*(f"s [{{u}} {{l[{n}]}} SLIDE {{s}}]" for n in range(10))), text.format(*_LAST))
        for text in (
            "SELECT k, SUM(v) AS t FROM {4} GROUP BY k HAVING SUM(v) > (SELECT AVG(v) * 2 FROM {9})",
            (
                "SELECT k, g, COUNT(*) AS n, k IN (SELECT v % 4 FROM {5} WHERE v > 20 GROUP BY v % 4) AS i FROM {7} "
                "GROUP BY k, g HAVING k NOT IN (SELECT k FROM {2} GROUP BY k) OR COUNT(*) > 1 AND NOT (g IN "
                "(SELECT g FROM {3} WHERE v < 50 GROUP BY g))"
            ),
            (
                "SELECT g, CAST(SUM(v) AS DOUBLE) / NULLIF((SELECT SUM(v) FROM {6}), 0) AS part, EXISTS (SELECT 1 FROM "
                "{2} HAVING COUNT(*) > 3) AS e, (SELECT MAX(v) FROM {3} HAVING COUNT(*) > 4) AS m FROM {6} GROUP BY g"
            ),
            (
                "SELECT a.k, a.n FROM (SELECT k, COUNT(*) AS n FROM {8} GROUP BY k) a WHERE a.n >= (SELECT COUNT(*) "
                "FROM {3} WHERE v > 10) AND a.k NOT IN (SELECT b.k FROM (SELECT k, MAX(v) AS m FROM {1} GROUP BY k) b "
                "WHERE b.m > 30)"
            ),
            (
                "SELECT a.k, a.n FROM (SELECT k, COUNT(*) AS n FROM {8} GROUP BY k) a WHERE a.k IN (SELECT k FROM {4} "
                "GROUP BY k) AND NOT EXISTS (SELECT COUNT(*) FROM {9} HAVING COUNT(*) > 20)"
            ),
            "SELECT k, SUM(v) AS t, g FROM {5} GROUP BY k, g UNION ALL SELECT 7, AVG(x), 'all' FROM {9} WHERE v > 5",
            (
                "SELECT k, COUNT(*) AS n FROM {6} GROUP BY k UNION SELECT v % 3, COUNT(*) FROM {3} GROUP BY v % 3 "
                "UNION SELECT k, COUNT(*) FROM {6} GROUP BY k ORDER BY n DESC, k ASC NULLS FIRST LIMIT 3"
            ),
            (
                "SELECT u.x, EXISTS (SELECT k FROM {1} GROUP BY k UNION SELECT MAX(k) FROM {2} HAVING MAX(k) > 2) AS e "
                "FROM (SELECT MAX(x) AS x FROM {4} UNION SELECT CAST(MIN(v) AS DOUBLE) FROM {8}) u"
            ),
            (
                "SELECT k, SUM(v) AS t FROM {5} GROUP BY k HAVING COUNT(*) > 1 QUALIFY RANK() OVER (ORDER BY COUNT(*)) "
                "<= (SELECT COUNT(DISTINCT k) FROM {9}) ORDER BY (SELECT MIN(v) FROM {5}), t"
            ),
        )
    ),
]


class Selections:
    """What `{t}` and `{t[5]}` stand for: sub-queries over a window's tuples."""

    def __init__(self, select: Callable[[int], str], length: int) -> None:
        self._select = select
        self._length = length

    def __str__(self) -> str:
        return self._select(self._length)

    def __format__(self, spec: str) -> str:
        return str(self)

    def __getitem__(self, length: int | str) -> str:
        return self._select(int(length))
