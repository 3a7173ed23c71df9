"""Draws which queries are executed when, together, early and late, under each policy; and the table beside them.

    python -m papers.scheduling.draw_schedules   docs/figures/schedules_calm.svg, _overload.svg; prints the table

The seven queries are those of the thesis (8.4.3), MAX over windows of 5 to 30 minutes, and the pictures are in the
manner of its figure 8.6. The schedulers are Sash's own, against the virtual clock of `sash.schedule.simulate`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sash.schedule import LocalScheduler, ScheduledTask, joint_cost, latencies, policy, simulate, throughput
from sash.schedule.simulate import SimulatedRun

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
MINUTE = 60
QUERIES = {"Q1": (10, 2), "Q2": (5, 2), "Q3": (6, 2), "Q4": (15, 3), "Q5": (12, 3), "Q6": (20, 5), "Q7": (30, 5)}
ROWS = {2: "SLIDE 2\nQ1 Q2 Q3", 3: "SLIDE 3\nQ4 Q5", 5: "SLIDE 5\nQ6 Q7"}
CALM = ("no-sharing", "conservative", "aggressive", "hybrid")
LATE = (
    "conservative",
    "conservative-late",
    "conservative-late-pending",
    "hybrid",
    "hybrid-late",
    "hybrid-late-pending",
)
# Seconds that a comparison takes in the overload: conservative wants 11.93 of them per minute, 1.5 times what there is.
SLOW = 7.5
LONG = 3_000 * MINUTE


def comparisons(execution: ScheduledTask) -> int:
    """One scan answers all windows: as many comparisons as the longest takes (8.4.4)."""
    return joint_cost((QUERIES[query][0] for query in execution.members), s=1)


def runs_of(name: str, seconds_per_comparison: float, until: int) -> list[SimulatedRun]:
    scheduler = LocalScheduler(policy(name))
    for query, (window, slide) in QUERIES.items():
        scheduler.add(query, "max", slide * MINUTE, now=0, access=window - 1)
    return simulate(
        {"packets": scheduler},
        lambda _, execution: round(seconds_per_comparison * comparisons(execution)),
        s=MINUTE,
        until=until,
    )


@dataclass(frozen=True)
class Figures:
    """What a policy does over a long time."""

    answers: float
    comparisons: float
    lateness: float


def measured(name: str, seconds_per_comparison: float) -> Figures:
    runs = runs_of(name, seconds_per_comparison, LONG)
    slides = {query: slide * MINUTE for query, (_, slide) in QUERIES.items()}
    late = [updates for each in latencies(runs, slides, MINUTE).values() for updates in each]
    minutes = LONG / MINUTE
    scanned = sum(comparisons(run.execution) for run in runs)
    return Figures(throughput(runs, LONG) * MINUTE, scanned / minutes, sum(late) / len(late))


def table() -> str:
    """The table of docs/scheduling.md."""
    lines = [
        "| policy | calm: answers per minute | comparisons per minute | overload: answers per minute | minutes late |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys((*CALM, *LATE)):
        calm, busy = measured(name, 0), measured(name, SLOW)
        lines.append(
            f"| `{name}` | {calm.answers:.2f} | {calm.comparisons:.2f} | {busy.answers:.2f} | {busy.lateness:.2f} |"
        )
    return "\n".join(lines)


def draw(names: tuple[str, ...], seconds_per_comparison: float, path: Path, minutes: int = 31) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    settings: Any = {"svg.hashsalt": "sash", "font.size": 9, "font.family": "sans-serif", "svg.fonttype": "none"}
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(len(names), 1, figsize=(10, 1.55 * len(names)), sharex=True)
        for axis, name in zip(axes, names, strict=True):
            for run in runs_of(name, seconds_per_comparison, minutes * MINUTE):
                draw_run(axis, run, calm=seconds_per_comparison == 0)
            axis.set_title(name, loc="left", fontsize=9, fontweight="bold")
            axis.set_yticks(range(3), ROWS.values(), fontsize=7)
            axis.set_ylim(2.6, -0.6)
            axis.set_xlim(0, minutes)
            axis.set_xticks(range(0, minutes, 2))
            axis.grid(axis="x", color="0.9", linewidth=0.6)
            axis.spines[["top", "right", "left"]].set_visible(False)
        axes[-1].set_xlabel("minutes")
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})


def draw_run(axis: Any, run: SimulatedRun, *, calm: bool) -> None:
    """One execution: a mark for each sub-group in it, and a line between those that share a scan."""
    rows = [list(ROWS).index(due.task.key.slide // MINUTE) for due in run.execution.tasks]
    start, took = run.start / MINUTE, (run.end - run.start) / MINUTE
    # No-sharing has one execution per sub-group at the same instant: a line would say that they share.
    axis.plot([start, start], [min(rows), max(rows)], color="#00796b", linewidth=2.2, alpha=0.55, zorder=1)
    for row, due in zip(rows, run.execution.tasks, strict=True):
        if calm:
            own = run.execution.as_of % due.task.key.slide == 0
            face = "#00796b" if own else "white"
            axis.plot(start, row, "o", color="#00796b", markerfacecolor=face, markersize=6.5, zorder=2)
        else:
            color = "#00796b" if due.d(MINUTE) >= 0 else "#d84315"
            axis.barh(row, took, left=start, height=0.5, color=color, edgecolor="white", linewidth=0.5, zorder=2)


def main() -> int:
    draw(CALM, 0, FIGURES / "schedules_calm.svg", minutes=31)
    draw(LATE, SLOW, FIGURES / "schedules_overload.svg", minutes=41)
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
