"""The numbers of `stats()` in Prometheus' text format.

Nothing is counted here: every number of `stats()` becomes one sample, under the name that it has there.

    stats()["streams"]["packets"]["late_tuples"]  ──►  sash_stream_late_tuples_total{stream="packets"} 3

A number that only grows is a counter, and its name ends in `_total`; the rest are gauges. A flag is 0 or 1, `error` is
1 while there is one, a time is seconds since 1970, and a number that is not known yet has no sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from numbers import Integral, Real
from typing import Any

Labels = tuple[tuple[str, str], ...]

_COUNTERS = {
    "tuples": "Tuples that came",
    "late_tuples": "Tuples that came too late for their panes",
    "shed_tuples": "Tuples that were dropped under overload, about",
    "micro_batches": "Micro-batches taken",
    "slow_batches": "Live micro-batches that took longer than the time between two of them",
    "limit_changes": "How often the source was given another limit to keep to max_lag",
    "null_timestamps": "Tuples without a timestamp",
    "unparsable": "Rows that could not be parsed",
    "jumped_tuples": "Tuples that MAX JUMP has left out",
    "seconds_in_spark": "Seconds of micro-batches spent on Spark",
    "seconds_in_sash": "Seconds of micro-batches spent on panes, plans, schedules, answers and the log",
    "seconds_between": "Seconds between micro-batches that Spark spent on its source, plans and logs",
    "seconds_waiting": "Seconds between micro-batches spent waiting for the trigger",
    "tuples_read": "Tuples read from sources",
    "rows_expanded": "Rows made of the tuples, for panes or for windows",
    "rows_aggregated": "Rows aggregated, and partials merged",
    "executions": "Executions of queries, joint ones counted once",
    "joint_executions": "Executions that answered several queries",
    "refreshes": "Answers that executions gave",
    "joint_cost": "Pane values that executions combined, by the cost model",
    "separate_cost": "Pane values that they would have combined one by one, by the cost model",
    "beside_slides": "Executions during which their window slid",
    "beside_restarts": "Executions begun again because their window slid",
    "answers": "Answers given",
    "answers_forgotten": "Answers given up for want of memory",
    "subscriber_errors": "Calls of subscribers that raised",
    "delivered": "Answers that a subscriber with a queue was called with",
    "dropped": "Answers that a full queue has left out",
    "written": "Answers written",
    "plan_replacements": "Times that another plan has replaced the running one",
    "stored_reads": "Reads of the stored window by questions",
    "read_restarts": "Reads of the stored window begun again because it slid",
    "read_undone": "Sub-windows that reads took back because they had left the window",
    "read_inserted": "Sub-windows and late tuples that reads took in while they were under way",
}
_GAUGES = {
    "tuples_per_s": "Tuples per second of work",
    "work_saved": "Part of the rows that one Spark job per query would read, expand and aggregate, and Sash does not",
    "passes": "Readers of a stream, all streams together",
    "state_rows": "Rows of state: of panes, or of the open windows of one Spark job per query",
    "answer_bytes": "About how many bytes the remembered answers take",
    "plans": "Running plans of continuous queries",
    "watermark": "The watermark, in seconds since 1970",
    "overloaded": "Whether micro-batches take longer than the time between them",
    "input_limit": "Bytes or offsets of a micro-batch at most, by max_lag",
    "kept_part": "The part of the tuples that is kept now",
    "error": "Whether there is an error",
    "paused": "Whether a query is paused",
    "lateness": "Updates beyond SLIDE, per answer",
    "exactly": "Whether the query, or the sub-group, stays at its own multiples of SLIDE",
    "waiting": "Answers that wait for a sink or a subscriber",
    "rows": "Rows held",
    "kept_rows": "Rows that KEEP stores of a query",
    "kept_bytes": "Bytes of these rows in memory, about",
    "panes": "Panes held",
    "groups": "Groups held",
    "windows_per_tuple": "Windows of all queries that a tuple falls into",
    "buckets": "Buckets of a plan",
    "unreduced": "Part of the tuples that a grouping leaves as rows",
    "files": "Files of an archive",
    "bytes": "Bytes in the files of an archive",
    "updated": "The event time of an archive's last update, in seconds since 1970",
    "auto": "Whether an archive chooses its partition by itself",
}


def exposition(stats: Mapping[str, Any]) -> str:
    """The text of a scrape."""
    families: dict[str, _Family] = {}
    for part, labels, numbers in _parts(stats):
        labelled = _labelled(labels)
        for name, value in numbers.items():
            number = _number(name, value)
            if number is None:
                continue
            counted = name in _COUNTERS
            full = f"sash_{part}_{name}" + ("_total" if counted else "")
            about = _COUNTERS.get(name) or _GAUGES.get(name) or f"{name} in stats()"
            family = families.setdefault(full, _Family(full, "counter" if counted else "gauge", about))
            family.samples.append((labelled, number))
    return "".join(family.text() for family in families.values())


def _parts(stats: Mapping[str, Any]) -> Iterator[tuple[str, Labels, Mapping[str, Any]]]:
    """The parts of `stats()` that have numbers of their own, with their labels."""
    yield "session", (), stats
    for how, numbers in stats.get("work", {}).items():
        yield "work", (("work", how),), numbers
    for stream, facts in stats["streams"].items():
        yield "stream", (("stream", stream),), facts
        for keys, ratio in facts["unreduced"].items():
            yield "pane_table", (("stream", stream), ("table", keys)), {"unreduced": ratio}
        for table in facts["pane_tables"]:
            labels = (("stream", stream), ("table", table["name"]))
            yield "pane_table", labels, table
            for number, task in enumerate(table["tasks"]):
                yield "task", (*labels, ("group", task["group"]), ("slide", task["slide"]), _numbered(number)), task
    for query, facts in stats["queries"].items():
        yield "query", (("query", query),), facts
        for number, sink in enumerate(facts["sinks"]):
            yield "sink", (("query", query), ("sink", sink["sink"]), _numbered(number)), sink
        for number, queue in enumerate(facts["subscribers"]):
            yield "subscriber", (("query", query), ("when_full", queue["when_full"]), _numbered(number)), queue
    for archive, facts in stats.get("archives", {}).items():
        yield "archive", (("archive", archive),), facts


def _numbered(number: int) -> tuple[str, str]:
    """A label for parts that may have the same name, as two sinks of a query."""
    return "number", str(number)


def _number(name: str, value: Any) -> float | int | None:
    """The value as a number; None: no number, or not known yet."""
    if name == "error":
        return int(value is not None)
    if isinstance(value, Real):
        # Flags, and numbers of NumPy, are written as plain ones.
        return int(value) if isinstance(value, Integral) else float(value)
    return value.timestamp() if isinstance(value, datetime) else None


@dataclass
class _Family:
    """The samples of one name, with their labels as text: Prometheus wants them together."""

    name: str
    kind: str
    about: str
    samples: list[tuple[str, float | int]] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"# HELP {self.name} {_escaped(self.about)}", f"# TYPE {self.name} {self.kind}"]
        lines += [f"{self.name}{labelled} {_written(value)}" for labelled, value in self.samples]
        return "\n".join(lines) + "\n"


def _labelled(labels: Labels) -> str:
    pairs = (f'{name}="{_quoted(value)}"' for name, value in labels)
    return f"{{{','.join(pairs)}}}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _written(value: float | int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
