-- Readings come up to five minutes late: panes stay open for so long.
CREATE STREAM readings (ts TIMESTAMP, sensor INT, celsius DOUBLE)
  FROM json OPTIONS (path 'readings', maxFilesPerTrigger '1')
  TIMESTAMP ts DELAY 5 min GRANULE 1 min;

-- Where the sensors are.
CREATE NONRETROACTIVE TABLE places (sensor INT PRIMARY KEY, room INT);
INSERT INTO places VALUES
  (0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9),
  (10, 0), (11, 1), (12, 2), (13, 3), (14, 4), (15, 5), (16, 6), (17, 7), (18, 8), (19, 9),
  (20, 0), (21, 1), (22, 2), (23, 3), (24, 4), (25, 5), (26, 6), (27, 7), (28, 8), (29, 9),
  (30, 0), (31, 1), (32, 2), (33, 3), (34, 4), (35, 5), (36, 6), (37, 7), (38, 8), (39, 9);

-- Means and deviations of each sensor over ten minutes, an hour and six hours.
REGISTER QUERY sensors_10_min AS
  SELECT sensor, AVG(celsius) AS mean, STDDEV(celsius) AS deviation
  FROM readings [WINDOW 10 min SLIDE 10 min] GROUP BY sensor;
REGISTER QUERY sensors_1_hour AS
  SELECT sensor, AVG(celsius) AS mean, STDDEV(celsius) AS deviation
  FROM readings [WINDOW 1 hour SLIDE 20 min] GROUP BY sensor;
REGISTER QUERY sensors_6_hours AS
  SELECT sensor, AVG(celsius) AS mean, STDDEV(celsius) AS deviation
  FROM readings [WINDOW 6 hours SLIDE 1 hour] GROUP BY sensor;

REGISTER QUERY rooms AS
  SELECT p.room, AVG(r.celsius) AS mean, MAX(r.celsius) AS highest
  FROM readings [WINDOW 1 hour SLIDE 1 hour] r JOIN places p ON r.sensor = p.sensor
  GROUP BY p.room ORDER BY room;

-- Alerts. A sensor that tells the same value for two hours is stuck.
REGISTER QUERY hot AS
  SELECT sensor, MAX(celsius) AS highest FROM readings [WINDOW 10 min SLIDE 10 min]
  GROUP BY sensor HAVING MAX(celsius) > 30;
REGISTER QUERY stuck AS
  SELECT sensor, MIN(celsius) AS value FROM readings [WINDOW 2 hours SLIDE 1 hour]
  GROUP BY sensor HAVING COUNT(*) > 20 AND MAX(celsius) = MIN(celsius);

-- Warmer than an hour before, by how much? Two windows, as of one time.
REGISTER QUERY warming AS
  SELECT sensor, now.mean - before.mean AS warmer
  FROM (SELECT sensor, AVG(celsius) AS mean FROM readings [WINDOW 20 min SLIDE 20 min] GROUP BY sensor) now
  JOIN (SELECT sensor, AVG(celsius) AS mean FROM readings [WINDOW 20 min SLIDE 20 min LAG 1 hour] GROUP BY sensor) before
    USING (sensor)
  WHERE now.mean > before.mean + 5;

-- Negation: sensors that told something in the last two hours, and nothing in the last twenty minutes.
REGISTER QUERY silent AS
  SELECT sensor FROM readings [WINDOW 2 hours SLIDE 20 min]
  EXCEPT SELECT sensor FROM readings [WINDOW 20 min SLIDE 20 min];

-- Extremes since the beginning.
REGISTER QUERY extremes AS
  SELECT MIN(celsius) AS lowest, MAX(celsius) AS highest, COUNT(*) AS readings FROM readings [UNBOUNDED SLIDE 6 hours];

SELECT sensor, AVG(celsius) AS mean FROM readings [WINDOW 3 hours] GROUP BY sensor ORDER BY mean DESC LIMIT 3;
