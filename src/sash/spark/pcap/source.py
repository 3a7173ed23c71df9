"""Capture files as a data source of Spark's, for `spark.read` and `spark.readStream`.

The offset of a stream is how many bytes of each file were taken. So new files are found, and a file that has grown is
read on from its old end: a capture can be followed while it is written. The planning of a micro-batch fixes its part of
each file, and a second read gets the same part.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sash.core.errors import SourceError, nearest
from sash.spark.pcap.capture import is_compressed, read_capture
from sash.spark.pcap.frames import SCHEMA

_PATH, _MOST_FILES = "path", "maxFilesPerTrigger"


class PcapSource(DataSource):
    """`spark.dataSource.register(PcapSource)`, then `spark.read.format("pcap").load("trace.pcap")`."""

    @classmethod
    def name(cls) -> str:
        return "pcap"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> CaptureReader:
        return CaptureReader(self.options, schema.names)

    def streamReader(self, schema: StructType) -> CaptureStreamReader:  # noqa: N802
        return CaptureStreamReader(self.options, schema.names)


def prepare_captures(session: SparkSession, options: Mapping[str, str], schema: pa.Schema | None) -> dict[str, str]:
    """Register the format in the session; the result is its options. SourceError for options that fail only later."""
    given = {name.lower(): value for name, value in options.items()}
    if _PATH not in given:
        raise SourceError("FROM pcap needs a path: OPTIONS (path 'trace.pcap'), a file, a directory or a pattern")
    if not given.get(_MOST_FILES.lower(), "1").isdecimal() or given.get(_MOST_FILES.lower()) == "0":
        raise SourceError(f"{_MOST_FILES} is a number of files, not '{given[_MOST_FILES.lower()]}'")
    files = Files(given[_PATH])
    files.check()
    for field in schema or ():
        if field.name not in SCHEMA.names:
            raise SourceError(f"a capture has no column '{field.name}'{nearest(field.name, SCHEMA.names)}")
        if field.type != (type := SCHEMA.field(field.name).type):
            raise SourceError(f"column '{field.name}' of a capture is {type}, not {field.type}; or declare no columns")
    session.dataSource.register(PcapSource)
    return {**given, _PATH: files.path}


@dataclass(frozen=True)
class PcapPart(InputPartition):
    """The records of a file that end behind the byte `after`, up to the byte `until`; None: up to its end."""

    path: str
    after: int
    until: int | None


def read_part(part: PcapPart, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # Spark plans in separate processes, for which loading compiled loops would take longer than all the rest.
    from sash.spark.pcap.frames import packets_of

    try:
        for records in read_capture(part.path, part.after, part.until):
            yield packets_of(records, names)
    except OSError as error:
        raise SourceError(f"{part.path} cannot be read: {error.strerror or error}") from None


class CaptureReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], names: Sequence[str]) -> None:
        self._files = Files(options[_PATH])
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        return [PcapPart(path, 0, None) for path in self._files.now()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark has a partition of its own making where there is no file.
        return read_part(partition, self._names) if isinstance(partition, PcapPart) else iter(())


class CaptureStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's names for its methods."""

    def __init__(self, options: Mapping[str, str], names: Sequence[str]) -> None:
        self._files = Files(options[_PATH])
        self._most = options.get(_MOST_FILES)
        self._names = names
        # The files at the beginning of a stream that ends with them.
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._files.now()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(int(self._most))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        found = self._files.now() if self._target is None else self._target
        changed = [
            path for path, size in found.items()
            if size != start.get(path, 0) and not (path in start and is_compressed(path))
        ]  # fmt: skip
        if isinstance(limit, ReadMaxFiles):
            changed = changed[: limit.max_files]
        if not changed:
            return start
        # A missing file is forgotten: a new file of the same name is another one.
        return {path: size for path, size in start.items() if path in found} | {path: found[path] for path in changed}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_grown(path, start.get(path, 0), size) for path, size in end.items() if size != start.get(path, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PcapPart)
        return read_part(partition, self._names)


def _grown(path: str, before: int, size: int) -> PcapPart:
    """The new part of a file. A shorter file was begun anew, and a compressed one cannot be read in parts."""
    if os.path.exists(path) and is_compressed(path):
        return PcapPart(path, 0, None)
    return PcapPart(path, before if before < size else 0, size)


class Files:
    """The files at a path: a file, a directory or a pattern. Names with a dot or an underscore first are hidden."""

    def __init__(self, path: str) -> None:
        # Spark's own processes may have another working directory.
        self.path = os.path.abspath(path.removeprefix("file://").removeprefix("file:"))

    def now(self) -> dict[str, int]:
        """Their sizes, the file first that was modified first."""
        pattern = os.path.join(glob.escape(self.path), "*") if os.path.isdir(self.path) else self.path
        names = glob.glob(pattern) if glob.has_magic(pattern) else [pattern]
        found = []
        for name in names:
            try:
                facts = os.stat(name)
            except OSError:
                # Gone since it was listed.
                continue
            if os.path.isfile(name) and not os.path.basename(name).startswith((".", "_")):
                found.append((facts.st_mtime_ns, name, facts.st_size))
        return {name: size for _, name, size in sorted(found)}

    def check(self) -> None:
        """A directory or a pattern may have no files yet; a plain name must exist."""
        if not glob.has_magic(self.path) and not os.path.exists(self.path):
            raise SourceError(f"there is no capture file {self.path}")
