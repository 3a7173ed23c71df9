"""A streaming aggregation of Spark's own API as a stream and a CQL text over it, read from its analysed plan.

    df.where("length > 40")                         the plan, analysed
      .withWatermark("ts", "10 seconds")
      .groupBy(window("ts", "60 seconds"), "src")   Project, Filter            SELECT list, HAVING
      .agg(sum("length").alias("bytes"))            Aggregate                  aggregates, GROUP BY
      .where("bytes > 1000")                        Expand or Project          window(ts, ..)
                                                    EventTimeWatermark         DELAY of the stream
                                                    Project, Filter            substituted, WHERE
                                                    ──────── the cut ────────
                                                    (Project, Filter)          the stream's rows
                                                    StreamingRelation          its source

What lies below the cut is read as the stream, so DataFrames with the same cut share their stream. The best cut is the
source itself. Where CQL lacks an expression above it (`from_json`), or the time is computed, the cut goes above the
Project that computes it: `adopt` tries all cuts, the best first.

Expressions are texts of Spark's own (`Expression.sql`), made after each column has become what it is at the cut.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from sash.core.errors import SashError
from sash.core.time import SECOND, Micros, format_duration
from sash.plan.expressions import quoted

_MARKER, _SESSION, _DELAY = "spark.timeWindow", "spark.sessionWindow", "spark.watermarkDelayMs"
_TIME = re.compile(r"(\d+)_")
_TITLES = {"Expand": "rollup, cube or grouping sets (Expand)", "Generate": "explode or its like (Generate)"}
# Nodes that change neither rows nor columns.
_NAMES = ("SubqueryAlias", "View")
_ROWS_WAY_OUT = (
    "make a stream of the DataFrame before groupBy, session.create_stream('rows', df, timestamp='ts'), and register "
    "the aggregation as CQL"
)
_ANSWERS_WAY_OUT = "register the DataFrame before it, or write the query in CQL, whose answers take ORDER BY and LIMIT"
# Spark replaces some functions by others; of these, CQL knows only the replacement.
_INHERITS, _AS_REPLACED = "org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules", ("Between",)
_FUNCTIONS = ("PythonUDF", "PythonUDAF", "ScalaUDF", "ScalaAggregator", "HiveSimpleUDF", "HiveGenericUDF")


@dataclass(frozen=True)
class AdoptedAggregation:
    """The rows of a stream, `frame`, and the query over them. `stream` is a name made of everything that it reads."""

    frame: DataFrame
    stream: str
    timestamp: str
    delay: Micros
    granule: Micros
    select: str
    rest: str

    def text(self, stream: str) -> str:
        return f"SELECT {self.select} FROM {quoted(stream)} {self.rest}"


Result = TypeVar("Result")


def adopt(frame: object, take: Callable[[AdoptedAggregation], Result]) -> Result:
    """Offer `take` the readings of a DataFrame, the best first; return what `take` makes of the first that it accepts.

    SashError if `take` refuses all of them: the reason is that of the last.
    """
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        reason = "a DataFrame of Spark Connect has no plan that Sash could read"
        raise SashError(f"{reason}: make it with a classic session, such as session.spark")
    if not isinstance(frame, DataFrame):
        raise SashError(f"register takes a SELECT or a streaming DataFrame, not {frame!r}")
    if not frame.isStreaming:
        raise SashError(
            "register takes a streaming aggregation, and this DataFrame is static: make a stream of its rows with "
            "session.create_stream, and register a SELECT"
        )
    plan = _Plan(frame)
    failure = SashError("")
    for place in plan.cuts:
        try:
            return take(plan.cut(place))
        except SashError as error:
            # The reason of the highest cut, which is tried last, stands: it leaves the least to CQL.
            failure = error
    raise failure


@dataclass(frozen=True)
class _Window:
    """window(time, length, slide, start); `delay` is that of withWatermark, if its time has one."""

    time: Any
    length: Micros
    slide: Micros
    start: Micros
    delay: Micros | None


@dataclass
class _Reading:
    """What has been read from the cut upwards: `columns` by their ids in Spark, as expressions over the cut."""

    columns: dict[int, Any]
    conditions: list[Any] = field(default_factory=list)
    window: _Window | None = None


class _Plan:
    """The nodes of the plan from the source upwards: `rows` below the Aggregate, `above` behind it."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        nodes = _chain(frame._jdf.queryExecution().analyzed())
        kinds = [_kind(node) for node in nodes]
        # The last one; `_check` refuses others below it.
        place = len(kinds) - 1 - kinds[::-1].index("Aggregate") if "Aggregate" in kinds else len(kinds)
        self._rows, self._above = nodes[:place], nodes[place + 1 :]
        self._check(_kind(nodes[0]) if _children(nodes[0]) else None)
        if place == len(kinds):
            raise SashError(
                "this DataFrame has no aggregation: register takes df.groupBy(window('ts', ..), ..).agg(..); plain "
                "rows are a stream, session.create_stream"
            )
        self._aggregate = nodes[place]
        for node in (*self._rows[1:], *nodes[place:]):
            # An Expand has each window's arithmetic, and nothing else.
            for expression in [] if _kind(node) == "Expand" else _items(node.expressions()):
                _check_functions(expression)
        if any(_has_marker(key, _SESSION) for key in self._keys):
            raise _refused("session_window", f"{_ROWS_WAY_OUT}, which reads GROUP BY session_window(ts, '30 seconds')")
        self._token = f"_sash_{secrets.token_hex(4)}_"

    def _check(self, several: str | None) -> None:
        """Check the nodes; `several` is the lowest one if it has several inputs."""
        for node in self._above:
            if not _is_plain(node) or _kind(node) == "EventTimeWatermark":
                raise _refused(_kind(node), _ANSWERS_WAY_OUT)
        if any(_kind(node) == "Aggregate" for node in self._rows):
            raise _refused("an Aggregate over another", "register the inner one, and ask its answers in CQL")
        odd = (_kind(node) for node in self._rows[1:] if not _is_plain(node) and not _is_window(node))
        if (kind := next(odd, several)) is not None:
            raise _refused(kind, _ROWS_WAY_OUT)

    @property
    def _keys(self) -> list[Any]:
        return _items(self._aggregate.groupingExpressions())

    @property
    def cuts(self) -> list[int]:
        """The source, and each Project below the window."""
        window = next((place for place, node in enumerate(self._rows) if _is_window(node)), len(self._rows))
        return [0, *(place for place in range(1, window) if _kind(self._rows[place]) == "Project")]

    def cut(self, place: int) -> AdoptedAggregation:
        """The query over the rows of the node at a place."""
        attributes = _items(self._rows[place].output())
        names = [attribute.name() for attribute in attributes]
        named = (each.withName(f"{self._token}{number}_") for number, each in enumerate(attributes))
        plain = [_unqualified(self._java, each) for each in named]
        reading = _Reading({each.exprId().id(): made for each, made in zip(attributes, plain, strict=True)})
        for lower, node in pairwise([*self._rows[place:], self._aggregate]):
            self._read(node, lower, reading)
        keys = [self._over(key, reading) for key in self._keys if not _has_marker(key, _MARKER)]
        self._project(_items(self._aggregate.aggregateExpressions()), reading)
        where, reading.conditions = reading.conditions, []
        for node in self._above:
            self._read(node, self._aggregate, reading)
        return self._adopted(place, names, keys, where, reading)

    def _adopted(
        self, place: int, names: Sequence[str], keys: Sequence[Any], where: Sequence[Any], reading: _Reading
    ) -> AdoptedAggregation:
        window = reading.window
        if window is None:
            raise SashError(
                "this DataFrame groups by no window: groupBy(window('ts', '60 seconds', '5 seconds'), ..); an "
                "aggregation of everything so far is SELECT .. FROM stream [UNBOUNDED SLIDE 5 sec]"
            )
        delay = window.delay
        if delay is None and any(_kind(node) == "EventTimeWatermark" for node in self._rows):
            raise SashError("withWatermark is on another column than the window's; Sash has one time for a stream")
        text = partial(self._text, names)
        time = _TIME.fullmatch(window.time.sql().removeprefix(self._token))
        if time is None:
            raise SashError(
                f"the window is over {text(window.time)}: make a column of it first, df.withColumn('ts', ..), and give "
                "window('ts', ..)"
            )
        timestamp = names[int(time[1])]
        lengths = window.length, window.slide, window.start
        written = lengths if window.start else lengths[:2] if window.slide != window.length else lengths[:1]
        call = ", ".join([quoted(timestamp), *(f"'{format_duration(each)}'" for each in written)])
        # Tuples without a time belong to no window.
        conditions = [each for each in map(text, where) if each != f"({quoted(timestamp)} IS NOT NULL)"]
        rest = [f"WHERE {' AND '.join(conditions)}"] if conditions else []
        rest.append(f"GROUP BY {', '.join([f'window({call})', *map(text, keys)])}")
        if reading.conditions:
            rest.append(f"HAVING {' AND '.join(map(text, reading.conditions))}")
        outputs = _items((self._above or [self._aggregate])[-1].output())
        listed = (f"{text(reading.columns[each.exprId().id()])} AS {quoted(each.name())}" for each in outputs)
        fine = next(each for each in (SECOND, SECOND // 1_000, 1) if all(length % each == 0 for length in lengths))
        key = [*self._identity(place), timestamp, delay or 0, fine]
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:8]
        frame = self._frame_of(self._rows[place])
        name = f"{_format(self._rows[0])}_{digest}"
        return AdoptedAggregation(frame, name, timestamp, delay or 0, fine, ", ".join(listed), " ".join(rest))

    # -- from the cut upwards --------------------------------------------------------------------------

    def _read(self, node: Any, lower: Any, reading: _Reading) -> None:
        match _kind(node):
            case "Project":
                self._project(_items(node.projectList()), reading)
            case "Expand":
                # The other rows are those of the windows before.
                made, outputs = _items(node.projections().head()), _items(node.output())
                self._window(outputs[0], made[0], reading)
            case "Filter" if _kind(lower) != "Expand":
                reading.conditions.append(self._over(node.condition(), reading))

    def _project(self, listed: Sequence[Any], reading: _Reading) -> None:
        made = dict[int, Any]()
        for each in listed:
            number = each.exprId().id()
            if _kind(each) == "Alias" and _kind(each.child()) == "CreateNamedStruct" and _has_marker(each, _MARKER):
                self._window(each.toAttribute(), each.child(), reading)
                made[number] = reading.columns[number]
            else:
                made[number] = self._over(each.child() if _kind(each) == "Alias" else each, reading)
        reading.columns = made

    def _window(self, attribute: Any, struct: Any, reading: _Reading) -> None:
        """Read the window back from what Spark's analysis has made of it: start and end as arithmetic of its time."""
        start, end = (_items(struct.children())[place].child().child() for place in (1, 3))
        remainder = next(each for each in _nodes(start) if _kind(each) == "Remainder")
        shifted = remainder.left()
        time = shifted.left().child()
        delay = time.metadata().getLong(_DELAY) * 1_000 if _has_marker(time, _DELAY) else None
        length, slide, start_time = (int(each.value()) for each in (end.right(), remainder.right(), shifted.right()))
        reading.window = _Window(self._over(time, reading), length, slide, start_time, delay)
        reading.columns[attribute.exprId().id()] = _unqualified(self._java, attribute.withName("window"))

    def _over(self, expression: Any, reading: _Reading) -> Any:
        """The expression over the columns of the cut."""
        replaced = getattr(getattr(self._java.scala.collection.immutable, "Map$"), "MODULE$").empty()
        for old, new in self._replacements(expression, reading):
            replaced = replaced.updated(old, new)
        # For Scala a map is a partial function.
        return expression.transformDown(replaced)

    def _replacements(self, expression: Any, reading: _Reading) -> Iterator[tuple[Any, Any]]:
        inherits = self._java.java.lang.Class.forName(_INHERITS)
        for node in _nodes(expression):
            kind = _kind(node)
            if kind == "AttributeReference":
                yield node, reading.columns[node.exprId().id()]
            elif kind in _AS_REPLACED:
                yield node, self._over(node.replacement(), reading)
            elif inherits.isInstance(node):
                # Spark prints the parameters of such a function, which are not among its children.
                yield node, self._call(node.prettyName(), _items(node.parameters()), reading)
            elif kind == "RegExpReplace" and node.pos().sql() == "1":
                # The fourth argument, where to begin, is Spark's default: CQL has three arguments.
                yield node, self._call(node.prettyName(), _children(node)[:3], reading)

    def _call(self, name: str, arguments: Sequence[Any], reading: _Reading) -> Any:
        analysis = self._java.org.apache.spark.sql.catalyst.analysis
        call = getattr(getattr(analysis, "UnresolvedFunction$"), "MODULE$").apply
        return call(name, self._java.PythonUtils.toSeq([self._over(each, reading) for each in arguments]), False)

    def _text(self, names: Sequence[str], expression: Any) -> str:
        return re.sub(rf"{self._token}(\d+)_", lambda found: quoted(names[int(found[1])]), expression.sql())

    # -- below the cut ---------------------------------------------------------------------------------

    @property
    def _java(self) -> Any:
        return self._frame.sparkSession._jvm

    def _frame_of(self, node: Any) -> DataFrame:
        session = self._frame.sparkSession
        planned = self._java.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, node)
        return ClassicDataFrame(planned, session)

    def _identity(self, place: int) -> list[Any]:
        """What tells the rows of the node at a place from others."""
        source, prepared = self._rows[0], self._rows[1 : place + 1]
        texts = [[_kind(node), *(each.sql() for each in _items(node.expressions()))] for node in prepared]
        return [*_source_identity(source), source.schema().json(), texts]


