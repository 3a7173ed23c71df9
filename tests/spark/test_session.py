"""Sash's own Spark session: what spark-submit and Spark's configuration say holds; and sessions that are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sash
from sash.spark import spark_session

SETTINGS = ("spark.master", "spark.app.name", "spark.sql.shuffle.partitions", "spark.sql.ansi.enabled")
PROGRAM = f"""
import json, sash
with sash.connect() as session:
    conf, jvm = session.spark.sparkContext.getConf(), session.spark._jvm
    arguments = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    memory = [argument for argument in arguments if argument.startswith("-Xmx")]
    print(json.dumps([conf.get(name) for name in {SETTINGS!r}] + memory[-1:]))
"""


def started(tmp_path: Path, command: list[str], **environment: str) -> list[Any]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    path = os.pathsep.join(path for path in sys.path if path)
    environment = {**found, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path, **environment}
    run = subprocess.run([*command, str(program)], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return list(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.spark
@pytest.mark.deep
def test_what_is_configured_holds_and_what_answers_depend_on_does_too(tmp_path: Path) -> None:
    cores = str(os.cpu_count())
    assert started(tmp_path, [sys.executable]) == ["local[*]", "sash", cores, "true", "-Xmx2g"]
    submit = "--master local[1] --driver-memory 1g --conf spark.sql.shuffle.partitions=7 pyspark-shell"
    assert started(tmp_path, [sys.executable], PYSPARK_SUBMIT_ARGS=submit) == [
        "local[1]",
        "sash",
        "7",
        "true",
        "-Xmx1g",
    ]
    lines = [
        "spark.master local[1]",
        "spark.driver.memory 1500m",
        "spark.app.name mine",
        "spark.sql.ansi.enabled false",
    ]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    found = started(tmp_path, [sys.executable], SPARK_CONF_DIR=str(tmp_path))
    assert found == ["local[1]", "mine", cores, "true", "-Xmx1500m"]
    spark_submit = [str(Path(sys.executable).with_name("spark-submit")), "--master=local[1]", "--driver-memory=700m"]
    assert started(tmp_path, spark_submit) == ["local[1]", "program.py", cores, "true", "-Xmx700m"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell", True),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.master=yarn pyspark-shell", True),
        ("PYSPARK_SUBMIT_ARGS", "--conf spark.ui.enabled=true pyspark-shell", False),
        ("MASTER", "spark://head:7077", True),
    ],
)
def test_who_names_a_master(monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: bool) -> None:
    """Then the driver's address is not this machine's own loopback."""
    for other in ("PYSPARK_SUBMIT_ARGS", "MASTER", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(other, raising=False)
    assert not spark_session.names_a_master()
    monkeypatch.setenv(name, value)
    assert spark_session.names_a_master() == expected


def test_spark_submit_is_told_to_fetch_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(sash.SourceError, match=r"spark-submit has started Spark: give it --packages a:b:1"):
        spark_session.acquire_own_session(packages=["a:b:1"])


def test_a_connect_session_is_refused_at_once() -> None:
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(sash.SashError, match=r"this is a Spark Connect session: Sash needs a classic one"):
        sash.connect(spark=remote)


@pytest.mark.parametrize(("name", "value"), [("SPARK_REMOTE", "sc://localhost"), ("SPARK_API_MODE", "connect")])
def test_so_is_one_that_the_environment_asks_for(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(sash.SashError, match=f"{name} asks for a Spark Connect session: Sash needs a classic one"):
        sash.connect()
