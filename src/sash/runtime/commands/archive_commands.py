"""Commands about archives: CREATE, ALTER, DROP, SHOW, and opening them again after a restart.

It checks an archive that CREATE ARCHIVE declares: its source, its key, its lifetimes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from sash.archive import Archive
from sash.archive.archive import OWN, remove_archive
from sash.archive.manifest import MANIFEST
from sash.catalog import Catalog, DeclaredArchive, KeptForm, RegisteredQuery, Stream
from sash.core.changes import UpdatePattern, with_instants
from sash.core.errors import ArchiveError, CatalogError, CqlError, NotSupportedError, nearest
from sash.core.events import report
from sash.core.time import format_duration
from sash.plan.continuous import NT, Node, windows
from sash.runtime.answers.answer import Answer
from sash.runtime.answers.outlet import Outlet
from sash.runtime.answers.registered_query import Query
from sash.runtime.commands.declare import check_name
from sash.runtime.commands.query_commands import QueryCommands
from sash.runtime.continuous.continuous_queries import ContinuousQueries
from sash.runtime.records.catalog_history import archive_change
from sash.runtime.route import DecisionOf
from sash.runtime.session_parts import SessionParts
from sash.runtime.stored.archive_feed import ArchiveFeed
from sash.sql import AlterArchive, CreateArchive, Partitioning
from sash.sql.reading.cursor import Name
from sash.sql.types import spark_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The plan by which a continuous query is executed.
PlanOf = Callable[[RegisteredQuery], Node]


def declared_archive(
    statement: CreateArchive, catalog: Catalog, decision_of: DecisionOf, plan_of: PlanOf
) -> DeclaredArchive:
    """The archive with names as its source spells them; CqlError at the wrong word."""
    source = statement.source.text
    schema, of_changes = _schema(statement, catalog, decision_of, plan_of)
    if statement.lifetime < 2 * statement.every:
        least = format_duration(2 * statement.every)
        reason = f"LIFETIME UP TO {format_duration(statement.lifetime)} is over before the second update: take {least}"
        raise CqlError(f"{reason} or more, or update more often", statement.script, statement.key.span)
    life = statement.lifetime_column
    column = None if life is None else _column(schema, life, statement.script)
    if column is not None:
        _check_lifetime(schema.field(column).type, statement)
    return DeclaredArchive(
        statement.name.text,
        statement.source.text,
        schema,
        _column(schema, statement.key, statement.script),
        statement.lifetime,
        statement.every,
        None if statement.directory is None else str(Path(statement.directory).absolute()),
        column,
        of_changes,
        None if catalog.has_stream(source) else catalog.query(source).first_serial,
    )


def _column(schema: pa.Schema, name: Name, script: str) -> str:
    for known in schema.names:
        if known.lower() == name.text.lower():
            return str(known)
    raise CqlError(f"unknown column '{name.text}'{nearest(name.text, schema.names)}", script, name.span)


def _schema(
    statement: CreateArchive, catalog: Catalog, decision_of: DecisionOf, plan_of: PlanOf
) -> tuple[pa.Schema, bool]:
    """The columns of the stream or query that the archive is made from, and whether these are a query's changes."""
    source, script, named = statement.source, statement.script, statement.source.text.lower()
    if catalog.has_stream(named):
        return catalog.stream(named).schema, False
    if not catalog.has_query(named):
        known = [*(each.name for each in catalog.streams), *(each.name for each in catalog.queries)]
        raise CqlError(f"unknown stream or query '{source.text}'{nearest(source.text, known)}", script, source.span)
    if statement.lifetime_column is not None:
        reason = "results of a query have lifetimes of their own, or all the same one: LIFETIME UP TO .."
        raise CqlError(reason, script, statement.lifetime_column.span)
    query = catalog.query(named)
    decision = decision_of(query)
    if decision.kept_form is KeptForm.ANSWERS:
        return with_instants(decision.schema, *KeptForm.ANSWERS.times), False
    plan = plan_of(query)
    _check_plan(plan, query.name, query.execution == NT, statement)
    return plan.schema, True


