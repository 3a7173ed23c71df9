"""The ledger: its file, its parts without an engine behind them, its picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import draw_ledger, ledger, run_ledger
from benchmarks.ledger import COLUMNS, LINES, append, fallen, ratios, read
from benchmarks.run_ledger import PARTS, main, measured, row_of

CONDITIONS = {
    "commit": "abc",
    "date": "2026-01-02T03:04Z",
    "cores": "2",
    "load": "0.10",
    "spark": "4.3.0",
    "python": "3.11.2",
    "seconds": "600",
    "tuples": "w1_5s 12000000; w1_20s 24000000; native_1 4000000; native_40 1000000; rescan 6000000",
    "note": 'a "note", with a comma',
}
RATIOS = {line.column for line in LINES if line.over}
FIGURES = {name: 1_000.0 + 7 * place for place, name in enumerate(COLUMNS) if name not in RATIOS}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.csv"


class TestFile:
    def test_an_absent_file_has_no_rows(self, path: Path) -> None:
        assert read(path) == []

    def test_rows_are_read_as_they_were_appended(self, path: Path) -> None:
        rows = [row_of(FIGURES, CONDITIONS), row_of({}, {**CONDITIONS, "commit": "def"})]
        for row in rows:
            append(path, row)
        assert read(path) == rows
        assert len(path.read_text().splitlines()) == 3

    def test_a_header_alone_has_no_rows(self, path: Path) -> None:
        path.write_text("commit,date,join\n")
        assert read(path) == []
        append(path, {"commit": "abc", "date": "today", "join": "2"})
        assert path.read_text() == "commit,date,join\nabc,today,2\n"

    def test_a_later_column_is_empty_in_older_rows(self, path: Path) -> None:
        append(path, {"commit": "abc", "join": "2"})
        append(path, {"commit": "def", "young": "3", "join": "4"})
        assert path.read_text() == "commit,join,young\nabc,2,\ndef,4,3\n"

    def test_a_column_that_is_no_longer_measured_stays(self, path: Path) -> None:
        append(path, {"commit": "abc", "old": "2"})
        append(path, {"commit": "def"})
        assert [row["old"] for row in read(path)] == ["2", ""]


class TestRow:
    def test_ratios_are_of_figures_of_the_row(self) -> None:
        row = row_of({"join_spark_s": 85.0, "join_sash_s": 20.0, "question_ms": 1.23456}, CONDITIONS)
        assert (row["join"], row["join_spark_s"], row["question_ms"]) == ("4.25", "85", "1.235")
        assert row["native_1"] == row["native_w1_1_5s"] == ""

    def test_every_column_of_a_whole_row_is_filled(self) -> None:
        assert all(row_of(FIGURES, CONDITIONS).values())

    def test_what_fell_by_more_than_a_quarter(self) -> None:
        """Ratios may fall to three quarters, times grow to four thirds; figures of one row only are not compared."""
        columns = ("native_1", "join", "question_ms", "decision_us", "w1_240_5s")
        before = dict(zip(columns, ("4", "4", "3", "30", ""), strict=True), commit="abc")
        after = dict(zip(columns, ("2.9", "3", "4.1", "40", "0.1"), strict=True), commit="def")
        native, asked = fallen(before, after)
        assert native == "W1: Sash against native Spark, 1 query, 5 s: 4 times in abc, 2.9 times now"
        assert asked == "one-time question, median: 3 ms in abc, 4.1 ms now"


class Session:
    def stats(self) -> dict[str, int]:
        return {"tuples": 1_000}

    def query(self, text: str) -> None:
        assert text.startswith("SELECT")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def without_engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No engine runs: each answers with a rate or a time of its own."""

    @contextmanager
    def drained(texts: list[str], files: list[Path], files_per_batch: int) -> Iterator[tuple[Session, float]]:
        yield Session(), 1.0 + len(texts) * files_per_batch

    monkeypatch.setattr(run_ledger, "commit", lambda: "abc")
    monkeypatch.setattr(run_ledger, "OUT", tmp_path)
    monkeypatch.setattr(run_ledger, "WINDOWS_DATA", ("packets", 2, 10, 48))
    monkeypatch.setattr(run_ledger, "JOIN_DATA", ("pairs", 2, 10, 3))
    monkeypatch.setattr(run_ledger, "drained", drained)
    monkeypatch.setattr(run_ledger, "run_native", lambda form, queries, files, _: {"tuples_per_s": len(files)})
    monkeypatch.setattr(run_ledger, "run_rescan", lambda form, queries, files: {"tuples_per_s": len(files)})
    monkeypatch.setattr(
        run_ledger.run_continuous, "compared", lambda task, engines, _: [{"seconds": 2}, {"seconds": 9}]
    )
    monkeypatch.setattr(run_ledger.run_scale, "wide_session", Session)
    tenths = {"first_tenth_ms": 1.0, "last_tenth_ms": 2.0, "registration_ms": 1.5}
    monkeypatch.setattr(run_ledger.run_scale, "registration", lambda session, queries: tenths)
    monkeypatch.setattr(run_ledger, "REGISTERED", 10)


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch, path: Path) -> Path:
    """The ledger's file, in another place."""
    monkeypatch.setattr(ledger, "LEDGER", path)
    return path


