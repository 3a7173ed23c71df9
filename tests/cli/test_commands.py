"""The command line as far as it needs no Spark: help, exit codes, mistakes in scripts."""

import signal
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError

import sash as package
from sash.cli import opening
from sash.cli.answer_files import Sinks
from sash.cli.console import stderr_console
from sash.cli.run import JsonOutput, ScriptRun
from sash.core.errors import SourceError
from tests.cli.examples import CREATE, LARGEST, TOTALS

STREAM = CREATE.format(path="nowhere")


def test_version(sash):
    assert sash("--version").stdout == f"sash {package.__version__}\n"


@pytest.mark.parametrize("command", [[], ["run"], ["serve"], ["explain"], ["demo"], ["bench"]])
def test_every_command_has_help(sash, command):
    result = sash(*command, "--help")
    assert result.exit_code == 0 and "Usage" in result.stdout


@pytest.mark.parametrize("arguments", [["run"], ["fly"], ["run", "x.sql", "--answer", "d"], ["demo", "--rate", "few"]])
def test_usage_errors_are_2(sash, arguments):
    assert sash(*arguments).exit_code == 2


def test_a_trigger_that_is_no_duration_is_a_usage_error(sash, script):
    result = sash("run", script(STREAM), "--trigger", "soon")
    assert result.exit_code == 2 and "soon" in result.stderr


@pytest.mark.parametrize("command", ["run", "serve", "explain"])
class TestMistakesInScripts:
    def test_no_such_script(self, sash, command):
        result = sash(command, "no.sql")
        assert result.exit_code == 1 and result.stdout == ""
        assert result.stderr == "error: no.sql: cannot read the script: No such file or directory\n"

    def test_not_text(self, sash, command, tmp_path):
        path = tmp_path / "binary.sql"
        path.write_bytes(b"\xff\xfe\x00")
        result = sash(command, path)
        assert result.exit_code == 1 and "UTF-8" in result.stderr

    def test_nothing_in_it(self, sash, command, script):
        result = sash(command, script("-- later\n"))
        assert result.exit_code == 1 and "no statements" in result.stderr

    def test_a_word_that_is_wrong_is_marked(self, sash, command, script):
        result = sash(command, script(STREAM + TOTALS.replace("SUM(v)", "SUM(w)")))
        message, line, caret = result.stderr.splitlines()
        assert result.exit_code == 1 and result.stdout == ""
        assert "unknown column 'w'" in message and "line 2" in message
        assert line[caret.index("^")] == "w"

    def test_a_name_that_is_taken(self, sash, command, script):
        result = sash(command, script(STREAM + TOTALS + TOTALS))
        assert result.exit_code == 1 and "totals" in result.stderr and "registered already" in result.stderr

    def test_the_script_comes_from_stdin(self, sash, command):
        result = sash(command, "-", input="CREATE STREM s")
        assert result.exit_code == 1 and result.stderr.startswith("error: stdin: expected STREAM")


def test_mistakes_after_a_stream_of_unknown_columns_wait_for_spark():
    from sash.cli.rehearsal import rehearse
    from sash.core.errors import SashError
    from sash.sql import parse_script

    script = "CREATE STREAM s {}FROM parquet OPTIONS (path 'p') TIMESTAMP ts; DROP QUERY unknown"
    with pytest.raises(SashError, match="unknown"):
        rehearse(parse_script(script.format("(ts TIMESTAMP) ")))
    rehearse(parse_script(script.format("")))


def test_queries_that_change_are_rehearsed():
    from sash.cli.rehearsal import rehearse, title
    from sash.core.errors import SashError
    from sash.sql import parse_script

    script = (
        "CREATE STREAM s (ts TIMESTAMP, k INT) FROM rate TIMESTAMP ts;"
        "REGISTER QUERY q AS SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec];"
        "REGISTER OR REPLACE QUERY q AS SELECT COUNT(*) AS n FROM s [WINDOW 6 sec SLIDE 2 sec];"
        "ALTER QUERY Q SET (WHERE k > 1); PAUSE QUERY q; RESUME QUERY q;"
    )
    statements = parse_script(script)
    rehearse(statements)
    assert [title(each) for each in statements[3:]] == ["ALTER QUERY Q", "PAUSE QUERY q", "RESUME QUERY q"]
    for wrong in ("ALTER QUERY q SET (WHERE x > 1)", "ALTER QUERY q SET (WINDOW 3 ms)", "PAUSE QUERY r"):
        with pytest.raises(SashError):
            rehearse(parse_script(script + wrong))


def test_scripts_with_tables_are_rehearsed():
    from sash.cli.rehearsal import rehearse, title
    from sash.core.errors import CqlError
    from sash.sql import parse_script

    script = "CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 2); DELETE FROM t WHERE a = 1;"
    statements = parse_script(script + "UPDATE t SET b = 3 WHERE a = 1; SHOW TABLES; DROP TABLE t")
    rehearse(statements)
    words = ["CREATE TABLE t", "INSERT INTO t", "DELETE FROM t", "UPDATE t", "SHOW TABLES", "DROP TABLE t"]
    assert [title(statement) for statement in statements] == words
    with pytest.raises(CqlError, match="unknown column 'c'"):
        rehearse(parse_script(script + "UPDATE t SET c = 3 WHERE a = 1"))


