"""Attribute-valued indexes: which rows of a window have a value (section 6 of the report)."""

from __future__ import annotations

from sash.storage.window.row_index.index import RowIndex
from sash.storage.window.row_index.rings import METHODS
from sash.storage.window.row_index.ties import Further, break_ties

__all__ = ["METHODS", "Further", "RowIndex", "break_ties"]
