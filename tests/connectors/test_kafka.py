"""Kafka, with a real broker: the cases are in kafka_cases.py, and run in a process whose Spark has the connector."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka import JarsMissingError, broker, kafka_jars

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.timeout(900)
def test_kafka_in_and_out(tmp_path: Path) -> None:
    try:
        of_broker, of_connector = kafka_jars()
    except JarsMissingError as error:
        pytest.skip(str(error))
    with broker(of_broker, tmp_path / "broker") as address:
        environment = {
            **os.environ,
            "SASH_TEST_KAFKA": address,
            "PYSPARK_SUBMIT_ARGS": f"--jars {','.join(map(str, of_connector))} pyspark-shell",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "tests/connectors/kafka_cases.py",
            f"--basetemp={tmp_path / 'cases'}",
        ]
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
    assert " passed" in run.stdout and "skipped" not in run.stdout
