"""Sketches by the kind of their partial: summaries of bounded size that merge, for answers with bounds.

Spark's aggregate functions build the sketch of each pane and group; Sash merges them with the `datasketches` library,
which reads the same formats (Apache DataSketches). Count-min is not among them: Spark's format is its own, so a
window's sketch is made of the window's item counts (`count_min`).

    kind    built by                     answers                   bounds hold
    hll     hll_sketch_agg               APPROX_COUNT_DISTINCT     in 99.7 of 100 cases (three standard deviations)
    kll     kll_sketch_agg_double        APPROX_QUANTILE           in 99 of 100 cases
    items   approx_top_k_accumulate      APPROX_TOP                always
    -       item counts of the window    COUNT_MIN                 in 99 of 100 cases
"""

from __future__ import annotations

from sash.panes.sketches.frequent_items import FrequentStrings
from sash.panes.sketches.hll import Hll
from sash.panes.sketches.kll import Kll
from sash.panes.sketches.sketch import FORMS, Sketch

SKETCHES: dict[str, type[Sketch]] = {"hll": Hll, "kll": Kll, "items": FrequentStrings}

__all__ = ["FORMS", "SKETCHES", "Sketch"]