def _source_identity(source: Any) -> list[Any]:
    """The format and the options of a source; of one that does not tell them, the object itself."""
    match _kind(source):
        case "StreamingRelation":
            opened = source.dataSource()
            return [opened.className(), sorted(_pairs(opened.options())), _items(opened.paths())]
        case "StreamingRelationV2":
            options = source.extraOptions().asCaseSensitiveMap()
            return [source.sourceName(), sorted([key, options[key]] for key in options)]
    return [source.toString(), source.hashCode()]


def _format(source: Any) -> str:
    match _kind(source):
        case "StreamingRelation":
            name = source.dataSource().className()
        case "StreamingRelationV2":
            name = source.sourceName()
        case _:
            name = "source"
    return re.sub(r"\W", "_", name.rsplit(".", 1)[-1].lower())


def _chain(node: Any) -> list[Any]:
    """The nodes from the source, or from the first with several inputs, upwards."""
    nodes = [node]
    while len(children := _children(node)) == 1:
        (node,) = children
        nodes.append(node)
    return nodes[::-1]


def _is_plain(node: Any) -> bool:
    return _kind(node) in ("Project", "Filter", "EventTimeWatermark", *_NAMES)


def _is_window(node: Any) -> bool:
    """Whether Spark's analysis has put this node in the place of window(..)."""
    if _kind(node) == "Expand":
        return _kind(node.projections().head().head()) == "CreateNamedStruct"
    if _kind(node) != "Project":
        return False
    made = (each for each in _items(node.projectList()) if _kind(each) == "Alias")
    return any(_kind(each.child()) == "CreateNamedStruct" and _has_marker(each, _MARKER) for each in made)


