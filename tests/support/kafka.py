"""A Kafka broker on loopback, and Spark's connector to it: jars of Maven Central, kept in a cache.

The broker's jars are those that Spark does not bring itself. Where neither the cache nor the network has the jars,
`kafka_jars` says why, and tests are skipped.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from sash.spark.kafka import CONNECTOR

_CACHE = Path(os.environ.get("SASH_KAFKA_JARS", Path.home() / ".cache" / "sash" / "kafka"))
_SECONDS = 180.0

_KAFKA = "4.1.2"
BROKER = (
    *(
        f"org.apache.kafka:{name}:{_KAFKA}"
        for name in (
            "kafka_2.13", "kafka-clients", "kafka-server", "kafka-server-common", "kafka-metadata", "kafka-raft",
            "kafka-storage", "kafka-storage-api", "kafka-tools-api", "kafka-coordinator-common",
            "kafka-group-coordinator", "kafka-group-coordinator-api", "kafka-share-coordinator",
            "kafka-transaction-coordinator",
        )
    ),
    "com.dynatrace.hash4j:hash4j:0.22.0",
    "com.github.ben-manes.caffeine:caffeine:3.2.0",
    "com.google.re2j:re2j:1.8",
    "com.typesafe.scala-logging:scala-logging_2.13:3.9.5",
    "com.yammer.metrics:metrics-core:2.2.0",
    "commons-validator:commons-validator:1.10.1",
    "net.sf.jopt-simple:jopt-simple:5.0.4",
    "org.hdrhistogram:HdrHistogram:2.2.2",
    "org.pcollections:pcollections:4.0.2",
)  # fmt: skip
_CLIENT = ("org.apache.kafka:kafka-clients:3.9.2", "org.apache.commons:commons-pool2:2.12.1")
_RELEASE = CONNECTOR.rpartition(":")[2]
# The newest token provider that the registry has whole goes with any connector.
CONNECTORS = tuple(
    (CONNECTOR, f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{tokens}", *_CLIENT)
    for tokens in (_RELEASE, "4.0.0")
)


class JarsMissingError(Exception):
    """Neither in the cache nor reachable."""


def kafka_jars() -> tuple[list[Path], list[Path]]:
    """The jars of a broker, and those of Spark's connector."""
    broker = _fetched(BROKER)
    for connector in CONNECTORS:
        try:
            return broker, _fetched(connector)
        except JarsMissingError as error:
            missing = error
    raise missing


def _fetched(coordinates: tuple[str, ...]) -> list[Path]:
    """By Maven, which knows where jars are to be had here; all of them or none."""
    wanted = [_CACHE / "{1}-{2}.jar".format(*coordinate.split(":")) for coordinate in coordinates]
    if all(path.exists() for path in wanted):
        return wanted
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsMissingError(f"Kafka's jars are not in {_CACHE}, and there is no mvn to fetch them")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as drafts:
        project = Path(drafts) / "pom.xml"
        project.write_text(_PROJECT.format("".join(map(_dependency, coordinates))))
        command = [maven, "--quiet", "--batch-mode", "--file", str(project), "dependency:copy-dependencies",
                   f"-DoutputDirectory={drafts}/jars"]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise JarsMissingError(f"Kafka's jars were not fetched within {_SECONDS:.0f} s") from None
        except subprocess.CalledProcessError as error:
            said = (error.stdout.strip() or error.stderr.strip() or "nothing").splitlines()[0]
            raise JarsMissingError(f"Kafka's jars are not in {_CACHE}, and mvn cannot fetch them: {said}") from None
        for path in wanted:
            (Path(drafts) / "jars" / path.name).replace(path)
    return wanted


_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>sash</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>"""


def _dependency(coordinate: str) -> str:
    """The jar without its dependencies: the list has them, or Spark brings them."""
    names = "<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>".format(*coordinate.split(":"))
    nothing_else = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    return f"<dependency>{names}<exclusions>{nothing_else}</exclusions></dependency>"


@contextmanager
def broker(jars: list[Path], directory: Path) -> Iterator[str]:
    """A broker with its data in a directory, while the block lasts; its address."""
    port, controller = _free_ports(2)
    logs = directory / "logs"
    logs.mkdir(parents=True)
    cluster = base64.urlsafe_b64encode(b"sash-test-broker").decode().rstrip("=")
    # What formatting would write, without a JVM of its own for it.
    (logs / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(logs),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "num.partitions": "2",
    }
    (directory / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    spark = Path(pyspark.__file__).parent / "jars"
    path = os.pathsep.join([*map(str, jars), str(spark / "*")])
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else Path("java")
    command = [str(java), "-Xmx256m", "-cp", path, "kafka.Kafka", str(directory / "server.properties")]
    with open(directory / "broker.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, process, directory / "broker.log")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the broker did not start: {log.read_text()[-2_000:]}")
