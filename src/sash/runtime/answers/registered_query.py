"""A registered query as its user holds it.

`Subscription` is the result of `query.subscribe`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sash.catalog import RegisteredQuery
from sash.core.errors import CatalogError, QueryFailedError, SashError
from sash.core.events import report
from sash.panes.answers import PendingTable
from sash.runtime.answers.answer import Answer, query_html
from sash.runtime.answers.kept_result import KeptResult
from sash.runtime.answers.mailbox import WAIT, Mailbox, check_policy
from sash.runtime.answers.outlet import Channel, NotKeptError, Outlet
from sash.runtime.answers.plot import plot_answers
from sash.runtime.compiler import as_select
from sash.sql import complete
from sash.sql.roles import is_list, key_columns, value_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame

    from sash.runtime.session import Session


class Subscription:
    """Cancelled by hand, or by the end of a `with`.

    >>> with Subscription(lambda: print("left")) as subscription:
    ...     print("here")
    here
    left
    >>> subscription.cancel()
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """End the subscription: an answer on its way may still come, and queued answers are dropped."""
        with self._lock:
            leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()


logger = logging.getLogger("sash.runtime")


# The bytes of an answer besides its columns.
ANSWER_OVERHEAD = 1_500
# The size of a table with at most this many rows is estimated.
SMALL = 10_000


class AnswerMemory:
    """Bounds what all queries together remember: a query that exceeds the bound gives up its own oldest answers."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        # Queries that were computed together may share a table: its bytes are counted once.
        self._holders: dict[int, int] = {}
        self._lock = threading.Lock()
        self.forgotten = 0

    @property
    def used(self) -> int:
        return self._used

    def add(self, told: Iterable[tuple[Outward, Answer]]) -> None:
        """Remember answers, those of each query after its earlier ones."""
        holders = self._holders
        with self._lock:
            used, limit = self._used, self._limit
            for outward, answer in told:
                outward.answered += 1
                answers = outward.answers
                if len(answers) == answers.maxlen:
                    used -= self._released(answers.popleft())
                answers.append(answer)
                content = answer.content
                key = id(content)
                if key in holders:
                    holders[key] += 1
                    used += ANSWER_OVERHEAD
                else:
                    holders[key] = 1
                    used += ANSWER_OVERHEAD + size_of(content)
                while used > limit and len(answers) > 1:
                    used -= self._released(answers.popleft())
                    self.forgotten += 1
            self._used = used

    def forget(self, answers: deque[Answer]) -> None:
        """Stop counting the answers of a dropped query: they belong to the program that holds the query."""
        with self._lock:
            self._used -= sum([self._released(answer) for answer in answers])

    def _released(self, answer: Answer) -> int:
        """Stop counting an answer: the bytes that it took."""
        content, holders = answer.content, self._holders
        key = id(content)
        left = holders[key] - 1
        if left:
            holders[key] = left
            return ANSWER_OVERHEAD
        del holders[key]
        return ANSWER_OVERHEAD + size_of(content)


def size_of(table: pa.Table | PendingTable) -> int:
    """About the bytes of a table: exact sizes take longer to find out than small answers take to make."""
    if isinstance(table, PendingTable):
        return table.size * 8
    return int(table.num_rows * table.num_columns * 8 if table.num_rows < SMALL else table.nbytes)


class Outward:
    """The destinations of one query's answers: memory, stored results, sinks, subscribers."""

    def __init__(self, query: str, keep: int, memory: AnswerMemory, kept_result: KeptResult | None = None) -> None:
        """`kept` is where KEEP stores the answers for questions."""
        self._query = query
        self.memory = memory
        self.kept_result = kept_result
        self.answers: deque[Answer] = deque(maxlen=keep)
        self.outlets: list[Outlet] = []
        self.mailboxes: list[Mailbox] = []
        self.subscribers: list[Callable[[Answer], None]] = []
        self.answered = 0
        self.subscriber_errors = 0

    def tell(self, answer: Answer) -> None:
        """Tell all subscribers. If one raises, the error is reported and the others are still called."""
        for callback in tuple(self.subscribers):
            try:
                callback(answer)
            except Exception:
                self._count_error()
                told = "a subscriber of query %(query)s raised; the others are still served"
                report(logger, logging.ERROR, "subscriber.failed", told, exception=True, query=self._query)

    def _count_error(self) -> None:
        self.subscriber_errors += 1

    def subscribe(self, callback: Callable[[Answer], None], queue: int, when_full: str) -> Subscription:
        check_policy(queue, when_full)
        if when_full == WAIT:
            self.subscribers.append(callback)
            return Subscription(lambda: self.subscribers.remove(callback))
        mailbox = Mailbox(self._query, callback, queue, when_full, self._count_error)
        self.mailboxes.append(mailbox)
        self.subscribers.append(mailbox.take)
        return Subscription(lambda: self._take_away(mailbox))

    def _take_away(self, mailbox: Mailbox) -> None:
        self.subscribers.remove(mailbox.take)
        self.mailboxes.remove(mailbox)
        mailbox.empty()

    def add(self, outlet: Outlet) -> None:
        """Send answers to one more sink from now on."""
        self.outlets.append(outlet)
        outlet.flush()

    def remove(self, sink: str) -> None:
        """Send no more answers to a sink."""
        for outlet in [each for each in self.outlets if each.sink == sink]:
            self.outlets.remove(outlet)
            outlet.drop()

    def settle(self, patience: float | None, settled: set[Channel]) -> None:
        """Try failed sinks once more, each channel once; deliver the queued answers of subscribers."""
        for outlet in self.outlets:
            if outlet.channel in settled:
                continue
            settled.add(outlet.channel)
            try:
                outlet.flush()
            except NotKeptError as error:
                told = "what waits for %(sink)s, a sink of query %(query)s, is not stored: %(why)s"
                why = str(error)
                report(logger, logging.ERROR, "sink.unstored", told, query=self._query, sink=outlet.sink, why=why)
        for mailbox in list(self.mailboxes):
            mailbox.settle(patience)

    def close(self) -> None:
        """The query is dropped. Its answers stay with the program that holds it."""
        self.memory.forget(self.answers)
        self.kept_result = None
        for outlet in self.outlets:
            outlet.drop()


