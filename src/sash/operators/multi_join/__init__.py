"""Joins of n windows on equalities, without stored intermediate results (thesis 5).

`operator` and `graph` are what plans run, an epoch at a time: where all windows have one attribute in common, and where
they do not (`pipelined` is what both have in common). `lazy` has the lazy evaluation of the thesis.
"""

from sash.operators.multi_join.graph import GraphJoinOp
from sash.operators.multi_join.operator import MultiJoinOp

__all__ = ["GraphJoinOp", "MultiJoinOp"]
