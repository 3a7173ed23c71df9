"""Changes the source in one place at a time and asks whether a test fails: a mutation tester.

    python tools/mutants.py list [PACKAGE ...]      the mutants that a run would try
    python tools/mutants.py map                     records which test executes which line: runs become much shorter
    python tools/mutants.py run [PACKAGE ...]       tries the mutants, and goes on where an earlier run was stopped
    python tools/mutants.py report                  how many were killed, and the survivors

A mutant is tried in stages until a test fails, first with the tests without a JVM, then with the others. Where the map
has tests that execute the mutant's lines:

    line         the nearest of these tests
    files        the rest of the files of all these tests, because a fixture or a cache may run a line for one test and
                 hand the value to the next

Elsewhere, and for lines that run at import, in Numba's kernels or in other processes, where the map sees no test:

    nearest      the first few files of what follows
    direct       files that import the mutant's module
    transitive   files that reach it through other modules, nearest first
    rest         all other files

Each mutant is written into a copy of the tree in a temporary folder; the tree itself is only read. A mutant that cannot
change any behaviour has its reason in tools/equivalent_mutants.toml, and does not count.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import heapq
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # for `python tools/mutants.py`, which looks for modules in tools/ only

from tools.mutants_plugin import function_of  # noqa: E402
from tools.mutations import PACKAGES, Mutant, choose, package_of  # noqa: E402

KILLED, TIMED_OUT, EQUIVALENT = "killed", "killed by timeout", "equivalent"
SURVIVED, UNDECIDED = "survived", "survived without spark"
NO_TESTS = 5  # pytest's exit code
FEW_FILES = 8  # of the stage "nearest": pytest imports all files of a stage before it runs the first test
MOST_TESTS = 200  # of the stage "line"
Lines = dict[str, dict[int, list[str]]]  # file: line: tests


# --- which tests -----------------------------------------------------------------------------------------------------


class Suite:
    """The test files of a tree, and how near each is to a module: read from the imports, nothing is run."""

    def __init__(self, root: Path) -> None:
        folders = ("src", "tests", "benchmarks", "papers", "tools")
        paths = [path for folder in folders for path in (root / folder).rglob("*.py")]
        self.texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}
        self.files = [path for path in self.texts if Path(path).name.startswith("test_")]
        self.names = {module_name(path): path for path in self.texts}
        self.importers: dict[str, set[str]] = defaultdict(set)
        imports = {path: set(self._imports(path)) for path in self.texts}
        for path in self.texts:
            folders = list(Path(path).parents)[:-2]  # tests/conftest.py belongs to every test, and orders none
            for source in (path, *(f"{folder}/conftest.py" for folder in folders)):
                for imported in imports.get(source, ()):
                    self.importers[imported].add(path)
        self.distances = cache(self._distances)

    def _imports(self, path: str) -> Iterator[str]:
        """Files that a file imports, or whose module it names in a string, to import it later or in a process."""
        for node in ast.walk(ast.parse(self.texts[path])):
            match node:
                case ast.Import(names=aliases):
                    names = [alias.name for alias in aliases]
                case ast.ImportFrom(module=str(module), names=aliases):
                    names = [f"{module}.{alias.name}" for alias in aliases]
                    names = [name if name in self.names else module for name in names]
                case ast.Constant(value=str(name)):
                    names = [name]
                case _:
                    continue
            yield from (self.names[name] for name in names if name in self.names)

    def _distances(self, path: str) -> dict[str, int]:
        """Imports between each file and the module at `path`; a package's `__init__` hands on and is not counted."""
        found: dict[str, int] = {}
        heap = [(0, path)]
        while heap:
            distance, at = heapq.heappop(heap)
            if at not in found:
                found[at] = distance
                for importer in self.importers[at]:
                    heapq.heappush(heap, (distance + (not importer.endswith("__init__.py")), importer))
        return found

    def nearest(self, path: str, files: Iterable[str]) -> list[str]:
        """Files by their distance from the module at `path`; of equals first those of its name, then of its package."""
        distances, name, folder = self.distances(path), f"test_{Path(path).name}", f"tests/{package_of(path)}/"

        def rank(file: str) -> tuple[int, bool, bool, str]:
            return distances.get(file, 99), Path(file).name != name, not file.startswith(folder), file

        return sorted(files, key=rank)


