"""Aggregates by name. All speak lift / combine / lower.

`lift` names the partials that Spark computes per pane; they combine by their own kernels (and are taken back by
`Partial.invert` where they can); `lower` turns combined partials into the answer's column. Holistic aggregates read
how often each value of their argument occurs: the same partial for all of them.
"""

from __future__ import annotations

from sash.panes.aggregates.approximate import ApproxCountDistinct, ApproxQuantile, CountMin, ShedBound
from sash.panes.aggregates.exact import STATISTICS, AggregateFunction, Average, Count, Extreme, MergedPartials, Sum
from sash.panes.aggregates.holistic import (
    Collect,
    CountDistinct,
    Holistic,
    ListAgg,
    Mode,
    PercentileDisc,
    Quantile,
    QuantileCont,
)

AGGREGATES: dict[str, AggregateFunction] = {
    "sum": Sum(),
    "count": Count(),
    "avg": Average(),
    "mean": Average(),
    "min": Extreme("min", "MIN"),
    "max": Extreme("max", "MAX"),
    "bool_and": Extreme("min", "BOOL_AND", "condition"),
    "bool_or": Extreme("max", "BOOL_OR", "condition"),
    "any_value": Extreme("min", "ANY_VALUE"),
    "min_by": Extreme("min", "MIN_BY", of_pairs=True),
    "max_by": Extreme("max", "MAX_BY", of_pairs=True),
    "first": Extreme("min", "FIRST", of_pairs=True),
    "last": Extreme("max", "LAST", of_pairs=True),
    "bit_and": Extreme("bit_and", "BIT_AND", "whole number"),
    "bit_or": Extreme("bit_or", "BIT_OR", "whole number"),
    "bit_xor": Extreme("bit_xor", "BIT_XOR", "whole number"),
    **STATISTICS,
    "var_samp": STATISTICS["variance"],
    "stddev_samp": STATISTICS["stddev"],
    "regr_count": Count(),
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
    "percentile_disc": PercentileDisc(),
    "quantile_cont": QuantileCont(),
    "collect_list": Collect(),
    "collect_set": Collect(once=True),
    "listagg": ListAgg(),
    "count_min": CountMin(),
    "count_min_lower": CountMin(form="lower"),
    "count_min_upper": CountMin(form="upper"),
}

__all__ = ["AGGREGATES", "HOLISTIC", "AggregateFunction", "CountMin", "Holistic", "MergedPartials"]
