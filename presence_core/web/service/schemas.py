"""What is sent to the service, and how it is written. Limits are the library's: here are only shapes."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter, read_attributes
from presence_core.models import Block, Ended, PublicEnd, Session, plain
from presence_core.web.problems import NOT_JSON, is_json

_FACETS: Final = ("text", "uid", "name_prefix", "name_contains", "ip", "device", "app", "app_version", "os", "browser")
_RULE: Final = "must be an ISO time with its zone, or Unix seconds"

_SECONDS: Final = re.compile(r"(?![0-9]{8}$)[0-9]{1,12}(\.[0-9]{1,9})?")
"""Of eight digits nobody knows whether they are a date."""

Moment = str | float
"""An ISO time with its zone, or Unix seconds."""


def answer(value: Any, status: int = 200) -> Response:
    """A record, or whatever holds records, as JSON."""
    return Response(json.dumps(written(value), ensure_ascii=False, separators=(",", ":")), status, None,
                    "application/json")  # fmt: skip


def written(value: Any) -> Any:
    """Records in plain data; filters as they are asked for."""
    if isinstance(value, SessionFilter):
        return json.loads(value.to_json())
    if isinstance(value, list):
        return [written(item) for item in value]
    if isinstance(value, dict):
        return {name: written(item) for name, item in value.items()}
    if isinstance(value, Session | Ended):
        return {"ref": value.ref} | plain(value)
    if hasattr(value, "__dataclass_fields__"):
        return {name: written(getattr(value, name)) for name in value.__dataclass_fields__}
    return plain(value)


def moment(field: str, value: Moment | None) -> datetime | float | None:
    """A time as it is written in a query or a body."""
    if value is None or isinstance(value, int | float):
        return value
    if _SECONDS.fullmatch(value):
        return float(value)
    try:  # in a query, the plus of a zone that was not encoded has become a space
        at = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
    except ValueError:
        raise InvalidArgument(field, _RULE) from None
    if at.tzinfo is None:
        raise InvalidArgument(field, _RULE)
    return at


class Query(BaseModel):
    """Base of what stands in a query. A name that is not known is a slip, and must not ask for everything."""

    model_config = ConfigDict(extra="forbid")


class Paged(Query):
    """Where a page begins, and how long it is."""

    limit: int = Field(50, description="1 to 1000")
    cursor: str | None = Field(None, description="next_cursor of the page before")


class Sought(Query):
    """Every field of SessionFilter; all that are given must hold."""

    text: str | None = Field(None, description="start of the uid, of a word of name or alias; or an address or block")
    uid: str | None = None
    name_prefix: str | None = Field(None, description="start of a word of the name")
    name_contains: str | None = None
    ip: str | None = Field(None, description="address or block at login, such as 192.0.2.0/24")
    device: str | None = None
    app: str | None = None
    app_version: str | None = None
    os: str | None = None
    browser: str | None = None
    logged_in_after: Moment | None = None
    logged_in_before: Moment | None = None
    idle_for: int | None = Field(None, description="not seen for at least so many seconds")

    def filter(self, attributes: dict[str, Any] | None) -> SessionFilter:
        """What is asked for, checked."""
        return SessionFilter(
            **{name: getattr(self, name) for name in _FACETS},
            logged_in_after=moment("logged_in_after", self.logged_in_after),
            logged_in_before=moment("logged_in_before", self.logged_in_before),
            idle_for=self.idle_for,
            attributes=attributes or None,
        )


class SessionsQuery(Sought, Paged):
    """GET /v1/sessions."""

    attribute: list[str] = Field([], description="NAME=VALUE, VALUE being JSON or else text; may be given again")

    def asked(self) -> SessionFilter | None:
        """The filter; None where nothing is asked for."""
        asked = self.filter(read_attributes(self.attribute))
        return asked if asked.given else None


class PeriodQuery(Query):
    """From when to when."""

    since: Moment | None = None
    until: Moment | None = None

    def period(self) -> dict[str, Any]:
        """Both as the library takes them."""
        return {name: moment(name, getattr(self, name)) for name in ("since", "until")}


class EndedQuery(PeriodQuery, Paged):
    """GET /v1/ended."""

    uid: str | None = None
    reason: str | None = Field(None, description="logout, expired, kicked or replaced")
    by: str | None = None


class AuditQuery(PeriodQuery, Paged):
    """GET /v1/audit."""

    uid: str | None = None
    by: str | None = None


class HistoryQuery(PeriodQuery):
    """GET /v1/history."""

    since: Moment
    step: int | None = Field(None, description="seconds of a bucket, a multiple of 10")


class EventsQuery(Query):
    """GET /v1/events."""

    after: str | None = Field(None, description="as Last-Event-ID, which counts where both are given")


class PeopleQuery(Query):
    """GET /v1/people."""

    text: str = Field(description="start of the uid, or of a word of name or alias")
    limit: int = Field(20, description="1 to 100")


# -- bodies -----------------------------------------------------------------------------------------------------------


class Body(BaseModel):
    """Base of what is sent: nothing unknown, and a number is no text."""

    model_config = ConfigDict(extra="forbid", strict=True)


B = TypeVar("B", bound=Body)


def by_hand(body: type[Body], scope: str = "record") -> dict[str, Any]:
    """What the schema says of a route that takes in key and body by itself. The two that a site asks on each of its own
    requests do so: the framework's way of finding arguments takes longer than all the rest together."""
    content = {"application/json": {"schema": body.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}, "security": [{"API key": [scope]}]}


