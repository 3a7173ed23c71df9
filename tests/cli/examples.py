"""What several tests of the command line use."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from sash.runtime.answers.answer import Answer

CREATE = "CREATE STREAM s (ts TIMESTAMP, k INT, v INT) FROM parquet OPTIONS (path '{path}') TIMESTAMP ts;\n"
TOTALS = "REGISTER QUERY totals AS SELECT k, SUM(v) AS total FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY k;\n"
LARGEST = "REGISTER QUERY largest AS SELECT MAX(v) AS m FROM s [WINDOW 10 sec SLIDE 2 sec];\n"


def moment(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def answer(seconds: float = 5, query: str = "totals", **columns: list[object]) -> Answer:
    return Answer(query, moment(seconds), complete=True, scheduled=True, table=pa.table(columns or {"k": [1, 2]}))
