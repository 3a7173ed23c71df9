"""`sash serve` as a process with Spark: from its start to its exit code."""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sash.server.wire import ARROW, EVENTS
from tests.cli.examples import CREATE, TOTALS, moment
from tests.support.events import events
from tests.support.threads import PATIENCE, start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COMMAND = [sys.executable, "-c", "from sash.cli import main; main()", "serve"]
# Hours of work for Spark: all pairs of many rows.
LONG = "SELECT COUNT(*) AS n FROM s [WINDOW 10 min] a JOIN s [WINDOW 10 min] b ON a.v + b.v <> a.k - 7"
LIMIT = 4 * PATIENCE


def write(directory: Path, name: str, seconds: range, per_second: int = 10) -> None:
    """Tuples of some seconds: k is 0 or 1, v is the second. The file appears whole."""
    times = [second + i / per_second for second in seconds for i in range(per_second)]
    table = pa.table(
        {
            "ts": pa.array([moment(each) for each in times], pa.timestamp("us", "UTC")),
            "k": pa.array([i % 2 for i in range(len(times))], pa.int32()),
            "v": pa.array([int(each) for each in times], pa.int32()),
        }
    )
    unfinished = directory / f".{name}"
    pq.write_table(table, unfinished)
    unfinished.rename(directory / f"{name}.parquet")


