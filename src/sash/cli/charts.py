"""Bars and curves made of characters, and numbers short enough to stand beside them."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS_UP = " ▁▂▃▄▅▆▇█"
_EIGHTHS_RIGHT = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int) -> str:
    """A horizontal bar, exact to an eighth of a character.

    >>> bar(0.5, 3), bar(1.0, 3)
    ('█▌ ', '███')
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS_RIGHT[rest] if rest else "")).ljust(width)


def curve(values: Sequence[float], width: int, height: int, step: int = 1) -> list[str]:
    """A chart of the newest values, the last at the right; each value is `step` characters wide.

    >>> curve([1, 2, 4], width=4, height=2)
    ['   █', ' ▄██']
    """
    shown = list(values)[-(width // step) :]
    top = max(shown, default=0) or 1
    eighths = [round(value / top * height * 8) for value in shown]
    rows = []
    for level in reversed(range(height)):
        row = "".join(_EIGHTHS_UP[max(0, min(8, each - 8 * level))] * step for each in eighths)
        rows.append(row.rjust(width))
    return rows


def short(number: float, unit: str = "") -> str:
    """Three digits and a prefix.

    >>> short(16_400_000, "B/s"), short(950), short(20_000)
    ('16.4 MB/s', '950', '20.0 k')
    """
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            value = number / size
            return f"{value:.0f} {prefix}{unit}" if value >= 100 else f"{value:.1f} {prefix}{unit}"
    return f"{number:.0f} {unit}".rstrip()
