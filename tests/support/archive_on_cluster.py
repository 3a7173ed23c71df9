"""An archive whose files are written by executors in processes of their own.

    python -m tests.support.archive_on_cluster DIRECTORY

Prints how many rows were found and how many sub-indices Spark wrote, after comparing them with all that came.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import sash
from sash.core.time import SECOND
from sash.runtime.stored import archive_feed
from sash.spark.archive_frames import SparkWriter
from tests.support.streams import START

ROWS, LIFETIME = 300, 120


def main(directory: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (directory / "s").mkdir()
    for part in range(3):
        numbers = range(part * 100, part * 100 + 100)
        stamps = pa.array([START + v * SECOND for v in numbers], pa.timestamp("us", "UTC"))
        pq.write_table(
            pa.table({"ts": stamps, "k": [v % 7 for v in numbers], "v": numbers}), directory / f"s/{part}.parquet"
        )
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    wanted = [v for v in range(ROWS) if ROWS - 1 - v < LIFETIME]
    with (
        mock.patch.object(archive_feed, "SPARK_FROM_BYTES", 0),
        mock.patch.object(SparkWriter, "write", autospec=True, side_effect=SparkWriter.write) as written,
        sash.connect(spark=spark, checkpoint=directory / "checkpoint") as session,
    ):
        session.sql(
            "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) FROM parquet "
            f"OPTIONS (path '{directory / 's'}', maxFilesPerTrigger '1') TIMESTAMP ts"
        )
        session.sql(f"CREATE ARCHIVE a FROM s KEY k LIFETIME UP TO {LIFETIME} sec UPDATE EVERY 30 sec PARTITION 2 x 2")
        session.run()
        for partition in ("", "PARTITION 3 x 2 CHRONOLOGICAL"):
            if partition:
                session.sql(f"ALTER ARCHIVE a {partition}")
            assert sorted(session.query("SELECT v FROM a")["v"].to_pylist()) == wanted
            probed = session.query("SELECT v FROM a WHERE k = 3")["v"].to_pylist()
            assert sorted(probed) == [v for v in wanted if v % 7 == 3]
    spark.stop()
    print(len(wanted), written.call_count)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
