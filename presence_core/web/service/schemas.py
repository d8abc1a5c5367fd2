"""Queries, bodies and responses of the service, as pydantic models. The library checks limits; these check shapes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, Final, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from starlette.exceptions import HTTPException

from presence_core.filters import SessionFilter, inner_filter, read_attributes, read_without
from presence_core.models import Block, EndCause, Ended, EndReason, ListOrder, PublicEnd, Session
from presence_core.schema.conditions import CONDITIONS, LIST_KINDS, Condition, Kind, names_of_kind
from presence_core.schema.failures import FailureWhy, SiteFailure
from presence_core.web.middleware.request_tokens import MAX_COOKIES
from presence_core.web.service.json_format import Time, parse_time
from presence_core.web.service.problems import NOT_JSON, is_json


class Query(BaseModel):
    """Base of queries. An unknown name is an error: ignored, a misspelled filter would match all sessions."""

    model_config = ConfigDict(extra="forbid")


async def refuse_repeated(request: Request) -> None:
    """A dependency of every route: raise RequestValidationError for a parameter that is given twice, of which the
    framework would use the last one. Only those of lists may be repeated."""
    for name, count in Counter(name for name, _ in request.query_params.multi_items()).items():
        if count > 1 and name not in LIST_KINDS.values():
            raise RequestValidationError([{"type": "repeated", "loc": ("query", name), "msg": "Must be given once"}])


class Paged(Query):
    """Start and length of a page."""

    limit: int = Field(50, description="1 to 1000")
    cursor: str | None = Field(None, description="next_cursor of the previous page")


_TYPES: Final[dict[Kind, Any]] = {"time": Time | None, "seconds": int | None, "flag": bool, "yes_no": bool | None}
"""Kind of a condition → type of its parameter. The others are text."""


def _parameter(condition: Condition) -> tuple[Any, Any]:
    return _TYPES.get(condition.kind, str | None), Field(condition.default, description=condition.words)


_parameters: dict[str, Any] = {name: _parameter(row) for name, row in CONDITIONS.items() if row.kind not in LIST_KINDS}
_Conditions = create_model("_Conditions", __base__=Query, **_parameters)


class FilterFields(_Conditions):  # type: ignore[misc, valid-type]
    """Every field of SessionFilter. A session must match all fields that are given."""

    def fields_with(self, **lists: Any) -> dict[str, Any]:
        """The fields of a filter, as the library takes them. lists: those that queries and bodies write differently."""
        given: dict[str, Any] = {name: getattr(self, name) for name in FilterFields.model_fields}
        for name in names_of_kind("time"):
            given[name] = parse_time(name, given[name])
        return given | {name: value or None for name, value in lists.items()}


class SessionsQuery(FilterFields, Paged):
    """GET /v1/sessions."""

    order: ListOrder = Field("login", description="login: newest login first; last_seen: last seen first")
    attribute: list[str] = Field([], description="NAME=VALUE, where VALUE is JSON or else text; may be repeated")
    method: list[str] = Field([], description=f"{CONDITIONS['methods'].words}; may be repeated")
    without: list[str] = Field([], description=f"{CONDITIONS['without'].words}: FIELD=VALUE; may be repeated")

    def to_filter(self) -> SessionFilter | None:
        """The filter; None if no field is given. Raises InvalidArgument."""
        lists = {"attributes": read_attributes(self.attribute), "methods": self.method}
        session_filter = SessionFilter(**self.fields_with(**lists, without=read_without(self.without, parse_time)))
        return session_filter if session_filter.given else None


class PeriodQuery(Query):
    """A period of time."""

    since: Time | None = None
    until: Time | None = None

    def period(self) -> dict[str, Any]:
        return {name: parse_time(name, getattr(self, name)) for name in ("since", "until")}


class EndedQuery(PeriodQuery, Paged):
    """GET /v1/ended."""

    uid: str | None = None
    reason: EndReason | None = None
    cause: EndCause | None = None
    by: str | None = None


class FailuresQuery(PeriodQuery, Paged):
    """GET /v1/failed-logins."""

    uid: str | None = Field(None, description="a uid, or a name as it was typed")
    ip: str | None = Field(None, description="an address or a network")
    why: FailureWhy | None = None


class NetworksQuery(Query):
    """GET /v1/failed-logins/networks."""

    limit: int = Field(20, description="1 to 1000")


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
    raw = await request.body()
    if raw and not is_json(request):
        raise HTTPException(415, NOT_JSON)
    try:
        return _parse_body(kind, raw)
    except ValidationError as error:
        details = [
            {**detail, "loc": ("body", *detail["loc"])}
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise RequestValidationError(details) from None


_TEXT: Final = {"type": "string"}
Described = Annotated[Any, WithJsonSchema({"anyOf": [_TEXT, {"type": "null"}]})]
"""What describes a visitor. The library reads it as ``Settings.unfit`` says: a client's number keeps no visitor out."""

