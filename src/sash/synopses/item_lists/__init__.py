"""Aggregates that answer with one row per item, by name. Each is its query's only reader."""

from __future__ import annotations

from sash.synopses.item_lists.approx_top import ApproxTop
from sash.synopses.item_lists.frequent import Frequent
from sash.synopses.item_lists.weighted import Histogram, Top

ITEM_LISTS: dict[str, type[Top] | type[Histogram] | type[Frequent] | type[ApproxTop]] = {
    "top": Top,
    "histogram": Histogram,
    "frequent": Frequent,
    "approx_top": ApproxTop,
}

__all__ = ["ITEM_LISTS"]
