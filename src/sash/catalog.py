"""The named objects of a session: streams, tables, archives and registered queries.

Its history counts its versions (runtime/records/catalog_history.py). A version is stored with each epoch, so that a
micro-batch that is replayed after a crash sees the queries that it saw before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import pyarrow as pa

from sash.core.changes import AS_OF, EXP, TS, UpdatePattern, with_instants
from sash.core.errors import CatalogError, nearest
from sash.core.time import SECOND, Micros
from sash.core.user_aggregate import UserAggregate
from sash.core.user_function import UserFunction

# Where tuples may be stored.
MEMORY, CLUSTER = "memory", "cluster"
# More sub-windows would make answers younger by an unnoticeable time, and slides more expensive.
_MOST_SUB_WINDOWS = 600
# Sources with fixed columns: the column with event time need not be declared.
EVENT_TIMES = {"pcap": "ts"}


class RelationColumns:
    """The columns of a relation by their names in any case, as Spark resolves them."""

    schema: pa.Schema

    @cached_property
    def columns(self) -> dict[str, pa.Field]:
        """The columns by their lower-case names. Of two names that differ by case alone, the first counts."""
        found: dict[str, pa.Field] = {}
        for column in self.schema:
            found.setdefault(column.name.lower(), column)
        return found

    def column(self, name: str) -> pa.Field | None:
        return self.columns.get(name.lower())


@dataclass(frozen=True)
class Source:
    """A Spark streaming source: its format's name and its options."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)


def one_in(part: str) -> int:
    """The n of a part of the tuples that is one in n; ValueError with a reason otherwise.

    >>> one_in("0.25")
    4
    """
    try:
        fraction = Fraction(part)
    except ValueError:
        fraction = Fraction(0)
    if fraction.numerator != 1 or not 2 <= fraction.denominator <= 1_000:
        raise ValueError(f"the part to keep is one in n, such as 0.5, 0.25, 0.2 or 0.1, not {part}")
    return fraction.denominator


# TIMESTAMP ARRIVAL: the name of the column that such a stream gets.
ARRIVAL = "arrival"


