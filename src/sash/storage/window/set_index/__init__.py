"""Set-valued indexes: which values a window has, and how often (section 5 of the report)."""

from __future__ import annotations

from sash.storage.window.set_index.grouped import GroupIndex
from sash.storage.window.set_index.growing import GrowingGroupIndex
from sash.storage.window.set_index.values import SetIndex

__all__ = ["GroupIndex", "GrowingGroupIndex", "SetIndex"]