async def read_body(request: Request, kind: type[B]) -> B:
    """The body of such a route."""
    raw = await request.body()
    if raw and not is_json(request):
        raise HTTPException(415, NOT_JSON)
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        places = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False, include_input=False)]
        raise RequestValidationError(places) from None


class LoginBody(Body):
    """POST /v1/sessions."""

    uid: str
    name: str | None = None
    aliases: list[str] = []
    device: str | None = None
    app: str | None = None
    app_version: str | None = None
    ip: str | None = None
    user_agent: str | None = None
    attributes: dict[str, Any] | None = None
    session_id: str | None = None
    idle_timeout: int | None = None
    absolute_timeout: int | None = None


class ValidateBody(Body):
    """POST /v1/validate."""

    token: str
    touch: bool = True
    ip: str | None = None


class HeartbeatsBody(Body):
    """POST /v1/heartbeats."""

    refs: list[str] = Field(description="uid:session_id")


class WhyBody(Body):
    """What staff say of an act."""

    reason: str = Field(description="for staff")
    message: str | None = Field(None, description="for the visitor")
    ticket: str | None = None


class KickBody(WhyBody):
    """POST /v1/kicks."""

    uid: str
    session_id: str | None = Field(None, description="one session; by default all of the user's")
    keep: list[str] = Field([], description="session ids to be spared")
    block_for: int | None = Field(None, description="seconds for which the user may not log in again")


class FilterBody(Sought):
    """A SessionFilter."""

    model_config = ConfigDict(extra="forbid", strict=True)

    attributes: dict[str, Any] | None = None

    def asked(self) -> SessionFilter:
        """The filter, checked."""
        return self.filter(self.attributes)


class PreviewBody(Body):
    """POST /v1/kicks/preview."""

    filter: FilterBody
    exclude: list[str] = Field([], description="uid:session_id to be spared")


class JobBody(WhyBody, PreviewBody):
    """POST /v1/jobs."""

    expected: int = Field(description="the most that may be ended: the preview's total")
    pace: int | None = Field(None, description="sessions a second at most")


class BlockBody(WhyBody):
    """PUT /v1/users/{uid}/block."""

    duration: int | None = Field(None, description="seconds; by default until unblocked")
    until: Moment | None = Field(None, description="in place of duration: the block ends then")
    shorten: bool = Field(False, description="also where the block that there is ends later")


class RevocationBody(Body):
    """POST /v1/revocations."""

    reason: str
    message: str | None = None
    at: Moment | None = Field(None, description="sessions that began before this; by default now")


# -- answers ----------------------------------------------------------------------------------------------------------


class LoginAnswer(BaseModel):
    """A session that has begun."""

    token: str = Field(description="the visitor's secret, told once")
    session: Session
    replaced: list[Session]


class ValidateAnswer(BaseModel):
    """Whether a request may pass."""

    live: bool
    session: Session | None = None
    ended: PublicEnd | None = None


class KickAnswer(BaseModel):
    """What a kick did."""

    kicked: list[Session]
    already_ended: list[Ended]
    count: int
    confirmed: bool | None = Field(None, description="false: not confirmed on a replica yet; null: not asked for")
    block: Block | None = Field(None, description="with block_for: the block as it is now")


class PreviewAnswer(BaseModel):
    """What a bulk kick would hit: give filter and total to POST /v1/jobs."""

    filter: dict[str, Any]
    total: int
    as_of: datetime


class JobAnswer(BaseModel):
    """A bulk kick and how far it is."""

    id: str
    state: str = Field(description="running, paused, cancelled, done or failed")
    by: str
    reason: str
    message: str | None
    ticket: str | None
    filter: dict[str, Any]
    total: int
    expected: int
    kicked: int
    examined: int
    pace: int | None
    created: datetime
    updated: datetime
    finished: datetime | None
    error: str | None