def module_name(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def file_of(test: str) -> str:
    return test.partition("::")[0]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class LineMap:
    """Which tests execute which line.

    The data are the digests of all files, and for the tests without ("plain") and with a JVM ("spark") what `packed`
    makes of the lines, and the tests that failed without any mutant.
    """

    def __init__(self, data: dict[str, Any], tests: Suite) -> None:
        self.data, known = data, data.get("digests", {})
        self.changed = {path for path, text in tests.texts.items() if data and known.get(path) != digest(text)}

    def executing(self, mutant: Mutant, half: str) -> set[str]:
        """Tests that execute a line of the mutant; none if the map cannot tell."""
        if half not in self.data or mutant.unseen or mutant.path in self.changed:
            return set()
        part = self.data[half]
        lines = part["lines"].get(mutant.path, {})
        sets = {lines[str(line)] for line in mutant.lines if str(line) in lines}
        return {part["tests"][test] for index in sets for test in part["sets"][index]}

    def failed(self, half: str) -> tuple[str, ...]:
        return tuple(self.data.get(half, {}).get("failed", ()))

    def passed(self) -> set[str]:
        """Functions that pass without any mutant."""
        halves = [half for half in ("plain", "spark") if half in self.data]
        failed = {function_of(test) for half in halves for test in self.failed(half)}
        return {test for half in halves for test in self.data[half]["tests"]} - failed


def packed(parts: Iterable[Lines]) -> dict[str, Any]:
    """Lines with their tests; most lines share their set of tests with others, and a set is written once."""
    merged: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path, lines in (item for part in parts for item in part.items()):
        for line, contexts in lines.items():
            merged[path][line].update(filter(None, contexts))
    tests = sorted({test for each in merged.values() for names in each.values() for test in names})
    number = {test: index for index, test in enumerate(tests)}
    sets: dict[tuple[int, ...], int] = {}
    indexed: dict[str, dict[int, int]] = defaultdict(dict)
    for path, each in merged.items():
        for line, names in ((line, names) for line, names in each.items() if names):
            indexed[path][line] = sets.setdefault(tuple(sorted(map(number.__getitem__, names))), len(sets))
    return {"tests": tests, "sets": list(sets), "lines": indexed}


@dataclass(frozen=True)
class Stage:
    """Tests for one pytest process: all functions in `files`, or only some, without those to skip."""

    name: str
    half: str
    files: list[str]
    skip: tuple[str, ...] = ()
    only: list[str] | None = None


def stages(mutant: Mutant, half: str, tests: Suite, known: LineMap) -> Iterator[Stage]:
    """The tests to run, in the order in which they are likely to fail."""
    distances, failed = tests.distances(mutant.path), known.failed(half)
    files = {each for each in tests.files if half == "plain" or "mark.spark" in tests.texts[each]}
    near = files & distances.keys()
    direct = {each for each in near if distances[each] <= 1}
    if executing := {test for test in known.executing(mutant, half) if file_of(test) in files}:
        order = {file: index for index, file in enumerate(tests.nearest(mutant.path, set(map(file_of, executing))))}
        first = sorted(executing, key=lambda test: (order[file_of(test)], test))[:MOST_TESTS]
        yield Stage("line", half, tests.nearest(mutant.path, set(map(file_of, first))), failed, first)
        # Spark's workers run lines that the map does not see.
        more = near & known.changed | (direct if half == "spark" else set())
        yield Stage("files", half, tests.nearest(mutant.path, order.keys() | more), (*failed, *first))
    else:
        by_distance = tests.nearest(mutant.path, files)
        bounds = (0, FEW_FILES, max(FEW_FILES, len(direct)), max(FEW_FILES, len(near)), len(files))
        for name, (start, end) in zip(("nearest", "direct", "transitive", "rest"), pairwise(bounds), strict=True):
            yield Stage(name, half, by_distance[start:end], failed)


# --- running them ----------------------------------------------------------------------------------------------------


class Copy:
    """A copy of the tree in a folder of its own, in which the tests run with one mutant at a time."""

    def __init__(self, root: Path, folder: Path, options: argparse.Namespace, trusted: Iterable[str] = ()) -> None:
        self.root, self.folder, self.tree, self.options = root, folder, folder / "tree", options
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False
        self.trusted = set(trusted)  # functions that pass without any mutant
        unwanted = shutil.ignore_patterns(".git", ".venv", "build", "dist", ".hypothesis", "*_cache", "out")
        shutil.copytree(root, self.tree, ignore=unwanted, symlinks=True)
        if (root.parent / "shared").exists():
            (folder / "shared").symlink_to((root.parent / "shared").resolve())

    @contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        """The copy has the mutant, and afterwards is as it was."""
        target, original = self.tree / mutant.path, self.root / mutant.path
        # Python tells a changed file by its second and its size, which the mutant may have, too.
        cached = Path(importlib.util.cache_from_source(str(target)))
        target.write_bytes(mutant.source(original.read_bytes()))
        cached.unlink(missing_ok=True)
        try:
            yield
        finally:
            shutil.copy2(original, target)
            cached.unlink(missing_ok=True)

    def killer(self, mutant: Mutant, stage: Stage, own_numba: bool) -> str:
        """The test that fails with the mutant, "" if there is none; a test that always fails does not count."""
        while True:
            with self.holding(mutant):
                failed = self.run(stage, own_numba=own_numba)
            if not failed or not self._fails_anyway(failed[0], stage):
                return failed[0] if failed else ""
            stage = replace(stage, skip=(*stage.skip, failed[0]))

    def _fails_anyway(self, test: str, stage: Stage) -> bool:
        if test.startswith("timeout") or function_of(test) in self.trusted:
            return False
        files = [file_of(test)] if file_of(test) in stage.files else stage.files  # a crash has no file
        failed = self.run(Stage("control", stage.half, files, only=[test]))
        if failed and "::" not in test:
            raise SystemExit(f"without any mutant: {failed[0]}")
        if not failed:
            self.trusted.add(function_of(test))
        return bool(failed)

    def run(self, stage: Stage, stop: bool = True, before: Iterable[str] = (), own_numba: bool = False) -> list[str]:
        """Runs a stage, to the first failure if `stop`; the tests that failed, or why there is no result."""
        told, log = self.folder / "told.json", self.folder / "log.txt"
        told.write_text(json.dumps({"only": stage.only, "skip": stage.skip}))
        command = [sys.executable, *before, "-m", "pytest", "-q", "-p", "mutants_plugin", "-p", "no:cacheprovider"]
        selection = f"{'spark' if stage.half == 'spark' else 'not spark'} and not deep"
        command += ["-m", selection, "--timeout=0", "--hypothesis-seed=0", "-n0", *(["-x"] if stop else [])]
        command += stage.files
        environment = self._environment(told, own_numba)
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=self.tree, env=environment, stdout=out, stderr=out, start_new_session=True
            )
            code = self.wait(self.process, told)
            self.end()
        if self.stopped or code == -signal.SIGTERM:  # no mutant does that, somebody outside did
            raise SystemExit("stopped: the same command goes on from here")
        result = json.loads(told.read_text())
        if result.get("package") != str(self.tree / "src" / "sash"):
            raise SystemExit(f"pytest runs {result.get('package')}, not the copy:\n{log.read_text()[-2000:]}")
        if code is None:
            return [f"timeout: {result['running']}"]
        last = log.read_text(errors="replace").strip().rpartition("\n")[2]
        return list(result["failed"]) or ([] if code in (0, NO_TESTS) else [f"pytest's exit code {code}: {last}"])

    def _environment(self, told: Path, own_numba: bool) -> dict[str, str]:
        # Not the tree itself: tests start processes in folders with a package `benchmarks` of their own.
        paths = [str(self.tree / "src"), str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")]
        more = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "MUTANTS": str(told)}
        if self.options.profile:
            more["HYPOTHESIS_PROFILE"] = self.options.profile
        if own_numba:  # Numba does not notice a change in what a cached kernel calls or reads
            more["NUMBA_CACHE_DIR"] = str(self.folder / "numba")
        return os.environ | more

    def wait(self, process: subprocess.Popen[bytes], told: Path) -> int | None:
        """The exit code; None if for too long no test begins."""
        while True:
            try:
                return process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                if time.time() - told.stat().st_mtime > self.options.timeout:
                    return None

    def end(self) -> None:
        """Ends the process, and what its tests leave behind: servers, victims, a JVM."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Copies:
    """A pool of threads, each with its own copy. Who leaves early ends the processes of all."""

    def __init__(self, root: Path, options: argparse.Namespace, trusted: Iterable[str] = ()) -> None:
        self.own, self.all, self.arguments = threading.local(), list[Copy](), (options, trusted)
        self.root = root
        self.folder = tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True)
        self.pool = ThreadPoolExecutor(options.jobs, initializer=self._copy)

    def _copy(self) -> None:
        folder = Path(self.folder.name).resolve() / str(threading.get_ident())
        self.own.copy = Copy(self.root, folder, *self.arguments)
        self.all.append(self.own.copy)

    def __enter__(self) -> Copies:
        self.before = signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped: the same command goes on from here"))
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        for copy in self.all:
            copy.stopped = True
            copy.end()
        self.pool.shutdown()
        signal.signal(signal.SIGTERM, self.before)
        self.folder.cleanup()


def attempt(mutant: Mutant, halves: Iterable[str], copies: Copies, tests: Suite, known: LineMap) -> dict[str, Any]:
    """Runs the stages of one mutant until a test fails."""
    copy: Copy = copies.own.copy
    began, original = time.monotonic(), (copies.root / mutant.path).read_bytes()
    result: dict[str, Any] = {"id": mutant.id, "package": mutant.package, "at": f"{mutant.path}:{mutant.line}"}
    outcome = SURVIVED if "spark" in halves else UNDECIDED if halves else EQUIVALENT
    result |= {"diff": mutant.diff(original), "outcome": outcome, "by": ""}
    for stage in (stage for half in halves for stage in stages(mutant, half, tests, known) if stage.files):
        if by := copy.killer(mutant, stage, own_numba=mutant.unseen or b"njit" in original):
            outcome = TIMED_OUT if by.startswith("timeout") else KILLED
            result |= {"outcome": outcome, "by": by, "stage": f"{stage.half} {stage.name}"}
            break
    shutil.rmtree(copy.folder / "numba", ignore_errors=True)
    return result | {"seconds": round(time.monotonic() - began, 1)}


def to_try(options: argparse.Namespace, root: Path) -> Iterator[tuple[Mutant, tuple[str, ...]]]:
    """The mutants that have no result yet, with the halves of the tests that remain."""
    results, equivalent = read_results(options.results), read_equivalent(root)
    halves = ("plain",) if options.no_spark else ("plain", "spark")
    for mutant in choose(root, options.packages, options.count, options.seed):
        before = results.get(mutant.id, {})
        if before.get("diff") != mutant.diff((root / mutant.path).read_bytes()):
            yield mutant, () if mutant.id in equivalent else halves
        elif before["outcome"] in (SURVIVED, UNDECIDED) and options.survivors:
            yield mutant, halves
        elif before["outcome"] == UNDECIDED and not options.no_spark:
            yield mutant, ("spark",)


def run(options: argparse.Namespace, root: Path) -> None:
    tests, todo = Suite(root), list(to_try(options, root))
    known = LineMap(json.loads(options.map.read_text()) if options.map.exists() else {}, tests)
    if not known.data:
        print(f"There is no {options.map}: a survivor runs all tests. `mutants.py map` makes one.")
    elif known.changed:
        print(f"{len(known.changed)} files have changed since the map was made; `mutants.py map` makes it anew.")
        print("Until then changed sources go without the map:", *sorted(known.changed)[:5])
    options.results.parent.mkdir(parents=True, exist_ok=True)
    with Copies(root, options, known.passed()) as copies, options.results.open("a") as output:
        waiting = [copies.pool.submit(attempt, *each, copies, tests, known) for each in todo]
        for done, future in enumerate(as_completed(waiting), 1):
            result = future.result()
            output.write(json.dumps(result) + "\n")
            output.flush()
            print(f"{done:>4}/{len(todo)}  {result['outcome']:<22} {result['seconds']:>5.0f} s", end="  ")
            print(result["id"], result["by"], flush=True)
    report(options, root)


def make_map(options: argparse.Namespace, root: Path) -> None:
    if not importlib.util.find_spec("coverage"):
        raise SystemExit("the map needs the package coverage: pip install coverage (the extra dev has it)")
    tests = Suite(root)
    data: dict[str, Any] = {"digests": {path: digest(text) for path, text in tests.texts.items()}}
    options.timeout = float("inf")  # a process that is killed leaves no lines behind
    with Copies(root, options) as copies:
        for half in ("plain", "spark") if options.spark else ("plain",):
            print(f"{half}: running {len(tests.files)} files once under coverage ...", flush=True)
            began = time.monotonic()
            parts = [Stage(f"map{job}", half, tests.files[job :: options.jobs]) for job in range(options.jobs)]
            measured = list(copies.pool.map(lambda part: measure(copies.own.copy, part), parts))
            failed = [test for some, _ in measured for test in some]
            if broken := [test for test in failed if test.startswith("pytest's exit code")]:
                raise SystemExit(f"no map, because the tests did not come to their end: {broken[0]}")
            data[half] = packed(lines for _, lines in measured) | {"failed": failed}
            print(f"{half}: {len(data[half]['tests'])} test functions, {time.monotonic() - began:.0f} s")
            print("failed without any mutant, and are left out of runs:", *failed or ["none"], flush=True)
            options.map.parent.mkdir(parents=True, exist_ok=True)
            options.map.write_text(json.dumps(data))  # runs may begin with the first half


def measure(copy: Copy, stage: Stage) -> tuple[list[str], Lines]:
    """Runs the tests under coverage: those that failed, and the lines that each executed."""
    import coverage  # type: ignore[import-not-found, unused-ignore]

    store = coverage.CoverageData(str(copy.folder / f"{stage.name}.coverage"))
    where = [f"--source={copy.tree / 'src' / 'sash'}", f"--data-file={store.data_filename()}"]
    failed = copy.run(stage, stop=False, before=["-m", "coverage", "run", *where])
    store.read()
    paths = {path: Path(path).relative_to(copy.tree).as_posix() for path in store.measured_files()}
    return failed, {relative: store.contexts_by_lineno(path) for path, relative in paths.items()}


# --- the results -----------------------------------------------------------------------------------------------------


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """The last result of each mutant."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {result["id"]: result for result in map(json.loads, lines)}


