CREATE STREAM trades (ts TIMESTAMP, symbol STRING, exchange STRING, price DOUBLE, shares INT, toward_ask BOOLEAN)
  FROM csv OPTIONS (path 'trades') TIMESTAMP ts DELAY 2 sec KEEP 10 min;
CREATE STREAM quotes (ts TIMESTAMP, symbol STRING, bid DOUBLE, ask DOUBLE)
  FROM csv OPTIONS (path 'quotes') TIMESTAMP ts DELAY 2 sec;

-- Prices weighted by volume, at three time scales.
REGISTER QUERY vwap_1_min AS
  SELECT symbol, SUM(price * shares) / SUM(shares) AS vwap FROM trades [WINDOW 1 min SLIDE 1 min] GROUP BY symbol;
REGISTER QUERY vwap_5_min AS
  SELECT symbol, SUM(price * shares) / SUM(shares) AS vwap FROM trades [WINDOW 5 min SLIDE 1 min] GROUP BY symbol;
REGISTER QUERY vwap_30_min AS
  SELECT symbol, SUM(price * shares) / SUM(shares) AS vwap FROM trades [WINDOW 30 min SLIDE 5 min] GROUP BY symbol;

-- The last ten trades of each symbol, after every hundred trades.
REGISTER QUERY last_ten AS
  SELECT symbol, AVG(price) AS average, SUM(shares) AS shares
  FROM trades [PARTITION BY symbol ROWS 10 SLIDE 100] GROUP BY symbol ORDER BY symbol;

-- The day so far.
REGISTER QUERY today AS
  SELECT symbol, SUM(shares) AS shares, MIN(price) AS low, MAX(price) AS high
  FROM trades [UNBOUNDED SLIDE 10 min] GROUP BY symbol ORDER BY symbol;

-- Down more than 2% in twenty minutes, while of the last two minutes' shares 70% went toward the asking price.
REGISTER QUERY momentum AS
  SELECT symbol, now.price, 100 * (1 - now.price / before.price) AS percent_down
  FROM (SELECT symbol, AVG(price) AS price FROM trades [WINDOW 1 min SLIDE 1 min]
        WHERE exchange = 'NASDAQ' GROUP BY symbol) now
  JOIN (SELECT symbol, AVG(price) AS price FROM trades [WINDOW 1 min SLIDE 1 min LAG 20 min]
        WHERE exchange = 'NASDAQ' GROUP BY symbol) before USING (symbol)
  JOIN (SELECT symbol, SUM(IF(toward_ask, shares, 0)) AS toward_ask, SUM(shares) AS shares
        FROM trades [WINDOW 2 min SLIDE 1 min] WHERE exchange = 'NASDAQ' GROUP BY symbol) pressure USING (symbol)
  WHERE now.price < 0.98 * before.price AND pressure.toward_ask >= 0.7 * pressure.shares;

-- Volume of the last five minutes beside that of the five before.
REGISTER QUERY surge AS
  SELECT symbol, recent.shares / earlier.shares AS times
  FROM (SELECT symbol, SUM(shares) AS shares FROM trades [WINDOW 5 min SLIDE 1 min] GROUP BY symbol) recent
  JOIN (SELECT symbol, SUM(shares) AS shares FROM trades [WINDOW 5 min SLIDE 1 min LAG 5 min] GROUP BY symbol) earlier
    USING (symbol)
  WHERE recent.shares > 4 * earlier.shares;

-- A continuous join of two streams: trades half a percent above the ask that stood at the time, as a stream of its own.
REGISTER QUERY above_the_ask AS
  SELECT Istream(t.symbol, t.ts, t.price, q.ask)
  FROM trades [NOW] t, quotes [PARTITION BY symbol ROWS 1] q
  WHERE t.symbol = q.symbol AND t.price > 1.005 * q.ask;

-- Questions of now: one that the panes answer, one that only the stored trades do.
SELECT symbol, AVG(shares) AS average FROM trades [WINDOW 3 min] GROUP BY symbol ORDER BY symbol;
SELECT symbol, ts, price, shares FROM trades [WINDOW 10 min] ORDER BY price * shares DESC, ts LIMIT 3;