Delivery = tuple[Outward, Answer]


class Query:
    """A registered query, as `register` returns it. Safe to use from any thread."""

    def __init__(
        self,
        session: Session,
        query: RegisteredQuery,
        keep: int,
        memory: AnswerMemory,
        kept_result: KeptResult | None = None,
    ) -> None:
        self._session = session
        self.outward = Outward(query.name, keep, memory, kept_result)
        self.name = query.name
        # OR REPLACE, ALTER, PAUSE and RESUME leave it as it is.
        self.serial = query.first_serial
        self.become(query)

    def become(self, query: RegisteredQuery) -> None:
        """Stand for a registration: the first one, or one that has taken its place."""
        self.text = query.text
        self.comment = query.comment
        self.is_continuous = query.is_continuous
        self.is_paused = query.paused
        self.failure: SashError | None = None

    @property
    def cql(self) -> str:
        """The text with what it leaves to Sash: the windows of streams without one, and of other systems' calls."""
        return complete(as_select(self.text), self._session.catalog).cql

    @property
    def answered(self) -> int:
        """How many answers there were."""
        return self.outward.answered

    @property
    def subscriber_errors(self) -> int:
        """How often a subscriber raised."""
        return self.outward.subscriber_errors

    @property
    def error(self) -> SashError | None:
        """Why the query has failed, or what keeps its answers from a sink; None while all is well."""
        unwritten = (outlet.error for outlet in self.outward.outlets)
        return self.failure or next((error for error in unwritten if error is not None), None)

    def answers(self) -> list[Answer]:
        """The answers so far, oldest first: the last 1,000 by default."""
        self._recall()
        return list(self.outward.answers)

    def latest(self) -> Answer | None:
        """The newest answer, or None before the first."""
        self._recall()
        try:
            return self.outward.answers[-1]
        except IndexError:
            return None

    def columns(self) -> tuple[list[str], list[str]]:
        """The columns of its answers: those that identify a row, and the numbers; none before an answer."""
        latest = self.latest()
        if latest is None:
            return [], []
        schema = latest.table.schema
        values = value_columns(as_select(self.text).tree, schema)
        return key_columns(schema, values), values

    @property
    def is_list(self) -> bool:
        """Whether its answers are lists of items: TOP and its like."""
        return is_list(as_select(self.text).tree)

    def changes(self) -> pa.Table:
        """The changes of a continuous query so far: its columns and `_ts`, `_exp`, `_sign`."""
        tables = [answer.table for answer in self.answers()]
        if self._is_registered or not tables:
            return pa.concat_tables([self._session.continuous.schema(self).empty_table(), *tables])
        return pa.concat_tables(tables)

    def view(self) -> pa.Table:
        """The answer of a continuous query as of now; `as_of` is in the schema's metadata."""
        return self._session.continuous.view(self)

    def dataframe(self) -> DataFrame:
        """The remembered answers, or changes, as a Spark DataFrame with a column `as_of`."""
        from sash.spark.sinks import to_frame

        answers = self._alike()
        if not answers:
            raise SashError(f"query '{self.name}' has no answer yet")
        return to_frame(self._session.spark, answers)

    def write_to(self, format: str, **options: str) -> None:
        """Write each answer, or batch of changes, to a Spark sink from now on: `write_to("parquet", path="out")`.

        With a path, each answer goes to its own directory `as_of=..`, which is replaced if the answer comes again; with
        `shared="true"` several queries write there, with a column `query` (Parquet on a local disk). Answers that
        cannot be written wait, in order, and are tried again (runtime/answers/outlet.py); `error` and `stats()` say so.
        """
        from sash.spark.sinks import Sink
        from sash.spark.spark_faults import first_line

        sink = Sink(self._session.spark, format, options)
        if (columns := self._session.columns_of(self)) is not None:
            sink.check(*columns)
        self._check_place(sink.place, sink.channel)
        unwritten = self._session.place_for_unwritten(self, sink.digest)
        self.outward.add(Outlet(self.name, sink, unwritten, first_line, sink.place, self._session.channels))

    def _check_place(self, place: str | None, channel: str | None) -> None:
        """Refuse a path of another query that does not share it: answers as of one time would replace each other."""
        others = [query for query in list(self._session.queries.values()) if query is not self and place is not None]
        for other, outlet in ((query, outlet) for query in others for outlet in query.outward.outlets):
            if outlet.place == place and (channel is None or outlet.writer.channel != channel):
                raise SashError(
                    f"query '{other.name}' writes to '{place}' already, and each query needs a directory of its own: "
                    f"write_to(.., path='{place}/{self.name}'), or shared='true' for all of them"
                )

    def sinks(self) -> list[dict[str, Any]]:
        """Each sink of `write_to`: how much was written, how much waits, and why."""
        return [outlet.statistics() for outlet in self.outward.outlets]

    def subscribe(self, callback: Callable[[Answer], None], queue: int = 1_000, when_full: str = WAIT) -> Subscription:
        """Call back with each answer from now on, until the subscription is cancelled.

        By default in the thread of the micro-batch, before the commit: after a crash an answer may come again, no
        answer is left out, and a slow callback holds the stream up. With `when_full="drop_oldest"` or `"drop_newest"`
        on a thread of its own: at most `queue` answers wait, others are left out and counted (`subscribers`), a crash
        loses the waiting answers, and the stream never waits. `run()` returns when every queue is empty.
        """
        return self.outward.subscribe(callback, queue, when_full)

    def subscribers(self) -> list[dict[str, Any]]:
        """Each subscriber with a queue: how many answers were delivered, how many wait, how many were left out."""
        return [mailbox.statistics() for mailbox in list(self.outward.mailboxes)]

    def drop(self) -> None:
        """Unregister the query. It disappears at the next micro-batch; its answers so far stay readable here."""
        self._check_registered()
        self._session.drop_query(self.name)

    def pause(self) -> None:
        """Give no answers until `resume`. What the query reads stays stored: the next answer is complete."""
        self._check_registered()
        self._session.pause_query(self.name)

    def resume(self) -> None:
        """Give answers again, from the next micro-batch on."""
        self._check_registered()
        self._session.resume_query(self.name)

    def _alike(self) -> list[Answer]:
        """The answers with the columns of the newest one: a query that was replaced may have had others."""
        answers = self.answers()
        return [answer for answer in answers if answer.table.schema.equals(answers[-1].table.schema)]

    def _recall(self) -> None:
        """After a restart, load the answers since the last snapshot when somebody asks for them."""
        if self.is_continuous and self._is_registered:
            self._session.continuous.recall(self)

    def _check_registered(self) -> None:
        if not self._is_registered:
            raise CatalogError(f"query '{self.name}' has been dropped already")

    @property
    def _is_registered(self) -> bool:
        return self._session.queries.get(self.name) is self

    def plot(self, column: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the answers so far: a number over time, for each group its own; bars for lists and single answers.

        `column`: the number to draw, by default the first; `ax`: where, by default on axes of its own.
        """
        answers = self._alike()
        if answers and "_sign" in answers[-1].table.schema.names:
            raise SashError(f"the answers of query '{self.name}' are changes: give it a SLIDE to plot it over time")
        return plot_answers(self.name, self.is_list, answers, *self.columns(), column, ax)

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self._state}>"

    def _repr_html_(self) -> str:
        latest = self.latest()
        return query_html(self.name, self.text, self._state, None if latest is None else latest._repr_html_())

    @property
    def _state(self) -> str:
        if self.failure:
            return f"failed: {self.failure}"
        return f"{self.answered} answers{', paused' * self.is_paused}"


# The channels with answers of plans that wait for the end of the current thread's micro-batch.
_HELD: ContextVar[dict[Channel, None] | None] = ContextVar("held", default=None)


@contextmanager
def written_together() -> Iterator[None]:
    """Make one write per shared channel for all plans of a micro-batch: with its other answers, or at its end."""
    held: dict[Channel, None] = {}
    token = _HELD.set(held)
    try:
        yield
    except BaseException:
        for channel in held:
            channel.begin()
        raise
    finally:
        _HELD.reset(token)
    _write(held)


def deliver(told: Sequence[Delivery], *, by_plan: bool = False, again: bool = False) -> None:
    """Remember answers, then hand them outward before their commit: to sinks, written together, then to subscribers.

    Answers that were delivered before a restart come `again`: they are remembered only. A plan commits before the other
    plans of its micro-batch have answered, so answers that are to be written with theirs are stored first. An answer
    that can be neither written nor stored raises an error: the commit would promise it to the sink.
    """
    remember(told)
    if again:
        return
    added = [(outlet, answer) for outward, answer in told if outward.outlets for outlet in outward.outlets]
    for outlet, answer in added:
        outlet.add(answer)
    held, now = _HELD.get() if by_plan else None, dict[Channel, None]()
    for outlet in dict.fromkeys(outlet for outlet, _ in added):
        # A crowded line would be given up before its sink has been tried.
        if held is None or not outlet.channel.is_shared or outlet.is_crowded:
            now[outlet.channel] = None
        else:
            outlet.store()
            held[outlet.channel] = None
    _write(now)
    for outward, answer in told:
        if outward.subscribers:
            outward.tell(answer)


def remember(told: Sequence[Delivery]) -> None:
    """Keep answers in the memory of their session, and where questions find them."""
    if told:
        told[0][0].memory.add(told)
    for outward, answer in told:
        if outward.kept_result is not None:
            outward.kept_result.take(answer)


def fail_query(name: str, query: Query | None, why: str, *, reported: bool) -> None:
    """Report that a query cannot go on. `reported`: that was reported before a restart."""
    if not reported:
        report(logger, logging.ERROR, "query.failed", "query %(query)s failed: %(why)s", query=name, why=why)
    if query is not None:
        query.failure = QueryFailedError(f"query '{name}' failed: {why}")


def _write(channels: Iterable[Channel]) -> None:
    for channel in channels:
        channel.begin()
    for channel in channels:
        channel.wait_a_moment()