DescribedList = Annotated[Any, WithJsonSchema({"type": "array", "items": _TEXT})]


def _parse_body(kind: type[B], raw: bytes) -> B:
    """Also with half of a character, such as a name that JavaScript has cut: pydantic's parser refuses that."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        if rb"\u" not in raw or error.errors()[0]["type"] != "json_invalid":
            raise
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            raise error from None
    return kind.model_validate(body)


class FailureBody(Body):
    """POST /v1/failed-logins."""

    who: str = Field(description="the uid, or the text as it was typed. Never a password")
    why: SiteFailure
    is_uid: bool = Field(False, description="it is the uid of an account, also if its user was never here")
    ip: Described = None
    user_agent: Described = None
    app: Described = None


class LoginBody(Body):
    """POST /v1/sessions."""

    uid: str
    name: Described = None
    aliases: DescribedList = []
    device: Described = None
    app: Described = None
    app_version: Described = None
    ip: Described = None
    user_agent: Described = None
    attributes: dict[str, Any] | None = None
    session_id: str | None = None
    idle_timeout: int | None = None
    absolute_timeout: int | None = None
    max_sessions: int | None = Field(None, description="live sessions the user may have; default: as configured")
    methods: list[str] = Field([], description="how the visitor has authenticated: pwd, otp, hwk, …")
    mfa: bool | None = Field(None, description="with several factors; default: two methods, or mfa among them")
    device_id: str | None = Field(None, description="a random id that stays on the device; only a digest is stored")
    on_behalf_by: str | None = Field(None, description="the member of staff who logs in on behalf of the user")
    reason: str | None = Field(None, description="why, for the audit; with on_behalf_by")
    expires_at: Time | None = Field(None, description="when the identity provider ends the session; nothing moves it")
    idp: dict[str, str] | None = Field(None, description="iss, and sub or sid or both, of the ID token")


_ALIASES: Final = {"anyOf": [{"type": "array", "items": _TEXT}, {"type": "null"}]}


class PersonBody(Body):
    """PATCH /v1/users/{uid}: at least one field. One that is missing stays; null removes it."""

    name: Described = None
    aliases: Annotated[Any, WithJsonSchema(_ALIASES)] = None

    def given(self) -> dict[str, Any]:
        """The fields that the request has."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class UpdateBody(PersonBody):
    """PATCH /v1/users/{uid}/sessions/{session_id}: at least one field. One that is missing stays; null removes it."""

    attributes: dict[str, Any] = Field({}, description="names and new values; null removes a name")
    device: Described = None
    app: Described = None
    app_version: Described = None


class LogoutOthersBody(Body):
    """POST /v1/users/{uid}/sessions/{session_id}/logout-others."""

    other: str | None = Field(None, description="id of one session; default: all others")