@contextmanager
def serving(
    script: Path, *options: str, descriptors: int | None = None
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    limit = None if descriptors is None else partial(resource.setrlimit, resource.RLIMIT_NOFILE, (descriptors,) * 2)
    process = subprocess.Popen(
        [*COMMAND, str(script), "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stderr is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), process.stderr.read()
        with httpx.Client(base_url=address, timeout=LIMIT) as client:
            yield process, client
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return found


def told(process: subprocess.Popen[str], words: str) -> str:
    """The output until it contains some words."""
    assert process.stderr is not None
    lines: list[str] = []
    while not lines or words not in lines[-1]:
        lines.append(process.stderr.readline())
        assert lines[-1], f"it ended without {words!r}: {''.join(lines)}"
    return "".join(lines)


def ended(process: subprocess.Popen[str], with_signal: int) -> tuple[int, str]:
    process.send_signal(with_signal)
    _, said = process.communicate(timeout=LIMIT)
    return process.returncode, said


@pytest.fixture
def packets(tmp_path: Path) -> Path:
    directory = tmp_path / "packets"
    directory.mkdir()
    write(directory, "first", range(1, 31), per_second=1_000)
    return directory


@pytest.fixture
def script(packets: Path, tmp_path: Path) -> Path:
    path = tmp_path / "script.sql"
    path.write_text(CREATE.format(path=packets).replace(" TIMESTAMP ts;", " TIMESTAMP ts KEEP 10 min;") + TOTALS)
    return path


def test_live_from_the_first_answer_to_a_stream_that_fails(script: Path, packets: Path) -> None:
    with serving(script) as (process, client):
        until(lambda: client.get("/api/queries/totals").json()["answers"])
        assert client.get("/api/health").json()["state"] == "running"

        # Asked once: folded in the process, and by Spark, as JSON and as Arrow.
        folded = client.post("/api/query", json={"text": "SELECT SUM(v) AS total FROM s [WINDOW 10 sec]"}).json()
        assert folded["rows"] == [{"total": 1_000 * sum(range(20, 30)) - 20 + 30}] and folded["complete"]
        rows = {"text": "SELECT k, v FROM s [WINDOW 10 sec] ORDER BY v DESC, k", "max_rows": 2}
        assert client.post("/api/query", json=rows).json()["truncated"]
        table = pa.ipc.open_stream(client.post("/api/query", json=rows, headers={"Accept": ARROW}).content).read_all()
        assert table.to_pylist() == [{"k": 0, "v": 30}, {"k": 0, "v": 29}]

        # A question that would take hours: its time is over, and it is cancelled.
        assert client.post("/api/query", json={"text": LONG, "timeout": 2}).status_code == 504
        refused: list[httpx.Response] = []
        asking = start(lambda: refused.append(client.post("/api/query", json={"text": LONG, "id": "long"})))
        until(lambda: any(each["seconds"] > 2 for each in client.get("/api/query").json() if each["id"] == "long"))
        assert client.delete("/api/query/long").status_code == 204
        asking.join(LIMIT)
        assert refused[0].status_code == 409
        until(lambda: client.get("/api/query").json() == [])

        # A continuous query says what holds, from the stored rows on.
        continuous = {"name": "keys", "text": "SELECT DISTINCT k FROM s [RANGE 5 sec]"}
        assert client.post("/api/queries", json=continuous).json()["kind"] == "continuous"
        held = client.get("/api/queries/keys/view").json()["rows"]
        assert sorted(row["k"] for row in held) == [0, 1]

        # A query is registered while the stream runs, and followed: answers come with the next file.
        new = {"name": "counts", "text": "SELECT COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec]"}
        assert client.post("/api/queries", json=new).status_code == 201
        with client.stream("GET", "/api/queries/counts/answers", headers={"Accept": EVENTS}) as response:
            stream = events(response.iter_lines())
            write(packets, "second", range(31, 52))
            counted = next(each for each in stream if each.data["as_of"] == moment(50).isoformat())
            assert counted.kind == "answer" and counted.data["rows"] == [{"n": 50}]

            until(lambda: len(client.get("/api/queries/keys/view").json()["rows"]) == 2)

            # A file that cannot be read ends the stream, and not the server.
            (packets / "third.parquet").write_bytes(b"this is no Parquet")
            end = next(each for each in stream if each.kind == "end")
            assert "the engine has stopped" in end.data["reason"]
        sick = client.get("/api/health")
        assert sick.status_code == 503 and sick.json()["state"] == "failed" and "third.parquet" in sick.json()["error"]
        assert client.post("/api/query", json={"text": "SELECT MAX(v) AS m FROM s [WINDOW 10 sec]"}).status_code == 200
        assert "third.parquet" in told(process, "The server goes on")
        assert ended(process, signal.SIGTERM)[0] == 1


def test_streams_start_with_their_first_queries(packets: Path, tmp_path: Path) -> None:
    """A script without a query is served. Its second stream has its first query while the first one runs."""
    script = tmp_path / "streams.sql"
    create = CREATE.format(path=packets)
    script.write_text(create + create.replace("STREAM s", "STREAM other"))
    with serving(script) as (process, client):
        assert client.get("/api/health").json()["state"] == "idle"
        assert client.get("/api/queries").json() == []
        for stream in ("s", "other"):
            text = f"SELECT COUNT(*) AS n FROM {stream} [WINDOW 30 sec SLIDE 30 sec]"
            assert client.post("/api/queries", json={"name": f"of_{stream}", "text": text}).status_code == 201
            until(lambda stream=stream: client.get(f"/api/queries/of_{stream}").json()["answers"])
        assert client.get("/api/queries/of_other/answers").json()[0]["rows"] == [{"n": 29_001}]
        write(packets, "second", range(31, 62))
        until(lambda: client.get("/api/queries/of_s").json()["answers"] == 2)
        (packets / "third.parquet").write_bytes(b"no Parquet")
        until(lambda: client.get("/api/health").status_code == 503)
        # Whether the server has noticed the failure itself by now, or not: it tells of it.
        code, said = ended(process, signal.SIGTERM)
        assert code == 1 and "No query is registered yet; the first one starts its streams." in said
        assert "third.parquet" in said


@pytest.mark.parametrize("clients", [1_200, pytest.param(5_000, marks=pytest.mark.deep)])
def test_half_sent_requests_do_not_stop_the_stream(script: Path, packets: Path, clients: int) -> None:
    """A process may have 1,024 descriptors, and more clients without a token hold connections open."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, min(most, 2 * clients)), most))
    with serving(script, "--token", "secret", descriptors=1_024) as (process, client), ExitStack() as opened:
        client.headers["Authorization"] = "Bearer secret"
        until(lambda: client.get("/api/queries/totals").json()["answers"])
        for _ in range(clients):
            idle = opened.enter_context(closing(socket.create_connection(("127.0.0.1", client.base_url.port))))
            # The server may have closed it already, to make room for another.
            with suppress(ConnectionError):
                idle.sendall(b"POST /api/query HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")
        assert 400 < psutil.Process(process.pid).num_fds() < 800, "connections have half of them, the engine the rest"
        for second in range(31, 61, 10):
            before = client.get("/api/queries/totals").json()["answers"]
            write(packets, f"from-{second}", range(second, second + 10))
            until(lambda before=before: client.get("/api/queries/totals").json()["answers"] > before)
        assert client.get("/api/health").json()["state"] == "running"
        code, said = ended(process, signal.SIGTERM)
        assert code == 0 and "Too many open files" not in said


@pytest.mark.deep
def test_what_has_been_read_can_be_asked_when_the_streams_have_ended(script: Path, tmp_path: Path) -> None:
    options = ["--until-drained", "--token", "secret", "--checkpoint", str(tmp_path / "state")]
    with serving(script, *options) as (process, client):
        assert client.get("/api/health").status_code == 401
        client.headers["Authorization"] = "Bearer secret"
        until(lambda: client.get("/api/health").json()["state"] == "ended")
        (latest,) = client.get("/api/queries/totals/answers").json()
        assert latest["as_of"] == moment(35).isoformat()
        told = client.get("/api/queries/totals/answers", headers={"Accept": EVENTS}).text
        assert [each.kind for each in events(told.splitlines())] == ["answer", "end"]
        code, said = ended(process, signal.SIGINT)
        assert code == 0 and "The streams have ended" in said