def read_equivalent(root: Path) -> dict[str, str]:
    path = root / "tools" / "equivalent_mutants.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def report(options: argparse.Namespace, root: Path) -> None:
    """A table by package, then every survivor."""
    results, equivalent = list(read_results(options.results).values()), read_equivalent(root)
    if not results:
        raise SystemExit(f"no results in {options.results}: `mutants.py run` writes them")
    print(f"\n{'package':<14}{'mutants':>8}{'equivalent':>12}{'killed':>8}{'killed %':>10}")
    for package in (*PACKAGES, "all"):
        tried = [each for each in results if package in (each["package"], "all")]
        judged = [each for each in tried if each["id"] not in equivalent]
        killed = sum(each["outcome"] in (KILLED, TIMED_OUT) for each in judged)
        share = f"{100 * killed / len(judged):.1f}" if judged else "-"
        print(f"{package:<14}{len(tried):>8}{len(tried) - len(judged):>12}{killed:>8}{share:>10}")
    for each in (each for each in results if each["outcome"] not in (KILLED, TIMED_OUT)):
        print(f"\n{each['at']}  {each['outcome']}  {each['id']}\n{each['diff']}")
        print(f"equivalent: {equivalent[each['id']]}" if each["id"] in equivalent else "no reason given")


def show(options: argparse.Namespace, root: Path) -> None:
    for mutant in choose(root, options.packages, options.count, options.seed):
        print(f"{mutant.path}:{mutant.line}  {mutant.id}\n{mutant.diff((root / mutant.path).read_bytes())}")


