"""The ledger of speed: a row per measured commit, in benchmarks/ledger.csv.

`run_ledger` measures and appends a row, `draw_ledger` draws all rows and writes the last one into the documentation.
A row has figures (tuples per second, seconds), ratios of two figures of the same run, and the conditions of the run
(commit, date, cores, load). An empty cell is a part that failed, or a column that is younger than the row.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LEDGER = Path(__file__).parent / "ledger.csv"
Row = Mapping[str, str]
# A ratio that keeps less than this of its value has fallen by more than a quarter.
KEPT = 0.75


@dataclass(frozen=True)
class Line:
    """A column that is followed over commits. With `over` and `under`, the ratio of these two figures in units `of`."""

    column: str
    what: str
    unit: str
    over: str = ""
    under: str = ""
    of: str = "tuples/s"
    less_is_better: bool = False

    def value(self, row: Row) -> float | None:
        return number(row, self.column)

    def shown(self, row: Row) -> str:
        value = self.value(row)
        if value is None:
            return "-"
        return f"{value:.0%}" if self.unit == "%" else f"{_rounded(value)} {self.unit}"

    def fell(self, before: Row, after: Row) -> bool:
        """Whether the value got worse by more than a quarter."""
        old, new = self.value(before), self.value(after)
        if old is None or new is None:
            return False
        return KEPT * new > old if self.less_is_better else new < KEPT * old


LINES = (
    Line("w1_240_5s", "W1: 240 queries against 1, 5 s", "%", "sash_w1_240_5s", "sash_w1_1_5s"),
    Line("w1_1000_5s", "W1: 1,000 queries against 1, 5 s", "%", "sash_w1_1000_5s", "sash_w1_1_5s"),
    Line("w1_240_20s", "W1: 240 queries against 1, 20 s", "%", "sash_w1_240_20s", "sash_w1_1_20s"),
    Line("w1_1000_20s", "W1: 1,000 queries against 1, 20 s", "%", "sash_w1_1000_20s", "sash_w1_1_20s"),
    Line("w3_240_20s", "W3 against W1 at 240, 20 s", "%", "sash_w3_240_20s", "sash_w1_240_20s"),
    Line("native_1", "W1: Sash against native Spark, 1 query, 5 s", "times", "sash_w1_1_5s", "native_w1_1_5s"),
    Line("native_40", "W1: Sash against native Spark, 40 queries, 5 s", "times", "sash_w1_40_5s", "native_w1_40_5s"),
    Line("rescan_240", "W1: Sash, 5 s, against DuckDB, 240 queries", "times", "sash_w1_240_5s", "duckdb_w1_240"),
    Line("join", "join of two, against Spark with state in memory", "times", "join_spark_s", "join_sash_s", "s"),
    Line(
        "registration_growth",
        "registration: the last thousand of 10,000 queries against the first",
        "times",
        "registration_last_ms",
        "registration_first_ms",
        "ms",
        less_is_better=True,
    ),
    Line("registration_s", "registration of 10,000 queries", "s", less_is_better=True),
    Line("question_ms", "one-time question, median", "ms", less_is_better=True),
    Line("decision_us", "scheduling decision among 10,000 queries, mean", "µs", less_is_better=True),
)
_FIGURES = [name for line in LINES for name in (line.over, line.under) if name]
# Ratios and times first, then the figures that the ratios are made of.
COLUMNS = list(dict.fromkeys([line.column for line in LINES] + _FIGURES))


def number(row: Row, column: str) -> float | None:
    text = row.get(column)
    return float(text) if text else None


def _rounded(value: float) -> str:
    """Three digits: two runs differ in the others."""
    return f"{float(f'{value:.3g}'):,.10g}"


def ratios(figures: Mapping[str, float]) -> dict[str, float]:
    """The ratios whose two figures were measured."""
    return {
        line.column: figures[line.over] / figures[line.under]
        for line in LINES
        if line.over in figures and line.under in figures
    }


def cell(value: float) -> str:
    """A number as the file has it: from a thousand on a whole one, else four digits."""
    return f"{value:.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def read(path: Path) -> list[dict[str, str]]:
    """All rows, the oldest first. Every row has every column."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, restval=""))


def append(path: Path, row: Row) -> None:
    """Add a row. Columns that are new come after the others, and are empty in older rows."""
    rows = [*read(path), row]
    columns = list(dict.fromkeys(column for each in rows for column in each))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def fallen(before: Row, after: Row) -> list[str]:
    """What got worse by more than a quarter, in words."""
    lines = [line for line in LINES if line.fell(before, after)]
    return [f"{line.what}: {line.shown(before)} in {before['commit']}, {line.shown(after)} now" for line in lines]


def table(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *body))


def figure(row: Row, column: str) -> str:
    """A figure as the documentation has it."""
    value = number(row, column)
    return "-" if value is None else _rounded(value)
