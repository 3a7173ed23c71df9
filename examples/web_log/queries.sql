-- A log in the combined format is a CSV file whose separator is a space: Spark reads it as it is.
CREATE STREAM log (client STRING, ident STRING, login STRING, ts TIMESTAMP, zone STRING, request STRING,
                   status INT, size BIGINT, referrer STRING, agent STRING)
  FROM csv OPTIONS (path 'log', sep ' ', nullValue '-', timestampFormat "'['dd/MMM/yyyy:HH:mm:ss")
  TIMESTAMP ts DELAY 10 sec GRANULE 1 min;

-- The same totals at three time scales: one pane table, one scan.
REGISTER QUERY traffic_5_min AS
  SELECT COUNT(*) AS hits, SUM(size) AS bytes FROM log [WINDOW 5 min SLIDE 1 min];
REGISTER QUERY traffic_30_min AS
  SELECT COUNT(*) AS hits, SUM(size) AS bytes FROM log [WINDOW 30 min SLIDE 5 min];
REGISTER QUERY traffic_2_hours AS
  SELECT COUNT(*) AS hits, SUM(size) AS bytes FROM log [WINDOW 2 hours SLIDE 15 min];

REGISTER QUERY statuses AS
  SELECT status, COUNT(*) AS hits, SUM(size) AS bytes FROM log [WINDOW 10 min SLIDE 5 min] GROUP BY status;

REGISTER QUERY pages AS
  SELECT TOP(5, split_part(request, ' ', 2)) AS page FROM log [WINDOW 30 min SLIDE 5 min];

-- Exact numbers of visitors, and exact medians.
REGISTER QUERY visitors AS
  SELECT COUNT(DISTINCT client) AS visitors FROM log [WINDOW 15 min SLIDE 5 min] WHERE NOT agent LIKE '%Bot%';
REGISTER QUERY sizes AS
  SELECT status, MEDIAN(size) AS median, QUANTILE(size, 0.9) AS p90
  FROM log [WINDOW 30 min SLIDE 5 min] GROUP BY status ORDER BY status;

-- An alert: who asks for many pages that are not there?
REGISTER QUERY scanners AS
  SELECT client, COUNT(*) AS missing FROM log [WINDOW 5 min SLIDE 1 min]
  WHERE status = 404 GROUP BY client HAVING COUNT(*) > 50;

-- Two windows in one query: errors of the last ten minutes beside those of the ten minutes before.
REGISTER QUERY error_surge AS
  SELECT now.failures, before.failures AS failures_before
  FROM (SELECT COUNT(*) AS failures FROM log [WINDOW 10 min SLIDE 10 min] WHERE status >= 500) now
  CROSS JOIN (SELECT COUNT(*) AS failures FROM log [WINDOW 10 min SLIDE 10 min LAG 10 min] WHERE status >= 500) before
  WHERE now.failures > 2 * before.failures;

-- Negation: carts of the last ten minutes that no successful order of the same client has followed.
REGISTER QUERY open_carts AS
  SELECT client, ts FROM log [WINDOW 10 min SLIDE 5 min]
  WHERE request LIKE 'POST /cart%' AND NOT EXISTS (
    SELECT 1 FROM log [WINDOW 10 min SLIDE 5 min] paid
    WHERE paid.client = log.client AND paid.request LIKE 'POST /order%' AND paid.status = 200);

-- A question of now. Nobody registered it; the panes of the queries above answer it.
SELECT status, COUNT(*) AS hits, AVG(size) AS average FROM log [WINDOW 10 min] GROUP BY status ORDER BY status;