def _check_functions(expression: Any) -> None:
    for node in _nodes(expression):
        kind = _kind(node)
        if kind in _FUNCTIONS:
            reason = f"this DataFrame calls the function {node.name()} of the program ({kind})"
            raise SashError(f"{reason}: session.create_function makes one for CQL; {_ROWS_WAY_OUT}")
        if kind.endswith("Subquery"):
            raise _refused(f"a sub-query ({kind})", _ROWS_WAY_OUT)


def _refused(what: str, way_out: str) -> SashError:
    what = _TITLES.get(what, what)
    return SashError(f"this DataFrame has {what}, which register does not take: {way_out}")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _children(node: Any) -> list[Any]:
    return _items(node.children())


def _nodes(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _children(expression):
        yield from _nodes(child)


def _has_marker(expression: Any, marker: str) -> bool:
    return _kind(expression) in ("AttributeReference", "Alias") and bool(expression.metadata().contains(marker))


def _unqualified(java: Any, attribute: Any) -> Any:
    return attribute.withQualifier(java.PythonUtils.toSeq([]))


def _items(sequence: Any) -> list[Any]:
    """The items of Scala's sequence."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _pairs(options: Any) -> list[list[str]]:
    """The entries of Scala's map."""
    return [[pair._1(), pair._2()] for pair in _items(options.toSeq())]
