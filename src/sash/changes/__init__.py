"""Continuous operators: a batch of changes in, a batch of changes out, state in between.

Every operator processes the instants of an epoch, low <= t < high, exactly as if they came one after the other; at each
instant expiries come before arrivals. The output is the net effect of each instant, so it does not depend on how the
input is cut into micro-batches.
"""

from sash.changes.stage import Arrivals, Bucket, Stage

__all__ = ["Arrivals", "Bucket", "Stage"]
