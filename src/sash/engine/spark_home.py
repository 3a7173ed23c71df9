"""The Spark session of a session: a borrowed one, never ended by us, or our own, started when it is first needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sash.core.errors import SashError
from sash.engine.records.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkHome:
    """A checkpoint is told which JVM writes for it: a later owner waits until that has ended."""

    def __init__(
        self, borrowed: SparkSession | None, checkpoint: Checkpoint | None, packages: Sequence[str] = ()
    ) -> None:
        """`packages`: connectors that our own is to have."""
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
            from sash.spark.session import acquire_local_session

            self.check_open()
            self._own = acquire_local_session(packages=self._packages)
            self._record(self._own)
        return self._own

    def _record(self, session: SparkSession) -> None:
        from sash.spark.session import jvm_process

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
            from sash.spark.session import release_local_session

            release_local_session()
            self._own = None