class ValidateBody(Body):
    """POST /v1/validate: one of token, tokens, and uid with session_id."""

    token: str | None = None
    uid: str | None = Field(None, description="with session_id: for a site with session ids of its own")
    session_id: str | None = None
    tokens: list[str] | None = Field(
        None,
        max_length=MAX_COOKIES,
        description="the cookies of a request that has several, in their order: a kicked session counts before all"
        " others, then the first one that is live",
    )
    touch: bool = True
    ip: Described = None
    user_agent: Described = Field(None, description="of this request: see docs/use/moves.md; it is not stored")
    max_age: int | None = Field(None, description="seconds: not live if the visitor authenticated longer ago")


class AuthenticationBody(Body):
    """POST /v1/users/{uid}/sessions/{session_id}/reauthenticate."""

    methods: list[str] = []
    mfa: bool | None = None
    began: Time | None = Field(None, description="when the visitor began to sign in; default: now")

    def options(self) -> dict[str, Any]:
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


class KickRefsBody(StaffActionBody):
    """POST /v1/kicks/refs."""

    refs: list[str] = Field(description="uid:session_id of at most 1,000 sessions")


class SignInBody(StaffActionBody):
    """POST /v1/users/{uid}/require-sign-in."""

    session_id: str | None = Field(None, description="one session; default: all of the user's")
    keep: list[str] = Field([], description="ids of sessions that are left out")


class TimeoutsBody(Body):
    """POST /v1/users/{uid}/timeouts."""

    session_id: str | None = Field(None, description="one session; default: all of the user's")
    idle_timeout: int | None = Field(None, description="seconds; default: each session keeps its own")
    absolute_timeout: int | None = Field(None, description="seconds; default: each session keeps its own")
    reason: str = Field(description="for staff")


class InnerFilterBody(FilterFields):
    """A SessionFilter without a ``without`` of its own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    attributes: dict[str, Any] | None = None
    methods: list[str] | None = Field(None, description=CONDITIONS["methods"].words)


class FilterBody(InnerFilterBody):
    """A SessionFilter."""

    without: InnerFilterBody | None = Field(None, description=CONDITIONS["without"].words)

    def to_filter(self) -> SessionFilter:
        """The filter. Raises InvalidArgument."""
        inner = self.without
        lists = {"attributes": self.attributes, "methods": self.methods}
        without = (
            inner_filter(**inner.fields_with(attributes=inner.attributes, methods=inner.methods)) if inner else None
        )
        return SessionFilter(**self.fields_with(**lists, without=without))


class PreviewBody(Body):
    """POST /v1/kicks/preview."""

    filter: FilterBody
    exclude: list[str] = Field([], description="uid:session_id of sessions that stay")


class JobBody(StaffActionBody, PreviewBody):
    """POST /v1/jobs."""

    expected: int = Field(description="end at most this many sessions: the preview's total")
    pace: int | None = Field(None, description="at most this many sessions a second")
    delay: int | None = Field(None, description="seconds in which no session is ended, so that it can be cancelled")


class TimeoutsPreviewBody(Body):
    """POST /v1/timeouts/preview."""

    filter: FilterBody
    idle_timeout: int | None = Field(None, description="seconds; default: each session keeps its own")
    absolute_timeout: int | None = Field(None, description="seconds; default: each session keeps its own")


class TimeoutsWhereBody(TimeoutsPreviewBody):
    """POST /v1/timeouts."""

    reason: str = Field(description="for staff")
    expected: int = Field(description="change at most this many sessions: the preview's total")
    only_shorten: bool = Field(False, description="leave each session alone of which a timeout would be longer")
    ticket: str | None = None
    pace: int | None = Field(None, description="at most this many sessions a second")


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
    failures: int = Field(description="sign-ins of the user that the site refused since the login before")


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


class KickRefsResponse(BaseModel):
    """The outcome of a kick of sessions by ref."""

    kicked: list[Session]
    already_ended: list[Ended]
    not_found: list[str] = Field(description="refs without a session or a record of its end")
    failed: dict[str, str] = Field(
        description="refs that may still be live: send these again; and the code of the error"
    )
    count: int
    confirmed: bool | None = Field(None, description="false: no replica has confirmed it yet; null: not requested")
