"""Joins of n windows on one common attribute, without stored intermediate results (thesis 5).

`operator` is what plans run: an epoch at a time. `algorithms` are those of the thesis, a tuple or an evaluation at a
time, to be compared with each other and with the cost model.
"""

from sash.operators.multi_join.operator import MultiJoinOp

__all__ = ["MultiJoinOp"]
