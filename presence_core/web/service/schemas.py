"""Queries, bodies and responses of the service, as pydantic models. The library checks limits; these check shapes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from presence_core.filters import SessionFilter, read_attributes
from presence_core.models import Block, Ended, EndReason, PublicEnd, Session
from presence_core.web.service.json_format import Time, parse_time
from presence_core.web.service.problems import NOT_JSON, is_json


class Query(BaseModel):
    """Base of queries. An unknown name is an error: ignored, a misspelled filter would match all sessions."""

    model_config = ConfigDict(extra="forbid")


async def refuse_repeated(request: Request) -> None:
    """A dependency of every route: raise RequestValidationError for a parameter that is given twice, of which the
    framework would use the last one. Only attributes may be repeated."""
    for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
        if count > 1 and name != "attribute":
            raise RequestValidationError([{"type": "repeated", "loc": ("query", name), "msg": "Must be given once"}])


class Paged(Query):
    """Start and length of a page."""

    limit: int = Field(50, description="1 to 1000")
    cursor: str | None = Field(None, description="next_cursor of the previous page")


class FilterFields(Query):
    """Every field of SessionFilter. A session must match all fields that are given."""

    text: str | None = Field(None, description="a person, an address, a network or a session id, as staff type it")
    uid: str | None = None
    name_prefix: str | None = Field(None, description="start of a word of the name")
    name_contains: str | None = None
    ip: str | None = Field(None, description="address at login or the latest, or a network such as 192.0.2.0/24")
    device: str | None = None
    app: str | None = None
    app_version: str | None = None
    os: str | None = None
    browser: str | None = None
    logged_in_after: Time | None = None
    logged_in_before: Time | None = None
    idle_for: int | None = Field(None, description="not seen for at least this many seconds")
    on_behalf: bool = Field(False, description="only sessions on behalf of their user, by staff")
    new_device: bool = Field(False, description="only sessions on a device that was new to their user")
    sign_in_required: bool = Field(False, description="only sessions whose visitor must sign in again")
    distant: bool = Field(False, description="only sessions that began far from the place of the login before")
    country: str | None = Field(None, description="of the address at login, its ISO code, such as FR")
    network: str | None = Field(None, description="of the address at login, its AS number, such as AS64500")

    def with_attributes(self, attributes: dict[str, Any] | None) -> SessionFilter:
        """The filter. Raises InvalidArgument."""
        given: dict[str, Any] = {name: getattr(self, name) for name in FilterFields.model_fields}
        for name in ("logged_in_after", "logged_in_before"):
            given[name] = parse_time(name, given[name])
        return SessionFilter(**given, attributes=attributes or None)


class SessionsQuery(FilterFields, Paged):
    """GET /v1/sessions."""

    attribute: list[str] = Field([], description="NAME=VALUE, where VALUE is JSON or else text; may be repeated")

    def to_filter(self) -> SessionFilter | None:
        """The filter; None if no field is given."""
        session_filter = self.with_attributes(read_attributes(self.attribute))
        return session_filter if session_filter.given else None


class PeriodQuery(Query):
    """A period of time."""

    since: Time | None = None
    until: Time | None = None

    def period(self) -> dict[str, Any]:
        """Both ends, as arguments of the library."""
        return {name: parse_time(name, getattr(self, name)) for name in ("since", "until")}


class EndedQuery(PeriodQuery, Paged):
    """GET /v1/ended."""

    uid: str | None = None
    reason: EndReason | None = None
    by: str | None = None


class AuditQuery(PeriodQuery, Paged):
    """GET /v1/audit."""

    uid: str | None = None
    by: str | None = None


class HistoryQuery(PeriodQuery):
    """GET /v1/history."""

    since: Time
    step: int | None = Field(None, description="seconds of a bucket, a multiple of 10")


class EventsQuery(Query):
    """GET /v1/events."""

    after: str | None = Field(None, description="same as Last-Event-ID, which is used if both are given")


class PeopleQuery(Query):
    """GET /v1/people."""

    text: str = Field(description="a person as staff type it: uid, name, email, domain or phone number")
    limit: int = Field(20, description="1 to 100")


# -- bodies -----------------------------------------------------------------------------------------------------------


class Body(BaseModel):
    """Base of bodies: no unknown fields, no conversion between types."""

    model_config = ConfigDict(extra="forbid", strict=True)


B = TypeVar("B", bound=Body)


def openapi_of(body: type[Body], scope: str = "record") -> dict[str, Any]:
    """The OpenAPI schema of a route that reads key and body itself. The two routes that a site calls at each of its own
    requests do so, because the framework's parsing of arguments takes longer than all the rest."""
    content = {"application/json": {"schema": body.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}, "security": [{"API key": [scope]}]}


