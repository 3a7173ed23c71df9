-- Every CQL text that the five papers print, verbatim (line breaks are ours), with paper and section.
--
--     000  Golab, Bijay, Oezsu: Multi-Query Optimization of Sliding Window Aggregates by Schedule Synchronization
--     001  the same authors, in short (CIKM 2006)
--     002  Golab: Sliding Window Query Processing over Data Streams (the thesis)
--     004  Arasu, Widom: Resource Sharing in Continuous Sliding-Window Aggregates
--
-- The other paper (003, indexing of sliding windows) prints none. In 002, 2.1.3, the for-loop over WindowIs is StreaQuel
-- and the query with $every(60) is COUGAR's: neither is CQL. Query 4 of 002, 3.6, which the section
-- describes in words, is that of 3.5.1; the section has no Query 5.
--
-- A comment that begins with `slip` says what keeps a text from being read as it is printed; the corrected text follows.
-- tests/runtime/test_printed_queries.py reads this file and runs it.

-- 000, 1: Q1
SELECT MEDIAN(length)
FROM S [WINDOW 10 min SLIDE 2 min];

-- 000, 1: Q2
SELECT MEDIAN(length) FROM S [WINDOW 14 min SLIDE 3 min];

-- 001: Q1 (000, 4.2 and 002, 8.4.3 print it as Q1: ... [WINDOW 10 min SLIDE 2 min])
SELECT MAX(a) FROM S [WINDOW 10 min SLIDE 2 min];

-- 001: Q2 (000, 4.2 and 002, 8.4.3 print it as Q2: ... [WINDOW 5 min SLIDE 2 min])
SELECT MAX(a) FROM S [WINDOW 5 min SLIDE 2 min];

-- 001: Q3 (000, 4.2 and 002, 8.4.3 print it as Q3: ... [WINDOW 6 min SLIDE 2 min])
SELECT MAX(a) FROM S [WINDOW 6 min SLIDE 2 min];

-- 001: Q4 (000, 4.2 and 002, 8.4.3 print it as Q4: ... [WINDOW 15 min SLIDE 3 min])
SELECT MAX(a) FROM S [WINDOW 15 min SLIDE 3 min];

-- 001: Q5 (000, 4.2 and 002, 8.4.3 print it as Q5: ... [WINDOW 12 min SLIDE 3 min])
SELECT MAX(a) FROM S [WINDOW 12 min SLIDE 3 min];

-- 001: Q6 (000, 4.2 and 002, 8.4.3 print it as Q6: ... [WINDOW 20 min SLIDE 5 min])
SELECT MAX(a) FROM S [WINDOW 20 min SLIDE 5 min];

-- 001: Q7 (000, 4.2 and 002, 8.4.3 print it as Q7: ... [WINDOW 30 min SLIDE 5 min])
SELECT MAX(a) FROM S [WINDOW 30 min SLIDE 5 min];

-- 002, 1.1: Q1
SELECT MAX(a) FROM S;

-- 002, 1.1: Q2
SELECT MAX(a) FROM S [RANGE 1 min];

-- 002, 1.2: Q3
SELECT MAX(a) FROM S [RANGE 1 min], T [RANGE 1 min] WHERE S.b = T.b;

-- 002, 2.1.3
SELECT Rstream(*)
FROM S1 [RANGE 1 min], S2 [RANGE 1 min]
WHERE S1.a = S2.a;

-- 002, 3.4: the last ten results of a join
-- slip: FROM names Stream1 and Stream2, WHERE names S1 and S2
SELECT Wstream(*)[ROWS 10]
FROM Stream1[RANGE 1 min], Stream2[RANGE 1 min]
WHERE S1.a = S2.a;

-- 002, 3.4: the last ten results of a join, corrected
SELECT Wstream(*)[ROWS 10]
FROM Stream1[RANGE 1 min], Stream2[RANGE 1 min]
WHERE Stream1.a = Stream2.a;

-- 002, 3.4: the sum of ten chunks
-- slip: the sub-query has no column a, its column is the sum
SELECT SUM(a)
FROM (SELECT SUM(a) FROM Stream1[RANGE 6 sec SLIDE 6 sec INTERNAL]) [ROWS 10];

-- 002, 3.4: the sum of ten chunks, corrected
SELECT SUM(a)
FROM (SELECT SUM(a) AS a FROM Stream1[RANGE 6 sec SLIDE 6 sec INTERNAL]) [ROWS 10];

-- 002, 3.4: the same, without a sub-query
SELECT SUM(Wstream(SUM(a))[ROWS 10])
FROM Stream1[RANGE 6 sec SLIDE 6 sec];

