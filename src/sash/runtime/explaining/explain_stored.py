"""EXPLAIN of a question that Spark answers from stored windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sash.archive import Facts
from sash.catalog import CLUSTER, KeptForm, QueryResult, Route
from sash.core.changes import UpdatePattern
from sash.core.time import Micros, format_duration
from sash.runtime.explaining.explanation import Explanation, Section, time_sections
from sash.runtime.stored.archive_feed import ArchiveFeed, wanted_keys
from sash.runtime.stored.stored_access import (
    Access,
    ByOrder,
    ByPlace,
    ByProbe,
    ByValue,
    IndexesOf,
    choose_access,
    sorting_column,
)
from sash.runtime.stored.stored_indexes import COLLECTED, StoredIndexes
from sash.sql import ArchiveReading, Link, ResultReading, StoredQuestion, StoredReading, WindowOrder

if TYPE_CHECKING:
    from sash.runtime.asking.query_results import ResultAccess


def explain_rows(
    question: StoredQuestion,
    indexes_of: IndexesOf = lambda stream: None,
    feed_of: Callable[[str], ArchiveFeed] | None = None,
    access_of: Callable[[ResultReading], ResultAccess | None] = lambda reading: None,
) -> Explanation:
    """`feed_of` gives an archive that exists already."""
    since = "the newest closed sub-window" if question.windows else "now"
    lines = [f"  {line}" for line in _lines(question, indexes_of, feed_of, access_of)]
    how = Section("One-time", f"by Spark SQL over the stored rows, as of {since}", lines)
    return Explanation([*time_sections(reading.stream for reading in question.windows.values()), how])


def _lines(
    question: StoredQuestion,
    indexes_of: IndexesOf,
    feed_of: Callable[[str], ArchiveFeed] | None,
    access_of: Callable[[ResultReading], ResultAccess | None],
) -> Iterator[str]:
    access = choose_access(question, indexes_of)
    for view, reading in question.windows.items():
        yield f"{view}: {_window(reading)}"
        yield f"  {_access(reading, access[view], indexes_of(reading.stream), question.sorting)}"
    if any(way is None for way in access.values()):
        yield COLLECTED
    for view, table in question.tables.items():
        yield f"{view}: table {table.name}"
    for view, archived in question.archives.items():
        feed = None if feed_of is None else feed_of(archived.archive.name)
        yield f"{view}: archive {archived.archive.name}, {_archived(archived, feed)}"
        if feed is not None:
            yield f"  {_facts(feed.archive.facts())}"
    for view, result in question.results.items():
        yield f"{view}: query {result.result.name}, {_rows_asked(result.result)}{_kept(result.result)}"
        yield f"  {_result_access(result, access_of(result))}"
    placed = [way.sorting.sql for way in access.values() if isinstance(way, ByPlace)]
    yield placed[0] if placed else question.sql


_RESULTS = {
    Route.CHANGES: "the rows of its view",
    Route.NESTED_JOINS: "the rows of its view",
    Route.JOINED_PANES: "its last answer",
    Route.SETS: "its last answer",
    Route.PANES: "its answer as of the newest pane",
}


_LEAVING = {
    UpdatePattern.MONOTONIC: "an index only grows",
    UpdatePattern.WEAKEST: "the oldest rows leave an index first",
    UpdatePattern.WEAK: "rows leave an index in parts, when the last row of a part expires",
    UpdatePattern.STRICT: "an index has the changes that take rows back, and is made anew when most rows have gone",
}


_STORED = {
    KeptForm.ANSWERS: "the rows of its answers of the last",
    KeptForm.STREAM: "its results of the last",
    KeptForm.RELATION: "the rows that are there, and those that have left in the last",
}


def what_is_kept(form: KeptForm, keep: Micros) -> str:
    """What KEEP stores of a query, in words."""
    return f"{_STORED[form]} {format_duration(keep)}"


def _rows_asked(result: QueryResult) -> str:
    query = result.query
    return _RESULTS[query.route] if query.keep is None else what_is_kept(query.kept_form, query.keep)


def _kept(result: QueryResult) -> str:
    return "" if result.pattern is None else f" ({result.pattern.label}: {_LEAVING[result.pattern]})"


def _result_access(reading: ResultReading, access: ResultAccess | None) -> str:
    result, terms = reading.result, " AND ".join(map(str, reading.sought))
    if access is not None:
        index = f"the {access.index.kind} index on {access.index.column}, which has {access.values:,} values"
        return f"{access.sought}: found by {index}"
    if not reading.sought:
        return "every row"
    scanned = f"{terms}: looked for in every row"
    way_out = f"; CREATE INDEX ON {result.name} ({reading.sought[0].column}) would find the rows"
    return f"{scanned}{way_out if result.can_have_indexes else ''}"


def _archived(reading: ArchiveReading, feed: ArchiveFeed | None) -> str:
    key = reading.archive.key
    if reading.keys is None:
        return f"scanned; {key} = .., {key} IN (..) or {key} BETWEEN .. would probe it"
    if feed is None:
        return f"probed: {reading.keys}, in the row groups that may have it"
    wanted = wanted_keys(reading.keys, feed.archive.spec)
    size = feed.archive.probe_size(wanted)
    place = f"{size.row_groups:,} of {size.of_row_groups:,} row groups, {size.files:,} of {size.of_files:,} files"
    if feed.fits(wanted):
        return f"probed: {reading.keys}, in {place}"
    return f"{reading.keys}: in {place}, {size.bytes:,} bytes: Spark reads these files"


def _facts(facts: Facts) -> str:
    spec = facts.spec
    return (
        f"{spec.g} x {spec.e} sub-indices ({spec.layout.replace('_', ' ')}, {spec.strategy.replace('_', ' ')}), "
        f"{facts.files:,} files, {facts.rows:,} rows, {facts.bytes:,} bytes; plus the rows since the last update"
    )


def _access(
    reading: StoredReading, access: Access | None, indexes: StoredIndexes | None, sorting: WindowOrder | None
) -> str:
    """How the question finds its rows."""
    if access is None or indexes is None:
        return _scan(reading, indexes, sorting)
    values = indexes.values(access.index)
    index = f"the {access.index.kind} index on {access.index.column}, which has {values:,} values"
    match access:
        case ByValue(sought=sought):
            return f"{sought}: found by {index}"
        case ByProbe(link=link):
            return f"{_equality(link)}: {index}, is probed with those of {link.other}; with too many values, every row"
        case ByOrder(leading=leading):
            return f"{leading}: the first {leading.count:,} rows, and those equal to the last, found by {index}"
        case ByPlace(sorting=sorting):
            return f"{sorting}: every row, with its place in this order by {index}; Spark does not sort"


def _scan(reading: StoredReading, indexes: StoredIndexes | None, sorting: WindowOrder | None) -> str:
    """The lines of a question without an index: the values it looks for, and an index that would help."""
    if reading.stream.keep_in == CLUSTER:
        terms = " AND ".join(map(str, reading.sought)) or "every row"
        return f"{terms}: looked for by Spark in every file of the window"
    if reading.sought:
        terms, columns = " AND ".join(map(str, reading.sought)), [each.column for each in reading.sought]
        scanned = f"{terms}: looked for in every row"
        if indexes is not None and (known := indexes.known(columns)):
            return f"{scanned}; the index on {known.column} has {indexes.values(known):,} values, too few to help"
        return f"{scanned}; CREATE INDEX ON {reading.stream.name} ({columns[0]}) would find the rows"
    wanting = [link for link in reading.links if indexes is None or indexes.known([link.column]) is None]
    if wanting:
        way_out = f"CREATE INDEX ON {reading.stream.name} ({wanting[0].column}) might find the rows that join"
        return f"{_equality(wanting[0])}: every row; {way_out}"
    if reading.leading is not None and (indexes is None or indexes.known([reading.leading.column]) is None):
        way_out = f"CREATE INDEX ON {reading.stream.name} ({reading.leading.column}) would find the first"
        return f"{reading.leading}: every row; {way_out}"
    column = None if sorting is None else sorting_column(reading, sorting)
    if column is not None and (indexes is None or indexes.known([column]) is None):
        return f"{sorting}: every row; CREATE INDEX ON {reading.stream.name} ({column}) would have their order"
    return "every row"


def _equality(link: Link) -> str:
    return f"{link.column} = {link.other}.{link.other_column}"


def _window(reading: StoredReading) -> str:
    stream = reading.stream
    assert stream.keep is not None
    partition = f"PARTITION BY {', '.join(reading.partition)} " if reading.partition else ""
    window = "[NOW]" if reading.now else str(reading.window).replace("[", f"[{partition}", 1)
    lengths = f"{format_duration(stream.keep)} in sub-windows of {format_duration(stream.sub_window)}"
    place = ", in the cluster" if stream.keep_in == CLUSTER else ""
    return f"{stream.name} {window}, of the stored {lengths}{place}"
