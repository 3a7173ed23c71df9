"""The mutation tester: which mutants there are, which tests try them, and a run over a project of two functions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import Copy, LineMap, Suite, digest, main, packed, stages
from tools.mutations import KINDS, PACKAGES, Finder, Mutant, choose, differs

PATH = "src/sash/core/some.py"


def changed(source: str, kind: str) -> list[str]:
    """The whole texts that the mutants of a kind make of a source."""
    found = Finder(source.encode(), PATH).mutants()
    return [mutant.source(source.encode()).decode() for mutant in found if mutant.kind == kind]


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("operator", "a + b", ["a - b"]),
        ("operator", "(a) // (b)", ["(a) * (b)"]),
        ("operator", "n += 1", ["n -= 1"]),
        ("operator", "a and b and c", ["a or b and c", "a and b or c"]),
        ("operator", "x = not a", ["x = a"]),
        ("operator", "x = -a", ["x = a"]),
        ("operator", "'a' + b", []),
        ("comparison", "a < b <= c", ["a <= b <= c", "a < b < c"]),
        ("comparison", "a is  not b", ["a is b"]),
        ("comparison", "a in b", ["a not in b"]),
        ("constant", "f(1, 0.5, True)", ["f(2, 0.5, True)", "f(1, 1.5, True)", "f(1, 0.5, False)"]),
        ("constant", "f('key', 'some words', f'{1}')", ["f(\"key_\", 'some words', f'{1}')"]),
        ("statement", "f(a)", ["pass"]),
        ("statement", "f(\n  a,\n)  # why\nb = 1", ["pass\n\n  # why\nb = 1"]),
        ("statement", "self.a = 1\nb = 1", ["pass\nb = 1"]),
        (
            "statement",
            "def f():\n  if a:\n    return 1\n  return 2",
            ["def f():\n  if a:\n    pass\n  return 2"],
        ),
        ("arguments", "f(a, (b, c), d=1)", ["f((b, c), a, d=1)"]),
        ("arguments", "f(a, a)", []),
        ("arguments", "f(a, *b)", []),
        ("arguments", "max(a, b)", []),
        ("arguments", "f(\n  é,  # é\n  b,\n)", ["f(\n  b,  # é\n  é,\n)"]),
    ],
)
def test_mutants_of_each_kind(kind: str, source: str, expected: list[str]) -> None:
    assert changed(source, kind) == expected


def test_what_no_test_should_notice_is_left_alone() -> None:
    source = '''"""Words."""
from typing import TYPE_CHECKING, Literal
if TYPE_CHECKING:
    LIMIT = 1
__all__ = ["some"]
Mode = Literal["one", "two"]
Either = int | str

@decorated(1)
def f(a: Literal[1] = None) -> Literal[2]:
    """More words."""
    b: Literal[3]
    logger.warning("words", 4)
    for c, d in zip(a, strict=True):
        raise ValueError("word", 5)

def __repr__(self):
    return self.a + 1
'''
    left = {mutant.source(source.encode()).decode() for mutant in Finder(source.encode(), PATH).mutants()}
    call, error = 'logger.warning("words", 4)', 'raise ValueError("word", 5)'
    assert left == {source.replace(call, "pass"), source.replace(error, "pass")}


def only(source: str) -> Mutant:
    (mutant,) = Finder(source.encode(), PATH).mutants()
    return mutant


def test_a_mutant_must_do_something_else() -> None:
    source = "for a in b:\n    continue\n"
    assert not differs(only(source), source.encode())
    source = "for a in b:\n    break\n"
    assert differs(only(source), source.encode())


def test_lines_are_those_of_the_statement_without_its_body() -> None:
    assert only("def f(a):\n    while (\n        a\n        < b\n    ):\n        c = d\n").lines == {2, 3, 4, 5}
    assert only("def f(a):\n    a = [\n        b\n        < c\n    ]\n").lines == {2, 3, 4, 5}


def test_code_at_import_and_compiled_code_is_unseen_by_a_map() -> None:
    body = "def f(a):\n    return a < b\n"
    assert not only(body).unseen
    assert only("@numba.njit(cache=True)\n" + body).unseen
    assert only("def f(a=1):\n    return a\n").unseen
    assert only("class A:\n    a = b < c\n").unseen


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


EACH = len(PACKAGES) * len(KINDS)  # one mutant of each kind in each package
ONE_EACH = str(len(PACKAGES))


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    text = "def f(a, b):\n    g(a, b)\n    return a + 1 < b\n"
    for package in PACKAGES:
        for name in ("one", "other"):
            write(tmp_path, f"src/sash/{package}/{name}.py", text)
    return tmp_path


def ids(root: Path, count: int, seed: int = 1) -> list[str]:
    return [mutant.id for mutant in choose(root, PACKAGES, count, seed)]


def test_the_choice_is_even_over_packages_and_kinds(sources: Path) -> None:
    mutants = choose(sources, PACKAGES, EACH, 1)
    assert sorted((each.package, each.kind) for each in mutants) == sorted((a, b) for a in PACKAGES for b in KINDS)
    assert [each.package for each in choose(sources, ["plan"], EACH, 1)] == ["plan"] * 5


def test_ids_are_stable(sources: Path) -> None:
    before = ids(sources, EACH)
    assert ids(sources, EACH) == before
    assert ids(sources, 2 * len(PACKAGES)) == before[: 2 * len(PACKAGES)]
    assert ids(sources, EACH, seed=2) != before


def test_an_edit_does_not_reshuffle_the_list(sources: Path) -> None:
    before = ids(sources, EACH)
    edited = sources / "src/sash/core/one.py"
    edited.write_text("# A line more.\nOTHER = [2, 3]\n" + edited.read_text())
    gone = set(before) - set(ids(sources, EACH))
    assert len(gone) <= 1 and all(each.startswith("core/") for each in gone)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Three modules and their tests: `far` is reached through `near`."""
    write(tmp_path, "src/sash/__init__.py", "")
    write(tmp_path, "src/sash/core/__init__.py", "")
    write(tmp_path, "src/sash/core/far.py", "def far(a):\n    return a < 1\n")
    write(tmp_path, "src/sash/core/near.py", "from sash.core.far import far\n")
    write(tmp_path, "tests/core/test_far.py", "from sash.core import far\n")
    write(tmp_path, "tests/core/test_another.py", "import sash.core.far\n")
    write(tmp_path, "tests/support/helper.py", "from sash.core.near import far\n")
    write(tmp_path, "tests/core/test_near.py", "from tests.support.helper import far\npytestmark = pytest.mark.spark\n")
    write(tmp_path, "tests/core/test_nothing.py", "import sash\n")
    return tmp_path