-- 002, 3.4: restore
-- slip: FROM names Stream1 and Stream2, WHERE names S1 and S2
SELECT Rstream-restore(*)
FROM Stream1[RANGE 1 min SLIDE 10 sec],
    Stream2[RANGE 1 min SLIDE 10 sec]
WHERE S1.a = S2.a;

-- 002, 3.4: restore, corrected
SELECT Rstream-restore(*)
FROM Stream1[RANGE 1 min SLIDE 10 sec],
    Stream2[RANGE 1 min SLIDE 10 sec]
WHERE Stream1.a = Stream2.a;

-- 002, 3.5.1 (and Query 4 of 3.6)
-- slip: the windows are omitted for clarity, and a join of whole streams would have to remember them
SELECT Rstream(*)
FROM S1, S2
WHERE S1.a = S2.a
AND NOT EXISTS (
    SELECT Rstream(*)
    FROM S3
    WHERE S3.a = S1.a);

-- 002, 3.5.1 (and Query 4 of 3.6), corrected
SELECT Rstream(*)
FROM S1 [RANGE 1 min], S2 [RANGE 1 min]
WHERE S1.a = S2.a
AND NOT EXISTS (
    SELECT Rstream(*)
    FROM S3 [RANGE 1 min]
    WHERE S3.a = S1.a);

-- 002, 3.6: Query 1
-- slip: the lengths vary and are left out, and ftp is a string without quotes
SELECT Rstream(*)
FROM Link1 [RANGE ...], Link2 [RANGE ...]
WHERE Link1.source_IP_address = Link2.source_IP_address
AND Link1.protocol = ftp
AND Link2.protocol = ftp;

-- 002, 3.6: Query 1, corrected
SELECT Rstream(*)
FROM Link1 [RANGE 1 min], Link2 [RANGE 1 min]
WHERE Link1.source_IP_address = Link2.source_IP_address
AND Link1.protocol = 'ftp'
AND Link2.protocol = 'ftp';

-- 002, 3.6: Query 2
-- slip: the length is left out
SELECT Rstream(DISTINCT source_IP_address)
FROM Link1 [RANGE ...];

-- 002, 3.6: Query 2, corrected
SELECT Rstream(DISTINCT source_IP_address)
FROM Link1 [RANGE 1 min];

-- 002, 3.6: Query 3
-- slip: the lengths are left out
SELECT Rstream(*)
FROM Link1 [RANGE ...]
WHERE NOT EXISTS (
    SELECT Rstream(*)
    FROM Link2 [RANGE ...]
    WHERE Link2.source_IP_address = Link1.source_IP_address);

-- 002, 3.6: Query 3, corrected
SELECT Rstream(*)
FROM Link1 [RANGE 1 min]
WHERE NOT EXISTS (
    SELECT Rstream(*)
    FROM Link2 [RANGE 1 min]
    WHERE Link2.source_IP_address = Link1.source_IP_address);

-- 002, 8.1: Q1
SELECT MEDIAN(length)
FROM S [WINDOW 10 min SLIDE 2 min];

-- 002, 8.1: Q2
SELECT MEDIAN(length)
FROM S [WINDOW 14 min SLIDE 3 min];

-- 002, 8.3.3: Q1
-- slip: a string without quotes
SELECT SUM(length) FROM S WHERE protocol=TCP;

-- 002, 8.3.3: Q1, corrected
SELECT SUM(length) FROM S WHERE protocol='TCP';

-- 002, 8.3.3: Q2
-- slip: a string without quotes
SELECT SUM(length) FROM S WHERE protocol=UDP;

-- 002, 8.3.3: Q2, corrected
SELECT SUM(length) FROM S WHERE protocol='UDP';

-- 002, 8.3.3: Q3
-- slip: strings without quotes
SELECT SUM(length) FROM S WHERE protocol=TCP OR protocol=UDP;

-- 002, 8.3.3: Q3, corrected
SELECT SUM(length) FROM S WHERE protocol='TCP' OR protocol='UDP';

-- 002, 8.3.3: Q4
-- slip: a string without quotes
SELECT MAX(length) FROM S WHERE protocol=TCP;

-- 002, 8.3.3: Q4, corrected
SELECT MAX(length) FROM S WHERE protocol='TCP';

-- 002, 8.3.3: Q5
-- slip: a string without quotes
SELECT MAX(length) FROM S WHERE user=U;

-- 002, 8.3.3: Q5, corrected
SELECT MAX(length) FROM S WHERE user='U';

-- 002, 8.3.3: Q6
-- slip: strings without quotes
SELECT MAX(length) FROM S WHERE protocol=TCP OR user=U;

-- 002, 8.3.3: Q6, corrected
SELECT MAX(length) FROM S WHERE protocol='TCP' OR user='U';

-- 004, 2
Select K, SUM (A)
From S [Range 300]
Group By K
Having SUM(A) > 1000;
