"""Options of ECharts for what the views draw. Colours are readable on white and on black."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

# Text and lines: a grey in the middle, with enough contrast either way.
GREY = "#7b8694"
FAINT = "rgba(123, 134, 148, .25)"
# Told apart by people who see few colours, too (Okabe and Ito's, without yellow and black).
PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#7b8694", "#8a63d2"]

Point = Sequence[Any]


def _axis(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "axisLabel": {"color": GREY, "hideOverlap": True},
        "axisLine": {"lineStyle": {"color": FAINT}},
        "splitLine": {"lineStyle": {"color": FAINT}},
        "nameTextStyle": {"color": GREY},
        **more,
    }


def _tooltip(trigger: str) -> dict[str, Any]:
    """Drawn, and no HTML: names of groups are data, and data may be hostile."""
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
    """One line per name over time; `series` are points (milliseconds since 1970 or a datetime, value)."""
    drawn = [
        {
            "name": name,
            "type": "line",
            "showSymbol": False,
            "data": [[milliseconds(at), value] for at, value in points],
            **({"stack": "all", "areaStyle": {"opacity": 0.3}} if stacked else {}),
        }
        for name, points in series.items()
    ]
    many = len(drawn) > 1
    return _base(
        grid={"left": 8, "right": 28, "top": 52 if many and unit else 36, "bottom": 8, "containLabel": True},
        xAxis=_axis("time"),
        yAxis=_axis("value", name=unit, nameLocation="end", scale=not stacked),
        series=drawn,
        legend={"show": many, "type": "scroll", "textStyle": {"color": GREY}, "top": 0},
    )


def bars(values: Mapping[str, float | None], unit: str) -> dict[str, Any]:
    """One bar per name, the first on top."""
    names = list(values)
    return _base(
        tooltip=_tooltip("item"),
        grid={"left": 8, "right": 28, "top": 8, "bottom": 26, "containLabel": True},
        xAxis=_axis("value", name=unit, nameLocation="middle", nameGap=26),
        yAxis=_axis("category", data=names, inverse=True),
        series=[{"type": "bar", "data": [values[name] for name in names], "barMaxWidth": 22}],
    )


def flow(nodes: Sequence[Mapping[str, Any]], links: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What goes where, from left to right. A node has a `name` and a `depth`; a link `source`, `target`, `value`."""
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
                "label": {"color": GREY, "overflow": "truncate", "width": 170},
                "lineStyle": {"color": "gradient", "opacity": 0.22},
                "emphasis": {"focus": "adjacency"},
            }
        ],
    )


def milliseconds(at: datetime | float) -> float:
    return at.timestamp() * 1e3 if isinstance(at, datetime) else at