def test_questions_over_stored_results_are_rehearsed():
    from sash.cli.rehearsal import rehearse
    from sash.core.errors import CqlError
    from sash.sql import parse_script

    script = (
        "CREATE STREAM s (ts TIMESTAMP, k INT) FROM parquet OPTIONS (path 'p') TIMESTAMP ts;"
        "REGISTER QUERY counts AS SELECT COUNT(*) AS n FROM s [WINDOW 4 sec SLIDE 2 sec] KEEP 1 min;"
        "REGISTER QUERY ends AS SELECT Istream(k) FROM s [RANGE 2 sec] KEEP 1 min;"
        "REGISTER QUERY lives AS SELECT k FROM s [RANGE 2 sec] KEEP 1 min;"
        "SELECT n, as_of FROM counts; SELECT k, _ts FROM ends; SELECT k, _ts, _exp FROM lives;"
    )
    rehearse(parse_script(script))
    with pytest.raises(CqlError, match="unknown column '_exp'"):
        rehearse(parse_script(script + "SELECT _exp FROM ends"))
    with pytest.raises(CqlError, match="unknown column 'as_of'"):
        rehearse(parse_script(script.replace("SLIDE 2 sec] KEEP 1 min", "SLIDE 2 sec]")))


class TestExplain:
    def test_each_query_with_the_others_as_neighbours(self, sash, script):
        more = "REGISTER QUERY means AS SELECT k, AVG(v) AS a FROM s [WINDOW 10 sec SLIDE 5 sec] GROUP BY k;\n"
        result = sash("explain", script(STREAM + TOTALS + LARGEST + more))
        assert result.exit_code == 0
        totals, largest, means = result.stdout.split("\n\n")[:3]
        assert totals.startswith("totals: SELECT k,") and "shared with means" in totals
        assert largest.startswith("largest:") and "shared with" not in largest
        assert "shared with totals" in means

    def test_one_time_questions_too(self, sash, script):
        result = sash("explain", script(STREAM + LARGEST + "SELECT MAX(v) FROM s [WINDOW 4 sec];"))
        assert "One-time" in result.stdout

    def test_a_dropped_query_is_nobodys_neighbour(self, sash, script):
        result = sash("explain", script(STREAM + TOTALS + LARGEST + "DROP QUERY totals;"))
        assert "totals" not in result.stdout and "largest" in result.stdout

    def test_nothing_to_explain(self, sash, script):
        assert sash("explain", script(STREAM)).stdout == "The script has no queries.\n"


class TestBench:
    @pytest.fixture(autouse=True)
    def checkout(self, tmp_path, monkeypatch):
        (tmp_path / "src" / "sash").mkdir(parents=True)
        monkeypatch.setattr(package, "__file__", str(tmp_path / "src" / "sash" / "__init__.py"))
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_lists_what_there_is(self, sash, checkout):
        (checkout / "benchmarks").mkdir()
        (checkout / "benchmarks" / "run_many.py").write_text('"""Many queries.\n\nMore."""\n')
        (checkout / "papers" / "joins").mkdir(parents=True)
        (checkout / "papers" / "joins" / "run.py").write_text('"""Orders."""\n')
        result = sash("bench")
        assert result.exit_code == 0 and "many   Many queries." in result.stdout and "More" not in result.stdout
        assert "joins  Orders." in result.stdout

    @pytest.mark.parametrize("program", ["benchmarks/run_many.py", "papers/many/run.py"])
    def test_starts_one_and_passes_on_arguments_and_exit_code(self, sash, checkout, program):
        (checkout / "benchmarks").mkdir()
        (checkout / program).parent.mkdir(parents=True, exist_ok=True)
        (checkout / program).write_text(
            "import pathlib, sys\npathlib.Path('seen').write_text(' '.join(sys.argv[1:]))\nsys.exit(3)\n"
        )
        assert sash("bench", "many", "--queries", "8").exit_code == 3
        assert (checkout / "seen").read_text() == "--queries 8"

    def test_unknown_name(self, sash, checkout):
        (checkout / "benchmarks").mkdir()
        (checkout / "benchmarks" / "run_many.py").touch()
        result = sash("bench", "manny")
        assert result.exit_code == 2 and "did you mean 'many'?" in result.stderr

    def test_without_a_checkout(self, sash):
        result = sash("bench")
        assert result.exit_code == 1 and "source checkout" in result.stderr


def test_two_quick_ctrl_c_wait_for_nothing(monkeypatch):
    """The second one comes before the stop has begun: what waits for the micro-batch in flight is left out."""
    monkeypatch.setattr(opening, "abandoned", False)

    def wait(seconds):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    stops = []
    query = SimpleNamespace(name="q", subscribe=lambda sinks: None)
    session = SimpleNamespace(
        queries={"q": query}, start=lambda trigger: None, wait=wait, stop=lambda: stops.append("stop")
    )
    messages = stderr_console(quiet=True)
    script_run = ScriptRun(session, Sinks([], lambda: None), JsonOutput(), messages, prune=False)
    with pytest.raises(KeyboardInterrupt):
        script_run.all([], "1 sec")
    opening.stop(session, messages)
    assert stops == []


def test_a_stop_without_spark_is_one_message():
    """A signal to all processes of the group ends the JVM as well; a mistake of ours is still shown as one."""

    def failing(error):
        def stop():
            raise error

        return SimpleNamespace(stop=stop)

    for error in (Py4JNetworkError("Error while sending or receiving"), ConnectionRefusedError()):
        with pytest.raises(SourceError, match="the same command goes on from the last commit"):
            opening.stop(failing(error), stderr_console(quiet=True))
    with pytest.raises(ZeroDivisionError):
        opening.stop(failing(ZeroDivisionError()), stderr_console(quiet=True))