def _check_plan(plan: Node, name: str, announced: bool, statement: CreateArchive) -> None:
    """Check that the plan's results say when they expire, and live no longer than the archive keeps them."""
    if announced and plan.pattern is not UpdatePattern.MONOTONIC:
        reason = f"query '{name}' is executed with negative tuples, and its results do not say when they expire"
        way_out = "SET EXECUTION upa before it is registered"
        raise CqlError(f"{reason}: {way_out}", statement.script, statement.source.span)
    if plan.pattern is UpdatePattern.STRICT:
        reason = f"an archive of query '{name}', whose results may be taken back before they expire"
        way_out = "archive a stream, a query without them (EXPLAIN shows the pattern), or one with SLIDE"
        raise NotSupportedError(f"{reason}: {way_out}", statement.script, statement.source.span)
    lengths = [each.window.length for each in windows(plan) if not each.window.unbounded]
    longest = max(lengths, default=0)
    if plan.pattern is not UpdatePattern.MONOTONIC and longest > statement.lifetime:
        reason = f"results of query '{name}' live up to {format_duration(longest)}"
        way_out = f"say LIFETIME UP TO {format_duration(longest)} or more"
        raise CqlError(
            f"{reason}, longer than the archive would keep them: {way_out}", statement.script, statement.source.span
        )


def _check_lifetime(type: pa.DataType, statement: CreateArchive) -> None:
    if not (pt.is_integer(type) or pt.is_floating(type) or pt.is_decimal(type) or pt.is_duration(type)):
        column = statement.lifetime_column
        assert column is not None
        reason = f"'{column.text}' is {spark_name(type)}: a lifetime is a number of seconds or an interval"
        raise CqlError(reason, statement.script, column.span)


logger = logging.getLogger("sash.runtime")

# The place beside the program, if nothing else is said and there is no checkpoint.
DEFAULT_PLACE = Path("sash-archives")


