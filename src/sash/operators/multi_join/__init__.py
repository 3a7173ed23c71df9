"""Joins of n windows on equalities, without stored intermediate results (thesis 5).

`operator` and `graph` are what plans run, an epoch at a time: where all windows have one attribute in common, and where
they do not (`pipelined` is what both have in common). `algorithms` are those of the thesis, a tuple or an evaluation at
a time, to be compared with each other and with the cost model.
"""

from sash.operators.multi_join.graph import GraphJoinOp
from sash.operators.multi_join.operator import MultiJoinOp

__all__ = ["GraphJoinOp", "MultiJoinOp"]