async def read_body(request: Request, kind: type[B]) -> B:
    """Read the body of such a route."""
    raw = await request.body()
    if raw and not is_json(request):
        raise HTTPException(415, NOT_JSON)
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        details = [
            {**detail, "loc": ("body", *detail["loc"])}
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise RequestValidationError(details) from None


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
    methods: list[str] = Field([], description="how the visitor has authenticated: pwd, otp, hwk, …")
    mfa: bool | None = Field(None, description="with several factors; default: two methods, or mfa among them")
    device_id: str | None = Field(None, description="a random id that stays on the device; only a digest is stored")
    on_behalf_by: str | None = Field(None, description="the member of staff who logs in on behalf of the user")
    reason: str | None = Field(None, description="why, for the audit; with on_behalf_by")


class UpdateBody(Body):
    """PATCH /v1/users/{uid}/sessions/{session_id}."""

    attributes: dict[str, Any] = Field(description="names and new values; null removes a name")


class LogoutOthersBody(Body):
    """POST /v1/users/{uid}/sessions/{session_id}/logout-others."""

    other: str | None = Field(None, description="id of one session; default: all others")


class ValidateBody(Body):
    """POST /v1/validate."""

    token: str
    touch: bool = True
    ip: str | None = None
    max_age: int | None = Field(None, description="seconds: not live if the visitor authenticated longer ago")


class AuthenticationBody(Body):
    """POST /v1/users/{uid}/sessions/{session_id}/reauthenticate."""

    methods: list[str] = []
    mfa: bool | None = None
    began: Time | None = Field(None, description="when the visitor began to sign in; default: now")

    def options(self) -> dict[str, Any]:
        """Arguments of the library."""
        return {"methods": self.methods, "mfa": self.mfa, "began": parse_time("began", self.began)}


class ReauthenticateBody(AuthenticationBody):
    """POST /v1/reauthenticate."""

    token: str


class HeartbeatsBody(Body):
    """POST /v1/heartbeats."""

    refs: list[str] = Field(description="uid:session_id")


class StaffActionBody(Body):
    """The texts of a staff action."""

    reason: str = Field(description="for staff")
    message: str | None = Field(None, description="for the visitor")
    ticket: str | None = None


class KickBody(StaffActionBody):
    """POST /v1/kicks."""

    uid: str
    session_id: str | None = Field(None, description="one session; default: all of the user's")
    keep: list[str] = Field([], description="ids of sessions that stay")
    block_for: int | None = Field(None, description="block the user for this many seconds")


class SignInBody(StaffActionBody):
    """POST /v1/users/{uid}/require-sign-in."""

    session_id: str | None = Field(None, description="one session; default: all of the user's")
    keep: list[str] = Field([], description="ids of sessions that are left out")


class FilterBody(FilterFields):
    """A SessionFilter."""

    model_config = ConfigDict(extra="forbid", strict=True)

    attributes: dict[str, Any] | None = None

    def to_filter(self) -> SessionFilter:
        """The filter. Raises InvalidArgument."""
        return self.with_attributes(self.attributes)


class PreviewBody(Body):
    """POST /v1/kicks/preview."""

    filter: FilterBody
    exclude: list[str] = Field([], description="uid:session_id of sessions that stay")


class JobBody(StaffActionBody, PreviewBody):
    """POST /v1/jobs."""

    expected: int = Field(description="end at most this many sessions: the preview's total")
    pace: int | None = Field(None, description="at most this many sessions a second")
    delay: int | None = Field(None, description="seconds in which no session is ended, so that it can be cancelled")


class BlockBody(StaffActionBody):
    """PUT /v1/users/{uid}/block."""

    duration: int | None = Field(None, description="seconds; default: until unblocked")
    until: Time | None = Field(None, description="end of the block, instead of duration")
    shorten: bool = Field(False, description="replace an existing block that ends later")


class RulePreviewBody(Body):
    """POST /v1/block-rules/preview."""

    network: str | None = Field(None, description="an address or a network such as 198.51.100.0/24; or app and version")
    app: str | None = None
    app_version: str | None = Field(None, description="as the client says, which may lie")
    country: str | None = Field(None, description="an ISO code: refuses logins whose place is known")


class RuleBody(StaffActionBody, RulePreviewBody):
    """POST /v1/block-rules."""

    expected: int = Field(description="the maximum number of sessions that may match now: the preview's sessions")
    duration: int | None = Field(None, description="seconds; default: until the rule is removed")
    until: Time | None = Field(None, description="end of the rule, instead of duration")
    confirm_wide: str | None = Field(None, description="the country again, or a network wider than /16 or, IPv6, /32")


class RevocationBody(Body):
    """POST /v1/revocations."""

    reason: str
    message: str | None = None
    at: Time | None = Field(None, description="revoke sessions that began before this time; default: now")


# -- responses --------------------------------------------------------------------------------------------------------


class LoginResponse(BaseModel):
    """A session that has begun."""

    token: str = Field(description="the visitor's secret; it cannot be read again")
    session: Session
    replaced: list[Session]


class ValidateResponse(BaseModel):
    """Whether the session is live."""

    live: bool
    session: Session | None = None
    ended: PublicEnd | None = None
    code: str = Field("live", description="live, unknown, ended, sign_in_required or authentication_too_old")
    message: str | None = Field(None, description="with sign_in_required: for the visitor")
    refused: Session | None = Field(None, description="the live session that must authenticate again")


class KickResponse(BaseModel):
    """The outcome of a kick."""

    kicked: list[Session]
    already_ended: list[Ended]
    count: int
    confirmed: bool | None = Field(None, description="false: no replica has confirmed it yet; null: not requested")
    block: Block | None = Field(None, description="with block_for: the resulting block")


class PreviewResponse(BaseModel):
    """What a bulk kick would end: pass filter and total to POST /v1/jobs."""

    filter: dict[str, Any]
    total: int
    as_of: datetime


class JobResponse(BaseModel):
    """A bulk kick and its progress."""

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
    not_before: datetime | None = Field(description="no session is ended before this time")
