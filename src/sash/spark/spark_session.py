"""Sash's own Spark session, and the options of its JVM."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sash.core.errors import SashError, SourceError
from sash.core.events import report
from sash.spark.kafka import CONNECTOR, KAFKA
from sash.spark.pools import allocation_file

logger = logging.getLogger("sash.spark")

# Settings that answers depend on.
_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Settings that spark-submit, spark-defaults.conf and PYSPARK_SUBMIT_ARGS may change.
_UNLESS_GIVEN = {
    "spark.ui.enabled": "false",
    # Fewer and larger pieces on the way to Python.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Work beside the stream has its own pools (pools.py).
    "spark.scheduler.mode": "FAIR",
    # Renames on a local disk without forking a process per file: 50 ms instead of 120 ms per micro-batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}
SETTINGS = {**_ALWAYS, **_UNLESS_GIVEN}
# Partials of many lanes make long generated methods, which HotSpot would leave interpreted.
_JVM_OPTION = "-XX:-DontCompileHugeMethods"

_users = 0
_ours: SparkSession | None = None
# The packages with which this process's JVM was started; the JVM outlives its Spark sessions.
_packages: frozenset[str] = frozenset()
# Set if spark-submit started the program: its JVM exists already.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_NO_NAME = "pyspark-shell"
# Packages by a short name.
_KNOWN = {KAFKA: CONNECTOR}


def acquire_own_session(memory: str = "2g", packages: Sequence[str] = ()) -> SparkSession:
    """Sash's own Spark session, shared by the Sash sessions of this process.

    It is on all cores of this machine, unless spark-submit or Spark's configuration name another master.
    `packages`: Maven coordinates of connectors that Spark is to fetch, or `kafka`.
    """
    global _users, _ours
    wanted = _wanted(packages)
    # Workers must run the current Python: without an activated environment they would run another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _users == 0 and SparkContext._active_spark_context is not None:
        # Another owner's session in this process: we use it unchanged, and never end it.
        existing = SparkSession.builder.getOrCreate()
        check_borrowed(existing)
        return existing
    try:
        _start_jvm(memory, wanted)
        with allocation_file(os.cpu_count() or 2) as pools:
            session = _builder({**_UNLESS_GIVEN, "spark.scheduler.allocation.file": pools}).getOrCreate()
    except Exception as error:
        fetched = f"; could it fetch {', '.join(wanted)}?" if wanted else ""
        raise SourceError(
            f"Spark did not start: {error}; Sash needs Java 17 or later (JAVA_HOME, or java on the PATH){fetched}"
        ) from error
    session.sparkContext.setLogLevel("FATAL")
    # Failed expressions are reported as the error of their query, not in Spark's log.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    _users += 1
    _ours = session
    return session


def _start_jvm(memory: str, packages: Sequence[str]) -> None:
    """Start the JVM with the options that only a starting JVM can take; spark-submit has started its own."""
    if SparkContext._gateway is not None or _SUBMITTED in os.environ:
        return
    # Weaker than any other place where a user can set these.
    os.environ.setdefault("SPARK_DRIVER_MEMORY", memory)
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if _JVM_OPTION not in options:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{_JVM_OPTION} {options}".strip()
    if not names_a_master():
        # A machine need not be able to look up its own name. But remote executors would look for the driver there.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf(loadDefaults=False)
    if packages:
        conf.set("spark.jars.packages", ",".join(packages))
    SparkContext._ensure_initialized(conf=conf)


def names_a_master() -> bool:
    """Whether the environment or a file names the master of Spark."""
    home = os.environ.get("SPARK_HOME", os.path.dirname(pyspark.__file__))
    defaults = Path(os.environ.get("SPARK_CONF_DIR", f"{home}/conf")) / "spark-defaults.conf"
    said = [os.environ.get("PYSPARK_SUBMIT_ARGS", ""), defaults.read_text() if defaults.is_file() else ""]
    return "MASTER" in os.environ or any("--master" in text or "spark.master" in text for text in said)


def _builder(unless_given: Mapping[str, str]) -> SparkSession.Builder:
    SparkContext._ensure_initialized()
    given = SparkConf()
    builder = SparkSession.builder
    if given.get("spark.app.name", _NO_NAME) == _NO_NAME:
        builder = builder.appName("sash")
    for name, value in unless_given.items():
        builder = builder.config(name, given.get(name, value))
    for name, value in _ALWAYS.items():
        builder = builder.config(name, value)
    return builder


def _wanted(packages: Sequence[str]) -> list[str]:
    """The coordinates of packages. Only a starting JVM takes packages."""
    global _packages
    wanted = [_KNOWN.get(package, package) for package in packages]
    if wanted and _SUBMITTED in os.environ:
        raise SourceError(f"spark-submit has started Spark: give it --packages {','.join(wanted)}")
    if SparkContext._gateway is None:
        _packages = frozenset(wanted)
    elif missing := [package for package in wanted if package not in _packages]:
        raise SourceError(
            f"Spark runs in this process already, without {', '.join(missing)}: "
            "give packages to the first connect() of a process"
        )
    return wanted


def release_own_session() -> None:
    """End the shared session when its last user leaves."""
    global _users, _ours
    if _ours is None:
        return
    _users -= 1
    if _users == 0:
        _ours.stop()
        _ours = None


def check_borrowed(session: SparkSession, packages: Sequence[str] = ()) -> None:
    """Warn about a borrowed session with other settings: answers are finished in UTC and by ANSI rules."""
    if packages:
        raise SashError("packages are for the Spark session that Sash starts; yours has what it was started with")
    wanted = {"spark.sql.session.timeZone": ("UTC", "Etc/UTC"), "spark.sql.ansi.enabled": ("true",)}
    for name, values in wanted.items():
        if (found := session.conf.get(name)) not in values:
            told = "the Spark session has %(setting)s = %(found)s; Sash expects %(expected)s"
            report(logger, logging.WARNING, "spark.unexpected", told, setting=name, found=found, expected=values[0])


def jvm_process(session: SparkSession) -> int:
    """The process id of the JVM that writes Spark's checkpoints."""
    return int(session.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