# --- the command line ------------------------------------------------------------------------------------------------


def parser(root: Path) -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    added = {}
    for name, function, text in (
        ("list", show, "print the mutants"),
        ("map", make_map, "record which test executes which line"),
        ("run", run, "try the mutants that have no result yet, then report"),
        ("report", report, "print the table and the survivors"),
    ):
        added[name] = commands.add_parser(name, help=text, description=text)
        added[name].set_defaults(function=function, packages=PACKAGES)
        added[name].add_argument("--seed", type=int, default=1, help="other seeds, other mutants (%(default)s)")
        added[name].add_argument("--results", type=Path, help="JSON lines (build/mutants/SEED.jsonl)")
    for each in (added["list"], added["run"]):
        each.add_argument("packages", nargs="*", metavar="PACKAGE", help="of src/sash: " + " ".join(PACKAGES))
        each.add_argument("--count", type=int, default=200, help="over all packages; some packages try their share")
    for each in (added["map"], added["run"]):
        path = root / "build" / "mutants" / "map.json"
        each.add_argument("--map", type=Path, default=path, help="which test executes which line (%(default)s)")
        each.add_argument("--jobs", type=int, default=1, help="processes, each with a copy of the tree (%(default)s)")
        each.add_argument("--profile", help="HYPOTHESIS_PROFILE of the tests")
    added["map"].add_argument("--spark", action="store_true", help="also for the tests with a JVM")
    added["run"].add_argument("--no-spark", action="store_true", help="leave the tests with a JVM to a later run")
    added["run"].add_argument("--survivors", action="store_true", help="try survivors again: there are new tests")
    added["run"].add_argument("--timeout", type=float, default=300, help="seconds for one test (%(default)s)")
    return top


def main(arguments: list[str] | None = None, root: Path = ROOT) -> None:
    options = parser(root).parse_args(arguments)
    options.packages = options.packages or PACKAGES
    if unknown := set(options.packages) - set(PACKAGES):
        raise SystemExit(f"no package {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    with_jvm = not getattr(options, "no_spark", True) or getattr(options, "spark", False)
    if with_jvm and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise SystemExit("Spark needs Java: export JAVA_HOME=$(tools/java.sh), or go without those tests (--no-spark)")
    options.results = options.results or root / "build" / "mutants" / f"{options.seed}.jsonl"
    options.function(options, root)


if __name__ == "__main__":
    main()
