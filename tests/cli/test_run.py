"""`sash run` and `sash demo` on Spark, in this process and as processes that signals end."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sash.cli import demo_stream
from tests.cli.examples import CREATE, LARGEST, TOTALS, moment
from tests.server.test_serve import LIMIT, write

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

FAILING = "REGISTER QUERY shares AS SELECT SUM(v / (v - 7)) AS x FROM s [WINDOW 5 sec SLIDE 5 sec];\n"


def test_tables_answers_and_a_one_time_question(sash, script, packets, tmp_path):
    text = (
        CREATE.format(path=packets) + TOTALS + LARGEST + "SELECT MAX(v) AS newest FROM s [WINDOW 2 sec];\nSHOW QUERIES;"
    )
    result = sash("run", script(text), "--until-drained", "--answers", tmp_path / "out")
    assert result.exit_code == 0, result.output
    question, queries, rest = result.stdout.partition("SELECT MAX(v)")[2].partition("last_as_of")
    assert "newest" in question and "100" in question and queries
    assert "totals as of 2026-01-01 00:00:10 UTC" in rest and "100 tuples in" in rest
    assert "REGISTER QUERY totals: done" in result.stderr
    table = pq.read_table(tmp_path / "out" / "totals").sort_by([("as_of", "ascending"), ("k", "ascending")])
    assert table.to_pylist() == [
        {"as_of": moment(5), "k": 0, "total": 650},
        {"as_of": moment(5), "k": 1, "total": 625},
        {"as_of": moment(10), "k": 0, "total": 1900},
        {"as_of": moment(10), "k": 1, "total": 1875},
    ]


def test_questions_over_a_stored_window_need_no_query(sash, script, packets):
    text = CREATE.format(path=packets).replace(";", " KEEP 10 sec;")
    text += "SELECT v AS odd FROM s [WINDOW 1 sec] WHERE k = 1 ORDER BY v;\n"
    text += "SELECT MEDIAN(v) AS middle FROM s [WINDOW 2 sec];"
    result = sash("run", script(text), "--until-drained")
    assert result.exit_code == 0, result.output
    rows, middle = result.stdout.partition("SELECT MEDIAN")[::2]
    assert [line.strip(" │") for line in rows.splitlines() if line.startswith("│")] == [
        "odd",
        "91",
        "93",
        "95",
        "97",
        "99",
    ]
    assert "90.5" in middle


def test_a_stream_that_comes_after_a_question_is_read_for_the_next(sash, script, packets):
    kept = CREATE.format(path=packets).replace(";", " KEEP 10 sec;")
    question = "SELECT MAX(v) AS {0} FROM {0} [WINDOW 2 sec];\n"
    text = kept + question.format("s") + kept.replace("STREAM s", "STREAM t") + question.format("t")
    result = sash("run", script(text), "--until-drained")
    assert result.exit_code == 0, result.output
    assert [line.strip("│ ") for line in result.stdout.splitlines() if line.startswith("│")] == ["s", "100", "t", "100"]


def test_json_and_a_query_that_fails(sash, script, packets):
    result = sash("run", script(CREATE.format(path=packets) + LARGEST + FAILING), "--until-drained", "--json")
    assert result.exit_code == 1 and "shares" in result.stderr and "Traceback" not in result.stderr
    answers = defaultdict(list)
    for line in result.stdout.splitlines():
        record = json.loads(line)
        answers[record["query"]].append(record)
    assert [a["rows"] for a in answers["largest"]] == [[{"m": v}] for v in (20, 40, 60, 80, 100)]
    assert answers["largest"][-1] | {"rows": []} == {
        "query": "largest",
        "as_of": "2026-01-01T00:00:10+00:00",
        "complete": True,
        "scheduled": True,
        "rows": [],
    }


def test_the_same_command_continues_from_its_checkpoint(sash, script, packets, tmp_path):
    first = packets / "0.parquet"
    second = (packets / "1.parquet").rename(tmp_path / "1.parquet")
    command = [
        "run",
        script(CREATE.format(path=packets) + TOTALS),
        "--until-drained",
        "--json",
        "--checkpoint",
        tmp_path / "ck",
    ]
    assert len(sash(*command).stdout.splitlines()) == 1 and first.exists()
    second.rename(packets / "1.parquet")
    (line,) = sash(*command).stdout.splitlines()
    assert json.loads(line)["as_of"] == "2026-01-01T00:00:10+00:00"


def test_a_query_that_is_no_longer_in_the_script(sash, script, packets, tmp_path):
    options = ["--until-drained", "--checkpoint", tmp_path / "ck"]
    create, both = CREATE.format(path=packets), TOTALS + TOTALS.replace("totals", "more")
    assert "not in the script" not in sash("run", script(create + both), *options).stderr
    told = "Of the checkpoint, and not in the script: more. They go on; --prune drops them."
    for _ in range(2):
        assert told in " ".join(sash("run", script(create + TOTALS), *options).stderr.split())
    pruned = sash("run", script(create + TOTALS), *options, "--prune")
    assert "Dropped, since the script does not have it: more" in pruned.stderr and pruned.exit_code == 0
    assert "not in the script" not in sash("run", script(create + TOTALS), *options).stderr


def test_a_source_that_is_not_there(sash, script, tmp_path):
    result = sash("run", script(CREATE.format(path=tmp_path / "none") + TOTALS), "--until-drained")
    assert result.exit_code == 1 and "none" in result.stderr and "Traceback" not in result.stderr


def test_packets_depend_on_the_seed_alone(spark):
    def some(seed):
        frame = spark.range(2000).toDF("value")
        for columns in demo_stream.stages(100, seed):
            frame = frame.selectExpr(*columns)
        return frame.orderBy("ts").toArrow()

    once, again, other = some(1), some(1), some(2)
    assert once.equals(again) and not once.equals(other)
    assert once.column_names == ["ts", "src", "dst", "protocol", "port", "length"]
    assert once["ts"][-1].as_py().replace(tzinfo=None) == moment(20).replace(tzinfo=None)
    assert {"TCP", "UDP"} <= set(once["protocol"].to_pylist()) and once["length"].null_count == 0


def test_the_demo_ends_by_itself(sash):
    result = sash("demo", "--plain", "--duration", "2", "--rate", "1000")
    assert result.exit_code == 0, result.output
    assert "200 queries over one stream" in result.stdout and "one Spark job per query" in result.stdout


# -- signals ---------------------------------------------------------------------------------------------


@contextmanager
def live(*arguments: object, start_new_session: bool = False) -> Iterator[subprocess.Popen[str]]:
    """`sash run --json`, which ends with the test."""
    command = [sys.executable, "-c", "from sash.cli import main; main()", "run", "--json", *map(str, arguments)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=start_new_session, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def answers_until(process: subprocess.Popen[str], as_of: int) -> dict[int, dict[int, int]]:
    """The answers of the query totals, by second and k; a repeated answer is the same."""
    found: dict[int, dict[int, int]] = {}
    assert process.stdout is not None and process.stderr is not None
    while as_of not in found:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        second, sums = totals_in(line)
        assert found.setdefault(second, sums) == sums
    return found


def presses_until_the_end(process: subprocess.Popen[str]) -> int:
    """How often Ctrl-C was pressed. Two that come together are one to a process that is busy."""
    presses = 0
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        presses += 1
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
    return presses


def totals_in(line: str) -> tuple[int, dict[int, int]]:
    record: dict[str, Any] = json.loads(line)
    second = next(each for each in range(0, 60, 5) if moment(each).isoformat() == record["as_of"])
    return second, {row["k"]: row["total"] for row in record["rows"]}


def totals(*seconds: int) -> dict[int, dict[int, int]]:
    """The same from scratch: ten tuples a second from second 1 on, the window is five seconds."""
    tenths = {as_of: range(max(10, as_of * 10 - 49), as_of * 10 + 1) for as_of in seconds}
    return {as_of: {k: sum(t // 10 for t in each if t % 2 == k) for k in (0, 1)} for as_of, each in tenths.items()}


@pytest.fixture
def live_run(script, tmp_path) -> tuple[Path, list[object]]:
    """The directory of a stream that has come to second 8, and what `sash run` is called with."""
    data = tmp_path / "live"
    data.mkdir()
    write(data, "0", range(1, 8))
    return data, [script(CREATE.format(path=data) + TOTALS), "--checkpoint", tmp_path / "ck"]


@pytest.mark.timeout(600)
def test_the_same_command_after_sigkill_and_its_end_by_sigterm(live_run):
    data, command = live_run
    with live(*command) as process:
        assert answers_until(process, 5) == totals(5)
        process.kill()
        assert process.wait(LIMIT) == -signal.SIGKILL
    write(data, "1", range(8, 13))
    with live(*command) as process:
        # The answer as of second 5 comes again if the micro-batch was not committed before the process was killed.
        assert {**totals(5), **answers_until(process, 10)} == totals(5, 10)
        process.terminate()
        rest, told = process.communicate(timeout=LIMIT)
    assert (process.returncode, rest, told) == (0, "", "")


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_sigterm_to_all_processes_of_the_group(live_run):
    """As systemd and `timeout` send it. Spark's own process ends as well, before the stream can be stopped or after."""
    data, command = live_run
    with live(*command, start_new_session=True) as process:
        assert answers_until(process, 5) == totals(5)
        os.killpg(process.pid, signal.SIGTERM)
        _, told = process.communicate(timeout=LIMIT)
    assert "Traceback" not in told and told.count("error:") == process.returncode
    assert process.returncode == 0 or "Spark ended before the streams were stopped" in told, told
    write(data, "1", range(8, 13))
    with live(*command) as process:
        assert {**totals(5), **answers_until(process, 10)} == totals(5, 10)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_ctrl_c_once_waits_for_the_micro_batch_and_twice_does_not(live_run, script):
    data, command = live_run
    with live(*command) as process:
        assert answers_until(process, 5) == totals(5)
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=LIMIT)
        assert (process.returncode, rest, told) == (0, "", "")

    # Nobody reads on: the answers of a micro-batch do not fit into the pipe, and it does not end.
    write(data, "1", range(8, 18), per_second=1_000)
    many = "REGISTER QUERY many AS SELECT ts, COUNT(*) AS n FROM s [WINDOW 5 sec SLIDE 5 sec] GROUP BY ts;\n"
    script(CREATE.format(path=data) + many + TOTALS)
    with live(*command) as process:
        assert process.stdout is not None and process.stdout.read(1) == "{"
        assert presses_until_the_end(process) > 1 and process.returncode == 130
        assert process.stderr is not None and process.stderr.read().endswith("error: interrupted\n")

    with live(*command, "--until-drained") as process:
        rest, told = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, told
    (line,) = (line for line in rest.splitlines() if '"many"' in line and moment(15).isoformat() in line)
    assert sum(row["n"] for row in json.loads(line)["rows"]) == 5_000