@dataclass(frozen=True)
class Stream(RelationColumns):
    """A stream as CREATE STREAM or `create_stream` declares it. All durations in microseconds.

    `keep` is how long its tuples are stored for one-time questions; None: not at all. `keep_in` is where: in the
    driver's memory, or in the cluster. `shed`: under overload one tuple in so many may be kept; None: all are, always.
    `shed_approx`: also for queries whose answers cannot be scaled; `shed_first`: the condition of the tuples that are
    shed before all others, in SQL. `max_jump` is how far ahead of all others a tuple
    may be; None: as far as it likes. `inferred`: the columns are the source's own, none were declared. `serial` is the
    catalog's version that it came with. `implicit`: the timestamp is that of a tuple's arrival, in the last column,
    which the source does not have.
    """

    name: str
    schema: pa.Schema
    timestamp: str
    delay: Micros = 0
    granule: Micros = SECOND
    offset: Micros = 0
    closed_left: bool = False
    late_revise: bool = False
    idle_after: Micros | None = None
    keep: Micros | None = None
    keep_in: str = MEMORY
    shed: int | None = None
    shed_approx: bool = False
    shed_first: str | None = None
    max_jump: Micros | None = None
    source: Source | None = None
    inferred: bool = False
    serial: int = 0
    implicit: bool = False

    @property
    def declared(self) -> pa.Schema | None:
        """The columns to ask a source for; None if the source has its own."""
        return None if self.inferred else self.source_schema

    @property
    def source_schema(self) -> pa.Schema:
        """The columns that the source has."""
        return pa.schema(list(self.schema)[:-1]) if self.implicit else self.schema

    @property
    def directory(self) -> str:
        """The directory of its files: a stream that is created again under the same name begins anew."""
        return f"{self.name.lower()}-{self.serial}"

    @property
    def sub_window(self) -> Micros:
        """The length of the sub-windows of its stored window: as few granules as possible."""
        assert self.keep is not None
        return -(-self.keep // (self.granule * _MOST_SUB_WINDOWS)) * self.granule


@dataclass(frozen=True)
class Table(RelationColumns):
    """A relation, or a non-retroactive one (thesis 3.3.1): its changes leave what arrived before them as it was.

    A row is known by its `key`. `serial` is the catalog's version that it came with.
    """

    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    retroactive: bool = True
    serial: int = 0

    @property
    def kind(self) -> str:
        return "TABLE" if self.retroactive else "NONRETROACTIVE TABLE"


@dataclass(frozen=True)
class StoredIndex:
    """An index of one column over a stream's stored window, or over the rows of a query's result.

    `stream` is the name of the stream or query; `query` is the serial number of a query.
    """

    stream: str
    column: str
    kind: str
    query: int | None = None


@dataclass(frozen=True)
class DeclaredArchive(RelationColumns):
    """Rows of a stream or of a query's results, kept on disk until they expire (archive/).

    `source` is the name of the stream or query. A row lives for the time in `lifetime_column`, or until its own expiry
    if it is a result that has one, at most for `lifetime`. `query` is the serial number of a source that is a
    query; `of_changes`: it yields changes. Without a `directory` it is where the session keeps its archives.
    `serial` is the catalog's version that it came with.
    """

    name: str
    source: str
    schema: pa.Schema
    key: str
    lifetime: Micros
    every: Micros
    directory: str | None = None
    lifetime_column: str | None = None
    of_changes: bool = False
    query: int | None = None
    serial: int = 0

    @property
    def of_stream(self) -> bool:
        return self.query is None

    def reads(self, source: str) -> bool:
        return self.source.lower() == source.lower()


class Route(StrEnum):
    """Which runtime answers a query (runtime/route.py decides). The catalog stores the route of a registered query."""

    PANES = "panes"
    JOINED_PANES = "joined panes"
    SETS = "sets"
    CHANGES = "changes"
    NESTED_JOINS = "nested joins"

    @property
    def has_view(self) -> bool:
        """Whether a view has the rows of the answer as of now; else the query has its last answer."""
        return self in (Route.CHANGES, Route.NESTED_JOINS)


class KeptForm(StrEnum):
    """What KEEP stores of a query: the rows of its answers, the results of a stream, or the rows of a relation."""

    ANSWERS = "answers"
    STREAM = "stream"
    RELATION = "relation"

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of times that stored rows have: of their answer; when they came; when they came and left."""
        return {KeptForm.ANSWERS: (AS_OF,), KeptForm.STREAM: (TS,), KeptForm.RELATION: (TS, EXP)}[self]


@dataclass(frozen=True)
class RegisteredQuery:
    """`serial` is the catalog's version that it came with: it tells a query from an earlier one of the same name.

    `synopsis` is the kind that its user has set; None leaves the choice to the optimiser. `streams` are all the
    streams that a continuous query reads, `tables` its tables; a periodic one has none here and reads `stream`.
    `execution` is the strategy of a continuous query, and `measurements` (kind, name, number) are the statistics of
    its streams when its plan was chosen: a restart comes to the same plan, whatever the statistics are then. `lazy`:
    the plan is evaluated at the multiples of SLIDE alone. `state` is the directory of its plan's state
    (runtime/continuous/plans.py). `aggregates` and `functions` are those of the program that it calls. `counters`:
    COUNT_MIN reads counters of values; in earlier versions of Sash it read the counts of all values, and such queries
    still do.
    `comment` is the user's. `keep` is for how long its results are stored for questions, `kept_form` in which form;
    None: not at all.
    `replaced_since` is the serial of the first query in a chain of replacements that ends here; 0: there is none.
    `paused`: the query gives no answers, and what it reads stays stored.
    """

    name: str
    text: str
    stream: str
    priority: int = 0
    lifetime: Micros | None = None
    serial: int = 0
    synopsis: str | None = None
    streams: tuple[str, ...] = ()
    execution: str = "upa"
    tables: tuple[str, ...] = ()
    measurements: tuple[tuple[str, str, float], ...] = ()
    state: str = ""
    route: Route = Route.PANES
    lazy: bool = False
    aggregates: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    counters: bool = True
    comment: str = ""
    keep: Micros | None = None
    kept_form: KeptForm = KeptForm.ANSWERS
    replaced_since: int = 0
    paused: bool = False

    def asked_schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns that questions find, of a query whose answers have these."""
        return schema if self.keep is None else with_instants(schema, *self.kept_form.times)

    @property
    def first_serial(self) -> int:
        """The serial number of the handle: subscribers, sinks and archives go on when the query is replaced."""
        return self.replaced_since or self.serial

    @property
    def is_continuous(self) -> bool:
        return self.route is not Route.PANES

    def reads(self, stream: str) -> bool:
        return stream.lower() in (name.lower() for name in self.streams or (self.stream,))

    def reads_table(self, table: str) -> bool:
        return table.lower() in (name.lower() for name in self.tables)


@dataclass(frozen=True)
class QueryResult(RelationColumns):
    """The result of a registered query, as a relation for questions: the present one, or what KEEP stores.

    `pattern` is how changes keep its rows up to date, so that the rows can have an index; None: it is made anew.
    """

    query: RegisteredQuery
    schema: pa.Schema
    pattern: UpdatePattern | None = None

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def can_have_indexes(self) -> bool:
        return self.pattern is not None


class Catalog:
    """Names are case-insensitive, as in Spark, and keep the spelling they were given."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}
        self._tables: dict[str, Table] = {}
        self._queries: dict[str, RegisteredQuery] = {}
        self._archives: dict[str, DeclaredArchive] = {}
        self.indexes: list[StoredIndex] = []
        # By lower-case name. The functions are the program's, so no checkpoint has them.
        self.aggregates: dict[str, UserAggregate] = {}
        self.functions: dict[str, UserFunction] = {}

    @property
    def archives(self) -> list[DeclaredArchive]:
        return list(self._archives.values())

    @property
    def streams(self) -> list[Stream]:
        return list(self._streams.values())

    @property
    def tables(self) -> list[Table]:
        return list(self._tables.values())

    @property
    def queries(self) -> list[RegisteredQuery]:
        return list(self._queries.values())

    def still_has(self, relations: Iterable[Stream | Table]) -> bool:
        """Whether the streams and tables that a text was bound to are still those of their names."""
        places = ((each, each.name.lower()) for each in relations)
        return all(self._streams.get(name) is each or self._tables.get(name) is each for each, name in places)

    def has(self, kind: str, name: str) -> bool:
        """Whether there is a query, stream, table or archive of a name."""
        return name.lower() in self._names[kind]

    @property
    def _names(self) -> dict[str, Collection[str]]:
        """Lower-case names, by kind."""
        return {"stream": self._streams, "table": self._tables, "archive": self._archives, "query": self._queries}

    def stream(self, name: str) -> Stream:
        try:
            return self._streams[name.lower()]
        except KeyError:
            hint = nearest(name, (stream.name for stream in self.streams)) or "; CREATE STREAM makes one"
            raise CatalogError(f"unknown stream '{name}'{hint}") from None

    def has_stream(self, name: str) -> bool:
        return name.lower() in self._streams

    def table(self, name: str) -> Table:
        try:
            return self._tables[name.lower()]
        except KeyError:
            hint = nearest(name, (table.name for table in self.tables)) or "; CREATE TABLE makes one"
            raise CatalogError(f"unknown table '{name}'{hint}") from None

    def has_table(self, name: str) -> bool:
        return name.lower() in self._tables

    def query(self, name: str) -> RegisteredQuery:
        try:
            return self._queries[name.lower()]
        except KeyError:
            hint = nearest(name, (query.name for query in self.queries)) or "; no query is registered"
            raise CatalogError(f"unknown query '{name}'{hint}") from None

    def find_query(self, name: str, serial: int) -> RegisteredQuery | None:
        """A query that may have been dropped, or the one in its place; a later query of its name is not found."""
        query = self._queries.get(name.lower())
        return query if query is not None and query.first_serial <= serial else None

    def has_query(self, name: str) -> bool:
        return name.lower() in self._queries

    def archive(self, name: str) -> DeclaredArchive:
        try:
            return self._archives[name.lower()]
        except KeyError:
            hint = nearest(name, (archive.name for archive in self.archives)) or "; CREATE ARCHIVE makes one"
            raise CatalogError(f"unknown archive '{name}'{hint}") from None

    def has_archive(self, name: str) -> bool:
        return name.lower() in self._archives

    def add_archive(self, archive: DeclaredArchive) -> None:
        self._check_free("archive", archive.name)
        self._archives[archive.name.lower()] = archive

    def drop_archive(self, name: str) -> DeclaredArchive:
        archive = self.archive(name)
        del self._archives[name.lower()]
        return archive

    def _check_free(self, wanted: str, name: str) -> None:
        """Check that a name in FROM has one meaning."""
        for kind, known in self._names.items():
            # A query may be named as a stream.
            if kind == "query" or name.lower() not in known:
                continue
            if kind == wanted:
                raise CatalogError(f"{kind} '{name}' exists already; DROP {kind.upper()} {name} first")
            raise CatalogError(f"'{name}' is {_a(kind)} already; choose another name for the {wanted}")

    def add_stream(self, stream: Stream) -> None:
        self._check_free("stream", stream.name)
        self._streams[stream.name.lower()] = stream

    def check_unread_stream(self, name: str) -> Stream:
        """A stream that may be dropped."""
        stream = self.stream(name)
        users = [query.name for query in self.queries if query.reads(name)]
        if users:
            raise CatalogError(f"stream '{stream.name}' is read by {', '.join(users)}; DROP QUERY them first")
        self.check_unarchived("stream", stream.name)
        return stream

    def drop_stream(self, name: str) -> None:
        """Drop a stream, even if queries read it: a stream that could not be opened goes, too."""
        del self._streams[self.stream(name).name.lower()]
        gone = [index for index in self.indexes if index.query is None and index.stream.lower() == name.lower()]
        self.indexes = [index for index in self.indexes if index not in gone]

    def add_table(self, table: Table) -> None:
        self._check_free("table", table.name)
        self._tables[table.name.lower()] = table

    def check_unread_table(self, name: str) -> Table:
        """A table that may be dropped."""
        table = self.table(name)
        users = [query.name for query in self.queries if query.reads_table(name)]
        if users:
            raise CatalogError(f"table '{table.name}' is read by {', '.join(users)}; DROP QUERY them first")
        return table

    def drop_table(self, name: str) -> Table:
        table = self.check_unread_table(name)
        return self._tables.pop(table.name.lower())

    def check_new_query(self, name: str) -> None:
        if self.has_query(name):
            raise CatalogError(
                f"a query named '{name}' is registered already; REGISTER OR REPLACE it, or choose another name"
            )

    def add_query(self, query: RegisteredQuery) -> None:
        self.check_new_query(query.name)
        self._queries[query.name.lower()] = query

    def replace_query(self, query: RegisteredQuery) -> None:
        """Put a query in the place of the one of its name. Queries are in the order of their serial numbers."""
        del self._queries[self.query(query.name).name.lower()]
        self._queries[query.name.lower()] = query

    def drop_query(self, name: str) -> RegisteredQuery:
        query = self.query(name)
        del self._queries[name.lower()]
        self.indexes = [index for index in self.indexes if index.query != query.serial]
        return query

    def check_unarchived(self, kind: str, name: str) -> None:
        """Refuse to drop the source of an archive; a query whose LIFETIME ends goes all the same."""
        users = [archive.name for archive in self.archives if archive.reads(name)]
        if users:
            raise CatalogError(f"{kind} '{name}' fills the archive {', '.join(users)}; DROP ARCHIVE it first")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
