"""Draws the ledger and writes its last row into the documentation: `python -m benchmarks.draw_ledger`

README.md, docs/benchmarks.md and docs/comparison.md have one block each between `<!-- figures -->` and
`<!-- /figures -->`. The blocks are made here, from the last row of benchmarks/ledger.csv alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.ledger import LEDGER, LINES, Line, Row, figure, read, table

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "ledger.svg"
BLOCK = re.compile(r"(?<=<!-- figures -->\n\n).*?(?=\n\n<!-- /figures -->)", re.DOTALL)
BY_COLUMN = {line.column: line for line in LINES}
NUMBERS = (1, 40, 240, 1_000)
# By number of queries.
RATES = {
    "Sash, micro-batches of 20 s of data": "sash_w1_{}_20s",
    "Sash, micro-batches of 5 s of data": "sash_w1_{}_5s",
    "native Spark, N streaming queries with `window()`": "native_w1_{}_5s",
    "DuckDB, the window scanned again at each slide, no streaming": "duckdb_w1_{}",
}
# The panels of the picture: the units of the lines, and the scale of the axis.
PANELS = {("%",): "linear", ("times",): "log", ("s", "ms", "µs"): "log"}


def measured_at(row: Row) -> str:
    tuples = dict(each.split(" ") for each in row["tuples"].split("; "))
    packets = {use: f"{int(tuples[use]):,}" for use in ("w1_5s", "w1_20s", "native_1", "native_40", "rescan")}
    return (
        f"Packets: Sash {packets['w1_5s']} (5 s) and {packets['w1_20s']} (20 s), native Spark {packets['native_1']} "
        f"(N = 1) and {packets['native_40']} (N = 40), DuckDB {packets['rescan']}; the rate counts. "
        f"Commit {row['commit']}, {row['date'].partition('T')[0]}, {row['cores']} cores, "
        f"Spark {row['spark']}, Python {row['python']}, load average {row['load']} at the start."
    )


def readme(row: Row) -> str:
    """Rates by engine and number of queries, and the ratios that README.md claims."""
    body = [[engine, *(figure(row, column.format(n)) for n in NUMBERS)] for engine, column in RATES.items()]
    shown = {column: line.shown(row) for column, line in BY_COLUMN.items()}
    return f"""{table(["engine", *(f"N = {n:,}" for n in NUMBERS)], body)}

`SELECT src, SUM(length), COUNT(*) .. GROUP BY src` over 1,000 sources, windows of 20 to 100 s. The engines \
read [different numbers of packets](docs/benchmarks.md#the-ledger); the rate counts.

- Of the rate of one query, 240 queries keep {shown["w1_240_5s"]} and 1,000 keep {shown["w1_1000_5s"]} with \
micro-batches of 5 s, {shown["w1_240_20s"]} and {shown["w1_1000_20s"]} with 20 s.
- Sash has {shown["native_1"]} the rate of native Spark with one query and {shown["native_40"]} with 40 (5 s), and \
{shown["rescan_240"]} that of DuckDB with 240.
- A join of two sub-streams runs {shown["join"]} as fast as Spark's own with state in memory.
- Registering 10,000 queries takes {shown["registration_s"]}, a one-time question {shown["question_ms"]}, a scheduling \
decision {shown["decision_us"]}."""


def benchmarks_page(row: Row) -> str:
    """Every line with the figures that it is made of, and the picture."""
    body = [[line.what, line.shown(row), _figures(line, row)] for line in LINES]
    return f"""{table(["what", "last row", "figures"], body)}

{measured_at(row)} The run took {row["seconds"]} s.

![the ratios of the ledger over commits](figures/{PICTURE.name})"""


def _figures(line: Line, row: Row) -> str:
    return f"{figure(row, line.over)} and {figure(row, line.under)} {line.of}" if line.over else ""


def comparison(row: Row) -> str:
    """Sash beside native Spark."""
    numbers = (1, 40)
    body = [
        ["Sash, micro-batches of 5 s of data", *(figure(row, f"sash_w1_{n}_5s") for n in numbers)],
        ["Spark, N streaming queries with `window()`", *(figure(row, f"native_w1_{n}_5s") for n in numbers)],
        ["Sash against Spark", *(BY_COLUMN[f"native_{n}"].shown(row) for n in numbers)],
    ]
    return table(["", *(f"N = {n}" for n in numbers)], body)


PAGES: dict[str, Callable[[Row], str]] = {
    "README.md": readme,
    "docs/benchmarks.md": benchmarks_page,
    "docs/comparison.md": comparison,
}


def filled(page: str, text: str, rows: Sequence[Row]) -> str:
    """The text of a page with the last row in its block; as it is when there is no row."""
    if len(BLOCK.findall(text)) != 1:
        raise ValueError(f"{page} has not exactly one block between <!-- figures --> and <!-- /figures -->")
    # A function, because a replacement text would have its backslashes read.
    return BLOCK.sub(lambda _: PAGES[page](rows[-1]), text) if rows else text


def picture(rows: Sequence[Row], path: Path) -> Path:
    """A line for each ratio and each time over the commits."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    drawn, panels = plt.subplots(len(PANELS), 1, sharex=True, figsize=(10, 10), layout="constrained")
    for axes, (units, scale) in zip(panels, PANELS.items(), strict=True):
        for line in LINES:
            if line.unit in units:
                values = [line.value(row) for row in rows]
                # Matplotlib leaves a gap where a value is missing.
                points = [float("nan") if value is None else value for value in values]
                label = f"{line.what} ({line.unit}{', less is better' if line.less_is_better else ''})"
                axes.plot(range(len(rows)), points, marker="o", label=label)
        axes.set(ylabel=", ".join(units), yscale=scale)
        axes.grid(True, which="both", alpha=0.3)
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    # Shares of a rate are to be compared with nothing and with all of it.
    panels[0].yaxis.set_major_formatter("{x:.0%}")
    panels[0].set_ylim(bottom=0)
    commits = [f"{row['commit']}\n{row['date'].partition('T')[0]}" for row in rows]
    panels[-1].set_xticks(range(len(rows)), commits, rotation=45)
    # With a fixed salt and no date, the same rows give the same file.
    with mpl.rc_context({"svg.hashsalt": "ledger"}):
        drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)
    return path


def main() -> None:
    rows = read(LEDGER)
    if not rows:
        raise SystemExit('nothing measured yet: make bench ARGS="ledger"')
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(page, path.read_text(encoding="utf-8"), rows), encoding="utf-8")
        print(f"written: {page}")
    print(f"written: {picture(rows, PICTURE).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