class ArchiveSink:
    """A query's answers on their way into an archive."""

    def __init__(self, feed: ArchiveFeed) -> None:
        self.feed = feed
        self.name = f"archive {feed.declared.name}"
        self.channel: str | None = None

    def write(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            if self.feed.declared.of_changes:
                self.feed.take_changes(answer.as_of, answer.table)
            else:
                self.feed.take_answer(answer.as_of, answer.table, answer.rows)


class ArchiveCommands:
    def __init__(self, shared: SessionParts, queries: QueryCommands, continuous: ContinuousQueries) -> None:
        self._shared = shared
        self._queries = queries
        self._continuous = continuous
        self._feeds: dict[str, ArchiveFeed] = {}
        # Archives of a checkpoint that cannot be opened, and why.
        self._closed: dict[str, str] = {}
        # Archives of a checkpoint that the program may still declare again.
        self._restored: set[str] = set()

    def _spark(self) -> SparkSession:
        return self._shared.spark

    # -- statements ------------------------------------------------------------------------------------

    def create(self, statement: CreateArchive) -> None:
        with self._shared.lock:
            decision_of, plan_of = self._queries.decision_of, self._continuous.plan
            declared = declared_archive(statement, self._shared.catalog, decision_of, plan_of)
            declared = replace(declared, serial=self._shared.history.version + 1)
            if declared.name.lower() in self._restored:
                self._check_same(declared)
                self.feed(declared.name)
                self._restored.discard(declared.name.lower())
                return
            check_name("archive", declared.name)
            self._shared.catalog.add_archive(declared)
            try:
                feed = self._opened(declared, statement.partitioning)
            except BaseException:
                self._shared.catalog.drop_archive(declared.name)
                raise
            self._feeds[declared.name.lower()] = feed
            self._attach(feed)

    def alter(self, statement: AlterArchive) -> None:
        try:
            feed = self.feed(statement.name.text)
        except CatalogError as error:
            raise CqlError(str(error), statement.script, statement.name.span) from None
        wanted = statement.partitioning
        feed.repartition(
            wanted.insertions, wanted.expiries, wanted.layout, None if wanted.is_auto else strategy_of(wanted)
        )

    def drop(self, name: str) -> None:
        """Remove the archive and its files."""
        with self._shared.lock:
            declared = self._shared.catalog.archive(name)
            # The history comes first: if it cannot be written, nothing happens.
            self._shared.history.append({"change": "drop archive", "name": declared.name})
            self._shared.catalog.drop_archive(declared.name)
            feed = self._feeds.pop(declared.name.lower(), None)
            self._closed.pop(declared.name.lower(), None)
            self._restored.discard(declared.name.lower())
            for running in self._shared.streams.values():
                running.feeds = [each for each in running.feeds if each is not feed]
        if feed is not None:
            for handle in self._shared.handles.values():
                handle.outward.remove(f"archive {feed.declared.name}")
            feed.close()
        remove_archive(self._place(declared))

    def show(self) -> pa.Table:
        rows = list(self.statistics().values())
        schema = pa.schema(
            {
                "name": pa.string(), "from": pa.string(), "key": pa.string(), "lifetime": pa.string(),
                "every": pa.string(), "partition": pa.string(), "layout": pa.string(), "strategy": pa.string(),
                "rows": pa.int64(), "bytes": pa.int64(), "files": pa.int64(),
                "updated": pa.timestamp("us", "UTC"), "directory": pa.string(), "error": pa.string(),
            }
        )  # fmt: skip
        return pa.Table.from_pylist(rows, schema)

    def feed(self, name: str) -> ArchiveFeed:
        declared = self._shared.catalog.archive(name)
        try:
            return self._feeds[declared.name.lower()]
        except KeyError:
            raise ArchiveError(self._why_closed(declared.name)) from None

    def check_open(self) -> None:
        """Refuse to run while an archive is closed: it would miss rows."""
        for name in self._closed:
            raise ArchiveError(self._why_closed(self._shared.catalog.archive(name).name))

    def _why_closed(self, name: str) -> str:
        why = self._closed[name.lower()]
        return f"archive '{name}' cannot be opened: {why}; put its files back and connect again, or DROP ARCHIVE {name}"

    def feed_now(self, name: str) -> ArchiveFeed:
        """The archive for a question: its time goes on also while the query has no results."""
        feed = self.feed(name)
        handle = self._handle(feed) if feed.declared.of_changes else None
        now = None if handle is None else self._continuous.reached(handle)
        # In this order: results up to `now` have been delivered, unless a delivery waits.
        if handle is not None and now is not None and not any(sink["waiting"] for sink in handle.sinks()):
            feed.advance(now, wait=False)
        return feed

    def statistics(self) -> dict[str, dict[str, Any]]:
        feeds = list(self._feeds.values())
        found = {feed.declared.name: {**feed.statistics(), "error": self._error(feed)} for feed in feeds}
        for name, why in list(self._closed.items()):
            declared = self._shared.catalog.archive(name)
            found[declared.name] = {"name": declared.name, "from": declared.source, "key": declared.key, "error": why}
        return found

    def _error(self, feed: ArchiveFeed) -> str | None:
        """Why the archive is not updated, or why its query's answers do not reach it."""
        handle = None if feed.declared.of_stream else self._handle(feed)
        unwritten = None if handle is None else handle.error
        return feed.error or (None if unwritten is None else str(unwritten))

    # -- after a restart -------------------------------------------------------------------------------

    def restore(self) -> None:
        """Open the archives of a checkpoint at once; their queries are known already."""
        for declared in self._shared.history.archives():
            self._shared.catalog.add_archive(declared)
            self._restored.add(declared.name.lower())
            try:
                archive = Archive.open(self._place(declared), write=True)
            except (OSError, ArchiveError) as error:
                told = "archive %(archive)s cannot be opened: %(why)s"
                report(logger, logging.ERROR, "archive.unopened", told, archive=declared.name, why=str(error))
                self._closed[declared.name.lower()] = str(error)
                continue
            feed = ArchiveFeed(declared, archive, self._spark)
            self._feeds[declared.name.lower()] = feed
            self._attach(feed)

    def attach_to(self, stream: Stream) -> None:
        """Connect archives to a stream that has just been opened."""
        running = self._shared.running(stream.name)
        running.feeds = [feed for feed in self._feeds.values() if feed.declared.reads(stream.name)]
        running.advance_feeds()

    def close(self) -> None:
        for feed in self._feeds.values():
            feed.close()

    # -- how -------------------------------------------------------------------------------------------

    def _handle(self, feed: ArchiveFeed) -> Query | None:
        """The query that fills an archive, if there is one: a later query of the same name does not."""
        return next((each for each in self._shared.handles.values() if each.serial == feed.declared.query), None)

    def _attach(self, feed: ArchiveFeed) -> None:
        source, handle = feed.declared.source, self._handle(feed)
        if handle is not None:
            sink = ArchiveSink(feed)
            place = self._shared.unwritten(handle, f"archive-{feed.declared.name.lower()}")
            handle.outward.add(Outlet(handle.name, sink, place, str))
        elif source.lower() in self._shared.streams:
            self.attach_to(self._shared.catalog.stream(source))

    def _opened(self, declared: DeclaredArchive, partitioning: Partitioning) -> ArchiveFeed:
        """Open an archive and write it into the history; if writing fails, remove a new archive again."""
        was_there = (self._place(declared) / MANIFEST).exists()
        feed = self._open(declared, partitioning)
        try:
            # Before the history: after a crash nobody would know that the waiting rows belong to another archive.
            feed.begin_anew()
            self._shared.history.append(archive_change(declared))
        except BaseException:
            if not was_there:
                remove_archive(self._place(declared))
            feed.close()
            raise
        return feed

    def _open(self, declared: DeclaredArchive, partitioning: Partitioning) -> ArchiveFeed:
        """Create an archive, or go on with an existing one of the same kind."""
        directory = self._place(declared)
        if (directory / MANIFEST).exists():
            archive = Archive.open(directory, write=True)
            try:
                self._check_spec(archive, declared, partitioning)
            except BaseException:
                archive.close()
                raise
        else:
            _check_empty(directory)
            archive = Archive.create(
                directory, declared.schema, declared.key, lifetime=declared.lifetime, every=declared.every,
                g=partitioning.insertions, e=partitioning.expiries, layout=partitioning.layout,
                strategy=None if partitioning.is_auto else strategy_of(partitioning),
            )  # fmt: skip
        return ArchiveFeed(declared, archive, self._spark)

    def _check_spec(self, archive: Archive, declared: DeclaredArchive, partitioning: Partitioning) -> None:
        spec = archive.spec
        for what, ours, theirs in (
            ("KEY", declared.key, spec.key),
            ("LIFETIME UP TO", format_duration(declared.lifetime), format_duration(spec.lifetime)),
            ("UPDATE EVERY", format_duration(declared.every), format_duration(spec.every)),
            ("columns", ", ".join(declared.schema.names), ", ".join(spec.schema.names)),
        ):
            if ours != theirs:
                raise ArchiveError(
                    f"there is an archive in {archive.directory} with {what} {theirs}, not {ours}; "
                    "declare it as it is, or choose another directory with IN"
                )
        if not partitioning.is_auto and (partitioning.insertions, partitioning.expiries) != (spec.g, spec.e):
            raise ArchiveError(
                f"there is an archive in {archive.directory} with PARTITION {spec.g} x {spec.e}; leave PARTITION out, "
                "and ALTER ARCHIVE changes it"
            )
        if not declared.schema.equals(spec.schema):
            raise ArchiveError(
                f"the archive in {archive.directory} has columns of other types; choose another directory"
            )

    def _check_same(self, declared: DeclaredArchive) -> None:
        known = self._shared.catalog.archive(declared.name)
        if replace(declared, serial=known.serial, query=known.query) != known:
            raise CatalogError(
                f"archive '{known.name}' is another one in the checkpoint; create it as it was, or DROP ARCHIVE "
                f"{known.name} first"
            )

    def _place(self, declared: DeclaredArchive) -> Path:
        if declared.directory is not None:
            return Path(declared.directory)
        checkpoint = self._shared.checkpoint
        return (DEFAULT_PLACE if checkpoint is None else checkpoint.archives).absolute() / declared.name.lower()


def _check_empty(directory: Path) -> None:
    """Check that a directory is empty, or was left by a crash before there was a manifest."""
    if directory.exists() and (not directory.is_dir() or {path.name for path in directory.iterdir()} - set(OWN)):
        raise ArchiveError(f"{directory} is no archive and not empty; choose another directory with IN '..'")


def strategy_of(partitioning: Partitioning) -> str:
    return "rebuild" if partitioning.rebuild else "no_rebuild"