def mutant_of(project: Path) -> Mutant:
    path = "src/sash/core/far.py"
    return next(each for each in Finder((project / path).read_bytes(), path).mutants() if each.kind == "comparison")


def test_without_a_map_imports_give_the_order(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "FEW_FILES", 1)
    tests = Suite(project)
    found = {stage.name: stage.files for stage in stages(mutant_of(project), "plain", tests, LineMap({}, tests))}
    assert found == {
        "nearest": ["tests/core/test_far.py"],
        "direct": ["tests/core/test_another.py"],
        "transitive": ["tests/core/test_near.py"],
        "rest": ["tests/core/test_nothing.py"],
    }
    spark = [stage.files for stage in stages(mutant_of(project), "spark", tests, LineMap({}, tests))]
    assert spark == [["tests/core/test_near.py"], [], [], []]


def line_map(project: Path, tests: Suite) -> LineMap:
    near, another = "tests/core/test_near.py::test_a", "tests/core/test_another.py::test_b"
    halves = {
        "plain": packed([{"src/sash/core/far.py": {1: [""], 2: ["", near]}}, {"src/sash/core/far.py": {2: [another]}}])
    }
    digests = {path: digest(text) for path, text in tests.texts.items()}
    return LineMap(json.loads(json.dumps(halves | {"digests": digests})), tests)


def test_with_a_map_only_tests_that_execute_the_line_are_run(project: Path) -> None:
    tests = Suite(project)
    line, files = stages(mutant_of(project), "plain", tests, line_map(project, tests))
    assert line.only == ["tests/core/test_another.py::test_b", "tests/core/test_near.py::test_a"]
    assert line.files == files.files == ["tests/core/test_another.py", "tests/core/test_near.py"]
    assert (files.only, files.skip) == (None, tuple(line.only))


def test_a_map_of_other_sources_is_not_asked(project: Path) -> None:
    known = line_map(project, Suite(project))
    write(project, "tests/core/test_far.py", "from sash.core import far  # changed\n")
    tests = Suite(project)
    _, files = stages(mutant_of(project), "plain", tests, LineMap(known.data, tests))
    assert files.files[0] == "tests/core/test_far.py"
    write(project, "src/sash/core/far.py", "\ndef far(a):\n    return a < 1\n")
    tests = Suite(project)
    assert next(stages(mutant_of(project), "plain", tests, LineMap(known.data, tests))).name == "nearest"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:schemathesis")  # half of the time that pytest takes to start
    write(
        tmp_path,
        "pyproject.toml",
        '[tool.pytest.ini_options]\npythonpath = ["src"]\nmarkers = ["spark: a JVM", "deep: hours"]\n',
    )
    write(tmp_path, "src/sash/__init__.py", "")
    write(tmp_path, "src/sash/core/__init__.py", "")
    two = "def known(a):\n    return a in ()\n\n\ndef unknown(a):\n    return a is a\n"
    write(tmp_path, "src/sash/core/two.py", two)
    test = "from sash.core.two import known, unknown\n\n\ndef test_known():\n    assert not known(1)\n"
    write(tmp_path, "tests/core/test_two.py", test)
    return tmp_path


