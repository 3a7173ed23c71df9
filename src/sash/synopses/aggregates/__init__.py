"""Aggregates by name, one small file each. All speak lift / combine / lower.

`lift` names the partials that Spark computes per pane; they combine by their own kernels;
`lower` turns combined partials into the answer's column.
"""

from __future__ import annotations

from sash.synopses.aggregates.average import Average
from sash.synopses.aggregates.base import Aggregate, Merged
from sash.synopses.aggregates.count import Count
from sash.synopses.aggregates.extreme import Extreme
from sash.synopses.aggregates.sum import Sum
from sash.synopses.aggregates.variance import Variance

AGGREGATES: dict[str, Aggregate] = {
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
}

__all__ = ["AGGREGATES", "Aggregate", "Merged"]
