"""Nexmark's queries, each in CQL and in Spark's SQL for one streaming query in append mode.

The windows are those of Flink's suite: 10 s, for q5 every 2 s. Where Nexmark has no window, a query has one of these:

    [UNBOUNDED]                    rows that are passed on one by one (q0 to q2, q13, q14, q21, q22)
    [RANGE 10 sec]                 joins (q3, q20). At 10,000 events a second no two events that match are further
                                   apart, so that the answers are those of a join without windows
    10 s every 10 s                the average of q4: winning bids of the last 10 s
    [UNBOUNDED SLIDE EXACTLY ..]   totals since the beginning, every 10 s (q15 to q17, q19); Spark in append mode gives
                                   them once, at the end of the day
    [PARTITION BY .. ROWS 1]       the last row (q18)

A text that an engine refuses is here as well: the benchmark tells why it is refused.
"""

from __future__ import annotations

from typing import NamedTuple


class Query(NamedTuple):
    what: str
    cql: str
    sql: str


_EACH = "events [WINDOW 10 sec SLIDE EXACTLY 10 sec]"
_SO_FAR = "events [UNBOUNDED SLIDE EXACTLY 10 sec]"
_TIME = "window(ts, '10 seconds')"
_NEAR = "a.ts > b.ts - INTERVAL 10 SECONDS AND a.ts < b.ts + INTERVAL 10 SECONDS"
_DAY = "DATE_FORMAT(ts, 'yyyy-MM-dd')"
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def _on_rows(what: str, columns: str, where: str = "kind = 2") -> Query:
    """A query of single rows."""
    return Query(
        what,
        f"Istream(SELECT {columns} FROM events [UNBOUNDED] WHERE {where})",
        f"SELECT {columns} FROM events WHERE {where}",
    )


def _joined(what: str, columns: str, where: str) -> Query:
    """A join of two kinds of event."""
    return Query(
        what,
        f"Istream(SELECT {columns} FROM events [RANGE 10 sec] a, events [RANGE 10 sec] b WHERE {where})",
        f"SELECT {columns} FROM events a JOIN events b ON {_NEAR} AND {where}",
    )


def _so_far(what: str, keys: str, totals: str) -> Query:
    """Totals of a day so far."""
    keys = f"{keys}{_DAY}"
    return Query(
        what,
        f"SELECT {keys} AS day, {totals} FROM {_SO_FAR} WHERE kind = 2 GROUP BY {keys}",
        f"SELECT {keys} AS day, {totals} FROM events WHERE kind = 2 GROUP BY window(ts, '1 day'), {keys}",
    )


def _best(what: str, keys: str, order: str, most: int, cql: str) -> Query:
    """The first rows of each group, by a window function in SQL."""
    place = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order} DESC) AS place"
    return Query(what, cql, f"SELECT * FROM (SELECT *, {place} FROM events WHERE kind = 2) WHERE place <= {most}")


def _counts() -> str:
    return "COUNT(*) AS bids, " + ", ".join(f"COUNT(IF({c}, 1, NULL)) AS {rank}_bids" for rank, c in _RANKS.items())


def _different(column: str) -> str:
    some = (f"COUNT(DISTINCT IF({c}, {column}, NULL)) AS {rank}_{column}s" for rank, c in _RANKS.items())
    return f"COUNT(DISTINCT {column}) AS {column}s, {', '.join(some)}"


_OPEN = "a.kind = 1 AND b.kind = 2 AND a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires"
_DIFFERENT = f"{_counts()}, {_different('bidder')}, {_different('auction')}"

