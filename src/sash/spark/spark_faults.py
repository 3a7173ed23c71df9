"""The cause of an error in a micro-batch: data and expressions, or the machines.

The first kind would come again with the next attempt, so the query has failed. The second kind may be over by then: the
stream stops, and the micro-batch is replayed.
"""

from __future__ import annotations

import re

from sash.core.errors import CheckpointError, SashError, SourceError

# Data exceptions, and those of raise_error.
_OF_DATA = re.compile(r"SQLSTATE: (22|P0)")
_UNREADABLE = re.compile(r"error while reading file (\S+?)\.?(?:\s|$)")
# Spark's message about an ended query surrounds the reason.
_ENDED = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: (.*?)(?: SQLSTATE: XXKST)?$")
_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"
_DISK_FULL = "No space left on device"
_RAISED = re.compile(r"^(?:\w+\.)*(\w+)(?::|$)")
_OF_MACHINES = {
    "ImportError", "ModuleNotFoundError", "PySparkRuntimeError", "SystemExit", "KeyboardInterrupt",
    "CheckpointError", "MemoryError", "ArrowMemoryError", "EOFError",
    "OSError", "IOError", "FileNotFoundError", "PermissionError", "BlockingIOError", "TimeoutError", "InterruptedError",
    "ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError", "BrokenPipeError",
}  # fmt: skip


def is_of_data(error: BaseException) -> bool:
    """Whether another attempt would fail in the same way."""
    if isinstance(error, OSError | CheckpointError | MemoryError):
        return False
    if isinstance(error, SashError):
        return True
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return isinstance(error, ArithmeticError | ValueError | TypeError | LookupError | NotImplementedError)
    text = str(error)
    raised = raised_in_worker(text)
    if raised is not None:
        name = _RAISED.match(raised)
        return name is None or name[1] not in _OF_MACHINES
    return _OF_DATA.search(text) is not None


def first_line(error: BaseException) -> str:
    """The message of a Spark error without its stack trace; if Java has wrapped it, the innermost message."""
    text = str(error).strip()
    raised = raised_in_worker(text)
    if raised is not None:
        return raised.removeprefix("sash.core.errors.").partition(": ")[2] or raised
    lines = (_innermost(error) or text).splitlines()
    return _ENDED.sub(r"\1", lines[0]) if lines else type(error).__name__


def is_disk_full(error: BaseException) -> bool:
    """Whether Spark says so, anywhere in the error."""
    return _DISK_FULL in first_line(error) or _DISK_FULL in str(error)


def disk_full(stream: str, *places: object) -> SourceError:
    """Neither the source nor a query is to blame. Spark does not name the file, so the error names the places."""
    where = " or ".join(map(str, (*places, "spark.local.dir (its temporary files)")))
    return SourceError(
        f"stream '{stream}' stopped: Spark cannot write to {where}: {_DISK_FULL}; what was committed before is whole, "
        "so the same command with its checkpoint goes on from it when there is space"
    )


def file_of(error: BaseException) -> str:
    """The file that Spark could not read, in parentheses; empty if Spark does not say."""
    found = _UNREADABLE.search(str(error))
    if found is None:
        return ""
    # Spark plans by the existing files, also when it brings a micro-batch again.
    gone = "; put it back before the next start, which goes on without it" if _GONE in str(error) else ""
    return f" (file {found[1]}{gone})"


def never_called_back(error: BaseException | None) -> bool:
    """Whether a Python process that Spark had started took too long to connect to it."""
    return error is not None and "Python worker failed to connect back" in str(error)


def raised_in_worker(text: str) -> str | None:
    """The exception of a Python worker, from the end of its traceback."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.strip().startswith("Traceback (most recent call last)")), None)
    raised = [] if at is None else [line for line in lines[at + 1 :] if line and not line.startswith((" ", "\t"))]
    return raised[0] if raised else None


def _innermost(error: BaseException) -> str | None:
    """The innermost message: py4j only names the failed call; the exception in Java has the reason."""
    cause = getattr(error, "java_exception", None)
    if cause is None:
        return None
    while cause.getCause() is not None:
        cause = cause.getCause()
    message = cause.getMessage()
    return None if message is None else str(message).strip()