@pytest.mark.usefixtures("without_engines")
class TestParts:
    def test_all_parts_together_measure_all_that_the_ledger_follows(self) -> None:
        figures, failed = measured(PARTS, 1)
        assert failed == []
        assert {**figures, **ratios(figures)}.keys() == set(COLUMNS)

    def test_each_engine_has_its_share_of_the_files(self) -> None:
        native = PARTS["native"](1)
        assert native == {"native_w1_1_5s": 8, "native_w1_40_5s": 2}
        assert "native_40 20;" in run_ledger.tuples_used(1)

    def test_native_spark_has_a_million_tuples_at_most_for_forty_queries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()
        assert run_ledger.FILES["native_40"] * run_ledger.WINDOWS_DATA[2] <= 1_000_000

    def test_a_part_that_fails_is_told_and_the_others_go_on(self, capsys: pytest.CaptureFixture[str]) -> None:
        def ends(_: float) -> dict[str, float]:
            raise SystemExit("the results differ")

        parts = {"bad": ends, "worse": lambda scale: {"join": 1 / 0}, "rescan": PARTS["rescan"]}
        assert measured(parts, 1) == ({"duckdb_w1_240": 12}, ["bad", "worse"])
        told = capsys.readouterr()
        assert (
            "bad failed: SystemExit: the results differ" in told.err and "worse failed: ZeroDivisionError" in told.err
        )
        assert "[3/3] rescan" in told.err and told.out == "duckdb_w1_240: 12\n"

    def test_a_ratio_is_told_as_soon_as_both_its_figures_are_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        measured({name: PARTS[name] for name in ("w1_5s", "rescan")}, 1)
        told = capsys.readouterr().out.splitlines()
        assert [line.partition(":")[0] for line in told[-2:]] == ["duckdb_w1_240", "rescan_240"]


@pytest.mark.usefixtures("without_engines")
class TestCommand:
    def test_a_whole_run_adds_a_row(self, book: Path) -> None:
        assert main(["--note", "faster"]) == 0
        (row,) = read(book)
        assert row["note"] == "faster" and row["tuples"].startswith("w1_5s 240; ") and all(row.values())

    @pytest.mark.parametrize("arguments", [["--dry"], ["--parts", "rescan", "join"], ["--scale", "0.5"]])
    def test_others_print_only(self, arguments: list[str], book: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(arguments) == 0
        assert "duckdb_w1_240: " in capsys.readouterr().out and not book.exists()

    def test_changed_files_are_not_measured_for_the_ledger(self, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run_ledger, "commit", lambda: "abc-dirty")
        assert main([]) == 2 and not book.exists()
        assert main(["--parts", "rescan"]) == 0

    def test_a_failure_is_an_empty_cell_and_an_exit_code(self, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(PARTS, "join", lambda scale: {"join_sash_s": 1 / 0})
        assert main([]) == 1
        (row,) = read(book)
        assert row["join"] == row["join_sash_s"] == "" and row["rescan_240"]

    def test_what_fell_since_the_last_row_is_told(self, book: Path, capsys: pytest.CaptureFixture[str]) -> None:
        append(book, {"commit": "abc", "join": "9"})
        main([])
        assert "fell by more than a quarter: join of two" in capsys.readouterr().err


class TestDrawing:
    def test_the_picture_has_every_line(self, tmp_path: Path) -> None:
        rows = [row_of(figures, CONDITIONS) for figures in (FIGURES, {}, FIGURES)]
        drawn = draw_ledger.picture(rows, tmp_path / "ledger.svg").read_text()
        assert all(line.what.split(":")[0].split(",")[0] in drawn for line in LINES)
        assert drawn == draw_ledger.picture(rows, tmp_path / "again.svg").read_text()
