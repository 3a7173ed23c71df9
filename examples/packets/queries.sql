CREATE STREAM packets (ts TIMESTAMP, src STRING, dst STRING, protocol STRING, port INT, flag STRING, length INT)
  FROM csv OPTIONS (path 'packets') TIMESTAMP ts DELAY 2 sec;

-- What ports mean. A change would hold for later packets; what has been counted stays counted.
CREATE NONRETROACTIVE TABLE services (port INT PRIMARY KEY, service STRING);
INSERT INTO services VALUES (443, 'https'), (80, 'http'), (53, 'dns'), (22, 'ssh');

-- Top talkers at three time scales, from the same panes.
REGISTER QUERY talkers_1_min AS
  SELECT TOP(3, src, SUM(length)) FROM packets [WINDOW 1 min SLIDE 10 sec];
REGISTER QUERY talkers_5_min AS
  SELECT TOP(3, src, SUM(length)) FROM packets [WINDOW 5 min SLIDE 30 sec];
REGISTER QUERY talkers_10_min AS
  SELECT TOP(3, src, SUM(length)) FROM packets [WINDOW 10 min SLIDE 1 min];

-- Sums and averages per source read the same partials as the lists above.
REGISTER QUERY usual_length AS
  SELECT src, AVG(length) AS average, COUNT(*) AS packets FROM packets [WINDOW 5 min SLIDE 1 min] GROUP BY src;

REGISTER QUERY protocols AS
  SELECT protocol, COUNT(*) AS packets, SUM(length) AS bytes, STDDEV(length) AS deviation
  FROM packets [WINDOW 2 min SLIDE 30 sec] GROUP BY protocol ORDER BY protocol;

REGISTER QUERY services_used AS
  SELECT s.service, SUM(p.length) AS bytes
  FROM packets [WINDOW 5 min SLIDE 1 min] p JOIN services s ON p.port = s.port
  GROUP BY s.service;

-- Two conditions; the third, put together from them, is stored nowhere.
REGISTER QUERY web AS
  SELECT dst, SUM(length) AS bytes FROM packets [WINDOW 2 min SLIDE 30 sec] WHERE port = 80 GROUP BY dst;
REGISTER QUERY secure_web AS
  SELECT dst, SUM(length) AS bytes FROM packets [WINDOW 2 min SLIDE 30 sec] WHERE port = 443 GROUP BY dst;
REGISTER QUERY any_web AS
  SELECT dst, SUM(length) AS bytes FROM packets [WINDOW 1 min SLIDE 1 min] WHERE port IN (80, 443) GROUP BY dst;

-- An alert on an exact distinct count.
REGISTER QUERY port_scanners AS
  SELECT src, COUNT(DISTINCT port) AS ports FROM packets [WINDOW 1 min SLIDE 30 sec]
  WHERE flag = 'SYN' GROUP BY src HAVING COUNT(DISTINCT port) > 100;

-- A join of the stream with itself: how long a host takes to answer a SYN.
REGISTER QUERY handshakes AS
  SELECT a.dst AS host, COUNT(*) AS answered, MAX(unix_micros(b.ts) - unix_micros(a.ts)) AS slowest
  FROM packets [WINDOW 30 sec SLIDE 30 sec] a, packets [WINDOW 30 sec SLIDE 30 sec] b
  WHERE a.src = b.dst AND a.dst = b.src AND a.port = b.port AND a.flag = 'SYN' AND b.flag = 'SYN-ACK'
    AND unix_micros(b.ts) - unix_micros(a.ts) BETWEEN 0 AND 1000000
  GROUP BY a.dst;

-- Negation, continuous: a SYN stands here as long as no answer to it does. Every arrival and expiry is a change.
REGISTER QUERY half_open AS
  SELECT src, dst, port FROM packets [RANGE 20 sec]
  WHERE flag = 'SYN' AND NOT EXISTS (
    SELECT 1 FROM packets [RANGE 20 sec] reply
    WHERE reply.src = packets.dst AND reply.dst = packets.src AND reply.port = packets.port
      AND reply.flag = 'SYN-ACK');

SELECT src, AVG(length) AS average FROM packets [WINDOW 2 min] GROUP BY src ORDER BY average DESC LIMIT 3;
