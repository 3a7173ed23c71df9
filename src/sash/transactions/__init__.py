"""Isolation of window slides and reads (thesis, chapter 7)."""

from sash.transactions.isolation import ISOLATION_LEVELS, Isolation, isolation
from sash.transactions.serial import Serial

__all__ = ["ISOLATION_LEVELS", "Isolation", "Serial", "isolation"]
