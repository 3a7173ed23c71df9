"""Charts of a query's answers, by matplotlib.

a number                     ──► a line over as_of
a number for each group      ──► a line for each group, of those that are greatest at the end
one answer, or a list (TOP)  ──► bars: the items of the list differ from answer to answer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sash.core.errors import SashError, missing_extra, nearest
from sash.runtime.answers.answer import Answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 8
MOST_BARS = 20


def plot_answers(
    name: str,
    is_list: bool,
    answers: Sequence[Answer],
    keys: list[str],
    numbers: list[str],
    column: str | None,
    ax: Axes | None,
) -> Axes:
    """`keys` are the columns that identify a row, `numbers` the columns to draw: `column`, or the first of them."""
    if not answers:
        raise SashError(f"query '{name}' has no answer yet to plot")
    chosen = _chosen(name, numbers, column)
    keys = [key for key in keys if key != chosen]
    ax = _axes() if ax is None else ax
    if keys and (len(answers) == 1 or is_list):
        note = _draw_bars(ax, answers[-1], keys, chosen)
    else:
        note = _draw_lines(ax, answers, keys, chosen)
    ax.set_ylabel(chosen)
    ax.set_title(name + note)
    return ax


def _chosen(name: str, numbers: list[str], column: str | None) -> str:
    if not numbers:
        raise SashError(f"query '{name}' has no column of numbers to plot")
    if column is None:
        return numbers[0]
    found = next((each for each in numbers if each.lower() == column.lower()), None)
    if found is None:
        raise SashError(f"query '{name}' has no column of numbers '{column}'{nearest(column, numbers)}")
    return found


def _axes() -> Axes:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise missing_extra("plot()", "matplotlib", "notebook") from None
    axes: Axes = pyplot.subplots()[1]
    return axes


def _draw_bars(ax: Axes, answer: Answer, keys: list[str], column: str) -> str:
    rows = _numbers(answer, keys, column)
    shown = dict(list(rows.items())[:MOST_BARS])
    ax.bar(range(len(shown)), list(shown.values()))
    ax.set_xticks(range(len(shown)), list(shown), rotation=45, ha="right")
    ax.set_xlabel(", ".join(keys))
    return f" as of {answer.as_of:%Y-%m-%d %H:%M:%S} UTC{_left_out(len(shown), len(rows))}"


def _draw_lines(ax: Axes, answers: Sequence[Answer], keys: list[str], column: str) -> str:
    times: list[Any] = [answer.as_of for answer in answers]
    values = [_numbers(answer, keys, column) for answer in answers]
    last: dict[str, float] = {}
    for each in values:
        last |= each
    shown = sorted(last, key=lambda key: last[key], reverse=True)[:MOST_LINES]
    for key in shown:
        # An answer without a group leaves a gap in the group's line.
        ax.plot(
            times, [each.get(key, float("nan")) for each in values], label=key, marker="." if len(times) < 30 else ""
        )
    if keys:
        ax.legend(title=", ".join(keys))
    ax.set_xlabel("as of (UTC)")
    ax.tick_params("x", rotation=30)
    return _left_out(len(shown), len(last))


def _left_out(shown: int, all: int) -> str:
    return "" if shown == all else f" ({shown} of {all:,})"


def _numbers(answer: Answer, keys: list[str], column: str) -> dict[str, float]:
    """The number of each group that has one."""
    names = [answer.table[key].to_pylist() for key in keys]
    labels = [", ".join(map(str, label)) for label in zip(*names, strict=True)] if keys else [""] * len(answer.table)
    values = answer.table[column].to_pylist()
    return {label: float(value) for label, value in zip(labels, values, strict=True) if value is not None}
