"""What the API takes and gives, as its OpenAPI page shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

_TOTALS = "SELECT src, SUM(length) AS bytes FROM packets [WINDOW 10 min SLIDE 1 min] GROUP BY src"
_ONCE = "SELECT MEDIAN(length) AS median FROM packets [WINDOW 5 min]"
_MOST = 2**31

# Times as everywhere here: with their zone, which is UTC.
Moment = Annotated[
    datetime, PlainSerializer(datetime.isoformat), WithJsonSchema({"type": "string", "format": "date-time"})
]


class _Request(BaseModel):
    """Refuses unknown fields instead of ignoring them."""

    model_config = ConfigDict(extra="forbid")


class NewQuery(_Request):
    """A query to register."""

    name: Annotated[
        str,
        Field(
            max_length=200,
            pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$",
            description="Letters, digits, `_`, `.` and `-`, with a letter or `_` first.",
            examples=["big_talkers"],
        ),
    ]
    text: Annotated[str, Field(description="A SELECT with a window; nothing else.", examples=[_TOTALS])]
    priority: Annotated[int, Field(ge=-_MOST, le=_MOST, description="More: earlier under overload.")] = 0
    lifetime: Annotated[str | None, Field(description="How long it lives, in event time.", examples=["8 hours"])] = None
    comment: Annotated[str, Field(max_length=2_000, description="What it is for.")] = ""
    keep: Annotated[
        str | None, Field(description="How long its results are stored for questions.", examples=["10 min"])
    ] = None
    replace: Annotated[bool, Field(description="Take the place of the query of this name, if there is one.")] = False


class Question(_Request):
    """A one-time question."""

    text: Annotated[str, Field(description="A SELECT whose window has no SLIDE.", examples=[_ONCE])]
    id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=100,
            pattern=r"^[A-Za-z0-9_.-]+$",
            description="By which it can be cancelled; without one it gets one.",
            examples=["median-1"],
        ),
    ] = None
    priority: Annotated[int, Field(ge=-_MOST, le=_MOST, description="Those with less stop for those with more.")] = 0
    timeout: Annotated[
        float | None, Field(gt=0, le=86_400, description="Seconds; not more than the server allows.", examples=[10])
    ] = None
    max_rows: Annotated[
        int | None, Field(ge=0, le=_MOST, description="Rows wanted; not more than the server gives.", examples=[1_000])
    ] = None


class ExplainRequest(_Request):
    """What to explain."""

    text: Annotated[str, Field(description="A SELECT, or REGISTER QUERY .. AS SELECT ..", examples=[_TOTALS])]


class AnswerColumn(BaseModel):
    name: str
    type: Annotated[str, Field(description="As SQL writes it.", examples=["BIGINT"])]


class Rows(BaseModel):
    """A table. Values that JSON has no exact form for are strings."""

    columns: list[AnswerColumn]
    rows: list[dict[str, Any]]
    truncated: Annotated[bool, Field(description="There are more rows than are given here.")] = False


class OneTimeAnswer(Rows):
    """The answer to a question."""

    id: str
    as_of: Moment | None = None
    complete: Annotated[bool, Field(description="The whole window is stored.")] = True


class RememberedAnswer(Rows):
    """An answer of a registered query."""

    query: str
    as_of: Moment
    complete: Annotated[bool, Field(description="The whole window lies within what is retained.")]
    scheduled: Annotated[bool, Field(description="`as_of` is one of the query's own multiples of SLIDE.")]
    counted: Annotated[int | None, Field(description="Windows of rows: how many tuples were counted.")] = None


class View(Rows):
    """What a continuous query says now."""

    query: str
    as_of: Annotated[Moment | None, Field(description="Null before the first micro-batch.")] = None


class QueryStatus(BaseModel):
    """A query that is registered."""

    name: str
    text: str
    kind: Literal["periodic", "continuous"]
    state: Literal["registered", "paused", "failed", "cannot write"]
    error: str | None = None
    answers: Annotated[int, Field(description="Given so far.")]
    last_as_of: Moment | None = None
    comment: str = ""


class RunningQuestion(BaseModel):
    """A question that has no answer yet."""

    id: str
    text: str
    seconds: Annotated[float, Field(description="Since it was asked.")]
    cancelled: Annotated[bool, Field(description="It was told to stop, and will soon.")]


class ExplanationText(BaseModel):
    text: str


class StreamHealth(BaseModel):
    state: Literal["idle", "running", "stopped", "ended", "failed"]
    error: str | None = None


class Health(BaseModel):
    """`ended`: the streams have no more to read; what they left can be asked."""

    state: Literal["idle", "running", "stopped", "ended", "failed", "closed"]
    error: str | None = None
    streams: dict[str, StreamHealth]


class Problem(BaseModel):
    """What is wrong with a request, and where in its text."""

    error: Annotated[str, Field(examples=["unknown column 'lenght'; did you mean 'length'?"])]
    line: Annotated[int | None, Field(description="Of the word in question, from 1.")] = None
    column: Annotated[int | None, Field(description="Of the word in question, from 1.")] = None
    excerpt: Annotated[str | None, Field(description="The line, with the word underlined.")] = None
