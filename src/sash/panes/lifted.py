"""A column of Spark's pass: one aggregate function applied to a row expression."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sash.core.user_aggregate import UserLift


@dataclass(frozen=True)
class LiftedColumn:
    """One column of Spark's pass: an aggregate function applied to a row expression of some type.

    `parts` are the fields of the argument, a struct, that the function takes; none: it takes the argument itself.
    `parameters` are constants that follow the argument; `field` is the part that is wanted of a function whose result
    is a struct, so that every column of the pass is flat. The function `user` makes partials of collected values.
    """

    function: str
    argument: str
    type: pa.DataType
    parameters: tuple[str, ...] = ()
    field: str = ""
    user: UserLift | None = None
    parts: tuple[str, ...] = ()

    def sql(self, argument: str | None = None, condition: str = "") -> str:
        """The call, over another text for the argument where the pass has one (an overlaid column).

        >>> LiftedColumn("hll_sketch_agg", "x", pa.int64(), ("12",)).sql(condition="_mask & 1 != 0")
        'hll_sketch_agg(x, 12) FILTER (WHERE _mask & 1 != 0)'
        >>> LiftedColumn("approx_top_k_accumulate", "x", pa.string(), ("3072",), "sketch").sql("_x1")
        '(approx_top_k_accumulate(_x1, 3072)).sketch'
        >>> LiftedColumn("covar_pop", "p", pa.struct([]), parts=("_0", "_1")).sql("_x2")
        'covar_pop((_x2)._0, (_x2)._1)'
        """
        taken = argument or self.argument
        arguments = [f"({taken}).{part}" for part in self.parts] or [taken]
        text = f"{self.function}({', '.join([*arguments, *self.parameters])})"
        if condition:
            text += f" FILTER (WHERE {condition})"
        return f"({text}).{self.field}" if self.field else text
