"""A program's own functions in Spark's sessions: each is an Arrow UDF under the name that texts of the pass call.

Streams and questions have sessions of their own, which begin with few or no functions. So a session gets the functions
when it is about to analyse a text (`define_functions`). The names are those of the process, since all sessions of Spark
in a process may share a context: a function stays with the Sash session that has made it until that session closes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.pandas.types import from_arrow_type

from sash.core.errors import CatalogError, SashError
from sash.core.user_function import UserFunction
from sash.plan.expressions import name_in_spark

_lock = threading.Lock()
_functions: dict[str, UserFunction] = {}
# What Spark's sessions have, by their ids.
_defined: dict[str, dict[str, UserFunction]] = {}


def offer_function(function: UserFunction) -> None:
    """Let all sessions of Spark have a function; SashError if it cannot be sent to executors."""
    try:
        CloudPickleSerializer().dumps(function)  # type: ignore[no-untyped-call]
    except Exception as error:
        reason = f"the function '{function.name}' cannot be sent to Spark's executors: {error}"
        raise SashError(reason) from error
    with _lock:
        if function.name in _functions:
            reason = f"another session of this process has a function '{function.name}'"
            raise CatalogError(f"{reason}: choose another name, or close that session first")
        _functions[function.name] = function


def withdraw_functions(functions: Iterable[UserFunction]) -> None:
    with _lock:
        for function in functions:
            _functions.pop(function.name, None)


def define_functions(session: SparkSession) -> None:
    """Define in a session of Spark the functions that it does not have yet."""
    if not _functions:
        return
    with _lock:
        known = _defined.setdefault(session._jsparkSession.sessionUUID(), {})
        for name, function in _functions.items():
            if known.get(name) is not function:
                session.udf.register(name_in_spark(name), _udf(function))
                known[name] = function


def _udf(function: UserFunction) -> Any:
    def called(*columns: pa.Array) -> pa.Array:
        return function(*columns)

    return arrow_udf(called, from_arrow_type(function.result_type))