def outcomes(toy: Path) -> dict[str, str]:
    lines = (toy / "build" / "mutants" / "1.jsonl").read_text().splitlines()
    assert len(lines) == len({json.loads(line)["id"] for line in lines})
    return {json.loads(line)["id"]: json.loads(line)["outcome"] for line in lines}


KILLED, SURVIVOR = "core/two.py:known:comparison:1", "core/two.py:unknown:comparison:1"


def test_a_run_kills_and_resumes_and_reports(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (toy / "src/sash/core/two.py").read_bytes()
    main(["run", "core", "--count", ONE_EACH, "--no-spark"], toy)
    assert len(outcomes(toy)) == 1
    write(toy, "tools/equivalent_mutants.toml", "")
    main(["run", "core", "--no-spark"], toy)
    assert outcomes(toy) == {KILLED: "killed", SURVIVOR: "survived without spark"}
    assert (toy / "src/sash/core/two.py").read_bytes() == before
    printed = capsys.readouterr().out
    assert "1/1  killed" in printed and "1/1  survived without spark" in printed
    assert printed.rstrip().endswith("-    return a is a\n+    return a is not a\nno reason given")
    assert "all                  2           0       1      50.0" in printed
    write(toy, "tools/equivalent_mutants.toml", f'"{SURVIVOR}" = "nobody calls it"\n')
    main(["report"], toy)
    printed = capsys.readouterr().out
    assert "equivalent: nobody calls it" in printed
    assert "all                  2           1       1     100.0" in printed


def test_a_survivor_is_tried_again_when_it_has_a_test(toy: Path) -> None:
    main(["run", "core", "--no-spark"], toy)
    (toy / "tests/core/test_new.py").write_text(
        "from sash.core.two import unknown\n\n\ndef test_it():\n    assert unknown(1)\n"
    )
    main(["run", "core", "--no-spark"], toy)
    assert outcomes(toy)[SURVIVOR] == "survived without spark"
    main(["run", "core", "--no-spark", "--survivors"], toy)
    assert mutants.read_results(toy / "build" / "mutants" / "1.jsonl")[SURVIVOR]["outcome"] == "killed"


def test_a_test_that_always_fails_kills_nothing(toy: Path) -> None:
    (toy / "tests/core/test_two.py").write_text(
        "from sash.core import two\n\n\ndef test_a():\n    assert two is None\n"
    )
    main(["run", "core", "--count", ONE_EACH, "--no-spark"], toy)
    assert list(outcomes(toy).values()) == ["survived without spark"]
    write(toy, "tests/core/test_two.py", "import sash.core.two\nimport sash.core.three\n")
    with pytest.raises(SystemExit, match=r"without any mutant: tests/core/test_two\.py"):
        main(["run", "core", "--no-spark"], toy)


def test_a_process_in_which_no_test_begins_is_ended(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = Copy(toy, tmp_path_factory.mktemp("copies") / "one", Namespace(timeout=-1))
    reader = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    copy.process = subprocess.Popen(reader, stdin=subprocess.PIPE, start_new_session=True)
    assert copy.wait(copy.process, toy / "pyproject.toml") is None
    copy.end()
    assert copy.process.returncode == -signal.SIGKILL


def test_a_process_that_was_ended_from_outside_is_no_result(toy: Path) -> None:
    imports = "import os, signal\nfrom sash.core.two import known\n\n\n"
    write(toy, "tests/core/test_two.py", imports + "def test_a():\n    os.kill(os.getpid(), signal.SIGTERM)\n")
    with pytest.raises(SystemExit, match="the same command goes on from here"):
        main(["run", "core", "--count", ONE_EACH, "--no-spark"], toy)
    assert outcomes(toy) == {}


def test_a_map_is_made_and_used(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("coverage")
    write(toy, "tests/core/test_broken.py", "def test_broken():\n    assert not 'now'\n")
    main(["map"], toy)
    assert "left out of runs: tests/core/test_broken.py::test_broken" in capsys.readouterr().out
    main(["run", "core", "--no-spark"], toy)
    lines = (toy / "build" / "mutants" / "1.jsonl").read_text().splitlines()
    killed = next(result for result in map(json.loads, lines) if result["id"] == KILLED)
    assert (killed["stage"], killed["by"]) == ("plain line", "tests/core/test_two.py::test_known")
    assert outcomes(toy)[SURVIVOR] == "survived without spark"


def test_errors_name_the_way_out(toy: Path) -> None:
    with pytest.raises(SystemExit, match="no package cor; there are core, plan, "):
        main(["run", "cor"], toy)
    with pytest.raises(SystemExit, match=r"1\.jsonl: `mutants\.py run` writes them"):
        main(["report"], toy)
