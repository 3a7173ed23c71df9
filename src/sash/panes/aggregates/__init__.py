"""Aggregates by name. All speak lift / combine / lower.

`lift` names the partials that Spark computes per pane; they combine by their own kernels (and are taken back by
`Partial.invert` where they can); `lower` turns combined partials into the answer's column. Holistic aggregates read
how often each value of their argument occurs: the same partial for all of them.
"""

from __future__ import annotations

from sash.panes.aggregates.approximate import ApproxCountDistinct, ApproxQuantile, CountMin, ShedBound
from sash.panes.aggregates.exact import AggregateFunction, Average, Count, Extreme, MergedPartials, Sum, Variance
from sash.panes.aggregates.holistic import CountDistinct, Holistic, Mode, Quantile, QuantileCont

AGGREGATES: dict[str, AggregateFunction] = {
    "sum": Sum(),
    "count": Count(),
    "avg": Average(),
    "mean": Average(),
    "min": Extreme("min"),
    "max": Extreme("max"),
    "variance": Variance(),
    "var_samp": Variance(),
    "var_pop": Variance(population=True),
    "stddev": Variance(root=True),
    "stddev_samp": Variance(root=True),
    "stddev_pop": Variance(root=True, population=True),
    "approx_count_distinct": ApproxCountDistinct(),
    "approx_count_distinct_lower": ApproxCountDistinct("lower"),
    "approx_count_distinct_upper": ApproxCountDistinct("upper"),
    "approx_quantile": ApproxQuantile(),
    "approx_quantile_lower": ApproxQuantile(form="lower"),
    "approx_quantile_upper": ApproxQuantile(form="upper"),
    "sum_lower": ShedBound("sum", "lower"),
    "sum_upper": ShedBound("sum", "upper"),
    "count_lower": ShedBound("count", "lower"),
    "count_upper": ShedBound("count", "upper"),
}

HOLISTIC: dict[str, Holistic] = {
    "count_distinct": CountDistinct(),
    "median": QuantileCont(name="MEDIAN"),
    "mode": Mode(),
    "quantile": Quantile(),
    "quantile_cont": QuantileCont(),
    "count_min": CountMin(),
    "count_min_lower": CountMin(form="lower"),
    "count_min_upper": CountMin(form="upper"),
}

__all__ = ["AGGREGATES", "HOLISTIC", "AggregateFunction", "Holistic", "MergedPartials"]
