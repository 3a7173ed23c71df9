"""Work beside the stream: questions, sinks and archives share Spark's cores with micro-batches and do not hold them up.

Pools and small tasks ensure this. Jobs go to pools of Spark's FAIR scheduler, by the thread that starts them:

    pool             what                                              cores that become free
    sash-stream      micro-batches, and all that they wait for         first, as long as it has work for them
    sash-panes       executions over panes that are in the cluster     then four times as many as each of the others
    sash-questions   one-time questions                                shared evenly with the other two
    sash-sinks       answers on their way to a sink
    sash-archives    archives that are rewritten

Spark takes no core away from a running task, so questions are cut into small tasks: a micro-batch waits for the rest of
a task, not for the rest of a question. In a user's Spark session, the session's configuration decides about pools (by
default FIFO: no effect).

A cancelled question (core/stopping.py) stops its jobs: they have their own tag.
"""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

from sash.core.stopping import QUESTION
from sash.spark.user_functions import define_functions

STREAM, QUESTIONS, SINKS = "sash-stream", "sash-questions", "sash-sinks"
ARCHIVES, PANES = "sash-archives", "sash-panes"

_POOL = "spark.scheduler.pool"
# How many tasks a stage of a question has for each core.
_TASKS_PER_CORE = 8
_SMALL_BYTES = str(8 * 2**20)
_MANY_FILES = "100000"
# Seconds until jobs are cancelled again: a question in planning may start its next job after the first time.
_CANCEL_AGAIN = 0.1

_beside: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


@contextmanager
def in_pool(session: SparkSession, pool: str) -> Iterator[None]:
    """Jobs of this thread go to a pool inside; jobs that a micro-batch waits for stay in the stream's pool."""
    context = session.sparkContext
    before = context.getLocalProperty(_POOL)
    if before == STREAM:
        yield
        return
    context.setLocalProperty(_POOL, pool)
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]


@contextmanager
def asking(session: SparkSession) -> Iterator[SparkSession]:
    """A session on the same Spark for questions: with small tasks, in their pool. Other settings are the same."""
    with in_pool(session, QUESTIONS), _stoppable_jobs(session), _beside_active(session) as other:
        yield other


@contextmanager
def answering(session: SparkSession) -> Iterator[SparkSession]:
    """The same for panes in the cluster; an execution has its own pool, even if a micro-batch waits for it.

    Otherwise the micro-batches of other streams would have to share their cores with it.
    """
    context = session.sparkContext
    before = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, PANES if before in (STREAM, PANES) else QUESTIONS)
    try:
        with _stoppable_jobs(session), _beside_active(session) as other:
            yield other
    finally:
        context.setLocalProperty(_POOL, before)  # type: ignore[arg-type]


@contextmanager
def _stoppable_jobs(session: SparkSession) -> Iterator[None]:
    """Jobs that this thread starts inside are cancelled when their question is cancelled."""
    question = QUESTION.get()
    if question is None:
        yield
        return
    context, tag, left = session.sparkContext, f"sash-question-{uuid.uuid4().hex}", threading.Event()

    def cancel() -> None:
        threading.Thread(target=_cancel_until, args=(left, context, tag), name="sash-cancel", daemon=True).start()

    context.addJobTag(tag)
    try:
        with question.calling(cancel):
            yield
    finally:
        left.set()
        context.removeJobTag(tag)


def _cancel_until(left: threading.Event, context: SparkContext, tag: str) -> None:
    while not left.is_set():
        context.cancelJobsWithTag(tag)
        left.wait(_CANCEL_AGAIN)


@contextmanager
def _beside_active(session: SparkSession) -> Iterator[SparkSession]:
    try:
        other = _session_beside(session)
        define_functions(other)
        yield other
    finally:
        # Making a DataFrame makes its session the thread's own: restore the user's.
        activate(session)


def activate(session: SparkSession) -> None:
    """Make a session the thread's own: Spark looks things up there by default."""
    SparkSession._activeSession = session
    jvm_class = SparkSession._get_j_spark_session_class(session._jvm)
    jvm_class.setActiveSession(session._jsparkSession)


def _session_beside(session: SparkSession) -> SparkSession:
    found = _beside.get(session)
    if found is None:
        found = session.newSession()
        _take_over_settings(session, found)
        tasks = str(_TASKS_PER_CORE * session.sparkContext.defaultParallelism)
        found.conf.set("spark.sql.leafNodeDefaultParallelism", tasks)
        found.conf.set("spark.sql.shuffle.partitions", tasks)
        found.conf.set("spark.sql.files.maxPartitionBytes", _SMALL_BYTES)
        # Adaptive execution would merge small partitions until there is one for each core.
        found.conf.set("spark.sql.adaptive.coalescePartitions.parallelismFirst", "false")
        found.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", _SMALL_BYTES)
        # The driver lists many small files itself: a job for that would wait for its turn.
        found.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", _MANY_FILES)
        _beside[session] = found
    return found


def _take_over_settings(session: SparkSession, other: SparkSession) -> None:
    """Copy settings that were made after the session began: a new session does not have them."""
    has = other.conf.getAll
    for name, value in session.conf.getAll.items():
        if name.startswith("spark.sql.") and has.get(name) != value and other.conf.isModifiable(name):
            other.conf.set(name, value)


@contextmanager
def allocation_file(cores: int) -> Iterator[str]:
    """The pools, in the form that Spark reads when its context starts; the file exists only inside.

    The stream's share comes before all weights.
    """
    pools = {STREAM: (4, cores), QUESTIONS: (1, 0), SINKS: (1, 0), ARCHIVES: (1, 0), PANES: (4, 0)}
    lines = [
        f'<pool name="{name}"><schedulingMode>FAIR</schedulingMode>'
        f"<weight>{weight}</weight><minShare>{share}</minShare></pool>"
        for name, (weight, share) in pools.items()
    ]
    with tempfile.TemporaryDirectory(prefix="sash-pools-") as directory:
        path = Path(directory) / "pools.xml"
        path.write_text("\n".join(['<?xml version="1.0"?>', "<allocations>", *lines, "</allocations>", ""]))
        yield path.as_uri()
