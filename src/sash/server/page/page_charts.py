"""Options of ECharts for what the views draw. Colours are readable on white and on black."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

# Text and lines: a grey in the middle, with enough contrast either way.
GREY = "#7b8694"
FAINT = "rgba(123, 134, 148, .25)"
# Distinguishable for people who see few colours, too (Okabe and Ito's, without yellow and black).
PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7b8694", "#8a63d2"]

# Time, value, and whether the value is of a whole window (true by default).
Point = Sequence[Any]
# A number as an axis has room for it: 1.5M. Digits are kept: neighbours on an axis may differ in the last one. NiceGUI
# makes a function of an option whose name begins with a colon.
SHORT = """value => {
  for (const [size, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
    if (Math.abs(value) >= size) return +(value / size).toPrecision(10) + unit;
  return String(+value.toPrecision(10));
}"""
# Pixels of the longest name of a bar, or of a row: longer ones are cut.
_NAME_WIDTH = 180


def axis(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "axisLabel": {"color": GREY, "hideOverlap": True, **({":formatter": SHORT} if kind == "value" else {})},
        "axisLine": {"lineStyle": {"color": FAINT}},
        "splitLine": {"lineStyle": {"color": FAINT}},
        "nameTextStyle": {"color": GREY},
        **more,
    }


def _tooltip(trigger: str) -> dict[str, Any]:
    """A drawn tooltip, no HTML: names of groups are data, and data may be hostile."""
    return {"trigger": trigger, "confine": True, "renderMode": "richText"}


def _base(**more: Any) -> dict[str, Any]:
    return {
        "color": PALETTE,
        "textStyle": {"color": GREY},
        "animation": False,
        "useUTC": True,
        "aria": {"enabled": True},
        "tooltip": _tooltip("axis"),
        **more,
    }


def lines(series: Mapping[str, Iterable[Point]], unit: str = "", *, stacked: bool = False) -> dict[str, Any]:
    """One line per name over time; `series` are points (milliseconds since 1970 or a datetime, value).

    A line is dashed from a point whose window was not whole. A point without neighbours is drawn by itself.
    """
    drawn = [part for name, points in series.items() for part in _line(name, list(points), stacked)]
    many = len(series) > 1
    return _base(
        grid={"left": 8, "right": 28, "top": 52 if many and unit else 36, "bottom": 8, "containLabel": True},
        xAxis=axis("time"),
        yAxis=axis(
            # The unit begins at the axis: in the middle above it, a long one would be cut off.
            "value", name=unit, nameLocation="end", nameTextStyle={"color": GREY, "align": "left"}, scale=not stacked,
        ),
        series=drawn,
        legend={"show": many, "type": "scroll", "textStyle": {"color": GREY}, "top": 0},
    )  # fmt: skip


def _line(name: str, points: list[Point], stacked: bool) -> list[dict[str, Any]]:
    """Series of one name have one colour, and one entry in the legend."""
    is_whole = [len(point) < 3 or bool(point[2]) for point in points]
    after_part = [False, *(not whole for whole in is_whole)]
    area = {"stack": "all", "areaStyle": {"opacity": 0.3}} if stacked else {}
    common = {"name": name, "type": "line", "symbol": "none", **area}
    drawn = [{**common, "data": _data(points, is_whole, "circle")}]
    if not all(is_whole):
        # The dashed line reaches to the first point of a whole window, where the other one begins.
        dashed = [not whole or part for whole, part in zip(is_whole, after_part, strict=False)]
        drawn.append({**common, "lineStyle": {"type": "dashed"}, "data": _data(points, dashed, "emptyCircle")})
    return drawn


def _data(points: list[Point], is_here: list[bool], symbol: str) -> list[Any]:
    values = [point[1] for point in points]
    data: list[Any] = []
    for place, (point, here) in enumerate(zip(points, is_here, strict=True)):
        value = [milliseconds(point[0]), point[1] if here else None]
        is_lone = here and point[1] is not None and not any(
            0 <= beside < len(values) and values[beside] is not None for beside in (place - 1, place + 1)
        )  # fmt: skip
        data.append({"value": value, "symbol": symbol, "symbolSize": 8} if is_lone else value)
    return data


def bars(values: Mapping[str, float | None], unit: str) -> dict[str, Any]:
    """One bar per name, the first on top."""
    names = list(values)
    options = _base(
        tooltip=_tooltip("item"),
        grid={"left": 8, "right": 28, "top": 8, "bottom": 26, "containLabel": True},
        xAxis=axis("value", name=unit, nameLocation="middle", nameGap=26),
        yAxis=axis("category", data=names, inverse=True),
        series=[{"type": "bar", "data": [values[name] for name in names], "barMaxWidth": 22}],
    )
    options["yAxis"]["axisLabel"] |= {"width": _NAME_WIDTH, "overflow": "truncate"}
    return options


def flow(nodes: Sequence[Mapping[str, Any]], links: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A flow from left to right. A node has a `name` and a `depth`; a link `source`, `target`, `value`."""
    return _base(
        tooltip=_tooltip("item"),
        series=[
            {
                "type": "sankey",
                "data": [dict(node) for node in nodes],
                "links": [dict(link) for link in links],
                "nodeAlign": "left",
                "nodeGap": 10,
                "left": 4,
                "right": "18%",
                "top": 28,
                "bottom": 8,
                "label": {"color": GREY, "overflow": "truncate", "width": 205},
                "lineStyle": {"color": "gradient", "opacity": 0.22},
                "emphasis": {"focus": "adjacency"},
            }
        ],
    )


def milliseconds(at: datetime | float) -> float:
    return at.timestamp() * 1e3 if isinstance(at, datetime) else at
