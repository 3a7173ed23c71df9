"""The Spark session of a session: a borrowed one, never ended by us, or our own, started when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sash.core.errors import SashError
from sash.runtime.records.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CLASSIC = (
    "Sash needs a classic one, whose JVM it can call; run Sash where Spark's driver may run, with a session of "
    "SparkSession.builder.master(..) or of spark-submit"
)


def check_classic(borrowed: SparkSession | None) -> None:
    """Raise SashError where the Spark session is, or our own would be, one of Spark Connect."""
    if borrowed is not None and type(borrowed).__module__.startswith("pyspark.sql.connect"):
        raise SashError(f"this is a Spark Connect session: {_CLASSIC}")
    if borrowed is None and os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        raise SashError(f"SPARK_API_MODE asks for a Spark Connect session: {_CLASSIC}")
    if borrowed is None and "SPARK_REMOTE" in os.environ:
        raise SashError(f"SPARK_REMOTE asks for a Spark Connect session: {_CLASSIC}")


class SparkHome:
    """Tells the checkpoint which JVM writes for it: a later owner waits until that JVM has ended."""

    def __init__(
        self, borrowed: SparkSession | None, checkpoint: Checkpoint | None, packages: Sequence[str] = ()
    ) -> None:
        """`packages`: connectors for our own Spark session."""
        self._packages = tuple(packages)
        self._borrowed = borrowed
        self._own: SparkSession | None = None
        self._checkpoint = checkpoint
        self._closed = False

    def record_borrowed(self) -> None:
        if self._borrowed is not None:
            self._record(self._borrowed)

    @property
    def session(self) -> SparkSession:
        if self._borrowed is not None:
            return self._borrowed
        if self._own is None:
            from sash.spark.spark_session import acquire_own_session

            self.check_open()
            self._own = acquire_own_session(packages=self._packages)
            self._record(self._own)
        return self._own

    def _record(self, session: SparkSession) -> None:
        from sash.spark.spark_session import jvm_process

        if self._checkpoint is not None:
            self._checkpoint.record_jvm(jvm_process(session))

    @property
    def is_closed(self) -> bool:
        return self._closed

    def check_open(self) -> None:
        if self._closed:
            raise SashError("the session is closed; connect() again")

    def close(self) -> None:
        self._closed = True
        if self._own is not None:
            from sash.spark.spark_session import release_own_session

            release_own_session()
            self._own = None
