"""Continuous operators: a batch of changes in, a batch of changes out, state in between.

Every operator processes the instants of an epoch, low <= t < high, exactly as if they came one after the other, and at
each instant first what expires, then what arrives. What comes out is the net effect of each instant, so it does not
depend on how the input is cut into micro-batches.
"""

from sash.changes.stage import Arrivals, Bucket, Stage

__all__ = ["Arrivals", "Bucket", "Stage"]