QUERIES = {
    "q0": _on_rows("all bids", "auction, bidder, price, ts, extra"),
    "q1": _on_rows("prices in euro", "auction, bidder, 0.908 * price AS price, ts, extra"),
    "q2": _on_rows("bids on some auctions", "auction, price", "kind = 2 AND auction % 123 = 0"),
    "q3": _joined(
        "who sells in three states",
        "b.name, b.city, b.state, a.id",
        "a.kind = 1 AND b.kind = 0 AND a.seller = b.id AND a.category = 10 AND b.state IN ('OR', 'ID', 'CA')",
    ),
    "q4": Query(
        "average winning bid by category",
        "SELECT category, AVG(final) AS price FROM (SELECT a.id, a.category AS category, MAX(b.price) AS final "
        "FROM events [RANGE 10 sec SLIDE 10 sec] a, events [RANGE 10 sec SLIDE 10 sec] b "
        f"WHERE {_OPEN} GROUP BY a.id, a.category) q GROUP BY category",
        "SELECT category, AVG(final) AS price FROM (SELECT window(a.ts, '10 seconds') AS time, a.id, a.category, "
        f"MAX(b.price) AS final FROM events a JOIN events b ON {_NEAR} AND {_OPEN} "
        "AND unix_micros(a.ts) DIV 10000000 = unix_micros(b.ts) DIV 10000000 "
        "GROUP BY window(a.ts, '10 seconds'), a.id, a.category) GROUP BY time, category",
    ),
    "q5": Query(
        "hot auctions",
        "SELECT a.auction, a.num FROM (SELECT auction, COUNT(*) AS num FROM events [WINDOW 10 sec SLIDE EXACTLY 2 sec] "
        "WHERE kind = 2 GROUP BY auction) a JOIN (SELECT TOP(1, auction) FROM events "
        "[WINDOW 10 sec SLIDE EXACTLY 2 sec] WHERE kind = 2) hot ON a.num = hot.count",
        "SELECT MAX(STRUCT(num, auction)) AS hot FROM (SELECT window(ts, '10 seconds', '2 seconds') AS time, auction, "
        "COUNT(*) AS num FROM events WHERE kind = 2 GROUP BY window(ts, '10 seconds', '2 seconds'), auction) "
        "GROUP BY time",
    ),
    "q6": Query(
        "average of a seller's last ten",
        "SELECT seller, AVG(final) AS price FROM (SELECT a.id, a.seller AS seller, MAX(b.price) AS final "
        f"FROM events [RANGE 10 sec] a, events [RANGE 10 sec] b WHERE {_OPEN} GROUP BY a.id, a.seller) "
        "[PARTITION BY seller ROWS 10] q GROUP BY seller",
        "SELECT seller, AVG(final) OVER (PARTITION BY seller ORDER BY time ROWS 10 PRECEDING) AS price FROM "
        "(SELECT window(a.ts, '10 seconds') AS time, a.id, a.seller, MAX(b.price) AS final FROM events a "
        f"JOIN events b ON {_NEAR} AND {_OPEN} GROUP BY window(a.ts, '10 seconds'), a.id, a.seller)",
    ),
    "q7": Query(
        "highest bids",
        "SELECT auction, price, bidder, ts, extra FROM events [RANGE 10 sec SLIDE 10 sec] WHERE kind = 2 "
        "AND price IN (SELECT MAX(price) FROM events [RANGE 10 sec SLIDE 10 sec] WHERE kind = 2)",
        f"SELECT MAX(STRUCT(price, auction, bidder, ts, extra)) AS bid FROM events WHERE kind = 2 GROUP BY {_TIME}",
    ),
    "q8": Query(
        "new persons who sell",
        f"SELECT p.id, p.name FROM (SELECT id, name FROM {_EACH} WHERE kind = 0 GROUP BY id, name) p "
        f"JOIN (SELECT seller FROM {_EACH} WHERE kind = 1 GROUP BY seller) a ON p.id = a.seller",
        f"SELECT p.id, p.name FROM (SELECT {_TIME} AS time, id, name FROM events WHERE kind = 0 "
        f"GROUP BY {_TIME}, id, name) p JOIN (SELECT {_TIME} AS time, seller FROM events WHERE kind = 1 "
        f"GROUP BY {_TIME}, seller) a ON p.id = a.seller AND p.time = a.time",
    ),
    "q11": Query(
        "bids of a session",
        "SELECT bidder, COUNT(*) AS bids FROM events [SESSION GAP 10 sec SLIDE 10 sec] WHERE kind = 2 GROUP BY bidder",
        "SELECT bidder, COUNT(*) AS bids FROM events WHERE kind = 2 GROUP BY bidder, session_window(ts, '10 seconds')",
    ),
    "q12": Query(
        "bids by the clock",
        f"SELECT bidder, COUNT(*) AS bids FROM {_EACH} WHERE kind = 2 GROUP BY bidder, CURRENT_TIMESTAMP()",
        "SELECT bidder, COUNT(*) AS bids FROM events WHERE kind = 2 "
        "GROUP BY bidder, window(CURRENT_TIMESTAMP(), '10 seconds')",
    ),
    "q13": Query(
        "bids and a table",
        "Istream(SELECT b.auction, b.bidder, b.price, b.ts, s.value FROM events [UNBOUNDED] b, side s "
        "WHERE b.kind = 2 AND b.auction % 10000 = s.key)",
        "SELECT b.auction, b.bidder, b.price, b.ts, s.value FROM events b JOIN side s "
        "ON b.kind = 2 AND b.auction % 10000 = s.key",
    ),
    "q14": _on_rows(
        "calculations",
        "auction, bidder, 0.908 * price AS price, CASE WHEN HOUR(ts) BETWEEN 8 AND 18 THEN 'day' "
        "WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'night' ELSE 'other' END AS time, ts, extra, "
        "LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS cs",
        "kind = 2 AND 0.908 * price > 1000000 AND 0.908 * price < 50000000",
    ),
    "q15": _so_far("distinct bidders of a day", "", _DIFFERENT),
    "q16": _so_far("the same by channel", "channel, ", f"MAX(DATE_FORMAT(ts, 'HH:mm')) AS minute, {_DIFFERENT}"),
    "q17": _so_far(
        "prices of an auction",
        "auction, ",
        f"{_counts()}, MIN(price) AS least, MAX(price) AS most, AVG(price) AS average, SUM(price) AS total",
    ),
    "q18": _best(
        "last bid of each bidder",
        "bidder, auction",
        "ts",
        1,
        "SELECT auction, bidder, price, channel, url, ts, extra FROM events [PARTITION BY bidder, auction ROWS 1] "
        "WHERE kind = 2",
    ),
    "q19": _best(
        "ten highest of each auction",
        "auction",
        "price",
        10,
        "SELECT auction, TOP(10, CONCAT_WS(' ', bidder, unix_micros(ts), extra), SUM(price)) AS bid "
        f"FROM {_SO_FAR} WHERE kind = 2 GROUP BY auction",
    ),
    "q20": _joined(
        "bids with their auctions",
        "b.auction, b.bidder, b.price, b.channel, b.url, b.ts, b.extra, a.name, a.description, a.initial_bid, "
        "a.reserve, a.expires, a.seller, a.category",
        "a.kind = 1 AND b.kind = 2 AND b.auction = a.id AND a.category = 10",
    ),
    "q21": _on_rows(
        "channel ids",
        "auction, bidder, price, channel, CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' "
        f"WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END AS channel_id",
        f"kind = 2 AND ({_CHANNEL_ID} <> '' OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu'))",
    ),
    "q22": _on_rows(
        "folders of URLs",
        "auction, bidder, price, channel, SPLIT_PART(url, '/', 4) AS first, SPLIT_PART(url, '/', 5) AS second, "
        "SPLIT_PART(url, '/', 6) AS third",
    ),
}
