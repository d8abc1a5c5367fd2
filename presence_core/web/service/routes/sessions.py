"""Sessions: begin, validate, heartbeat, list, log out."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi import Query as InQuery

from presence_core.client import AsyncPresence
from presence_core.errors import InvalidArgument, LoginRefused
from presence_core.models import Login, Page, Session, SignIn, Validation
from presence_core.operations.sessions.request_tokens import validate_tokens
from presence_core.web.service import schemas
from presence_core.web.service.authorization import Caller, Reader, Recorder, authorize
from presence_core.web.service.json_format import json_response, parse_time
from presence_core.web.service.problems import not_found
from presence_core.web.service.routes import Client

NOT_LIVE: Final = "There is no live session with this id"

router = APIRouter(prefix="/v1", tags=["sessions"])


@router.post("/sessions", status_code=201, response_model=schemas.LoginResponse)
async def create(body: schemas.LoginBody, presence: Client, caller: Annotated[Caller, Recorder]) -> Response:
    """Begin a session. With the session_id of a live session it refreshes that one, so it may be sent again."""
    given = dict(body) | {"expires_at": parse_time("expires_at", body.expires_at)}
    if body.on_behalf_by:  # the audit names the key too, as it does with X-Actor
        given["on_behalf_by"] = f"{caller.name} ({body.on_behalf_by})"
    login = await presence.login(**given)
    return json_response(_begun(login), 201)


def _begun(login: Login) -> dict[str, Any]:
    return {name: getattr(login, name) for name in ("token", "session", "replaced", "failures")}


@router.post("/failed-logins", status_code=204, dependencies=[Recorder])
async def login_failed(body: schemas.FailureBody, presence: Client) -> None:
    """Record a sign-in that the site refused: a wrong password, a second factor, an unknown or locked account. A text
    that is no uid of a known person is kept as a digest. The response does not show whether the person exists."""
    await presence.login_failed(**dict(body))


@router.post(
    "/validate", response_model=schemas.ValidateResponse, openapi_extra=schemas.openapi_of(schemas.ValidateBody)
)
async def validate(request: Request) -> Response:
    """Whether the session is live. If not, `ended` has what its user may know about the end, as long as it is kept."""
    await authorize(request, "record")
    body = await schemas.read_body(request, schemas.ValidateBody)
    presence: AsyncPresence = request.app.state.presence
    options: dict[str, Any] = {"touch": body.touch, "ip": body.ip, "max_age": body.max_age,
                               "user_agent": body.user_agent}  # fmt: skip
    validation: Validation
    if body.uid is not None or body.session_id is not None:
        if body.token is not None or body.tokens is not None:
            raise InvalidArgument("uid", "must not be given with token or tokens", "conflicts")
        if body.uid is None or body.session_id is None:
            missing, given = ("uid", "session_id") if body.uid is None else ("session_id", "uid")
            raise InvalidArgument(missing, f"must be given with {given}", "required")
        validation = await presence.validate_session(body.uid, body.session_id, **options)
    elif body.tokens is not None:
        validation = await _validate_tokens(presence, body, body.tokens)
    elif body.token is not None:
        validation = await presence.validate(body.token, **options)
    else:
        raise InvalidArgument("token", "or tokens, or uid with session_id, must be given", "required")
    if validation:
        return json_response({"live": True, "session": validation.session, "ended": None, "code": "live"})
    ended = validation.ended.public if validation.ended else None
    why = {"code": validation.code, "message": validation.message, "refused": validation.refused}
    return json_response({"live": False, "session": None, "ended": ended} | why)


async def _validate_tokens(presence: AsyncPresence, body: schemas.ValidateBody, tokens: list[str]) -> Validation:
    if body.token is not None:
        raise InvalidArgument("tokens", "must not be given with token", "conflicts")
    operation = validate_tokens(
        presence.internal.context,
        tokens or [""],
        body.touch,
        body.ip,
        body.max_age,
        body.user_agent,
        first_end_counts=False,
    )
    return await presence.internal.run(operation)


@router.post("/reauthenticate", response_model=schemas.LoginResponse, dependencies=[Recorder])
async def reauthenticate(body: schemas.ReauthenticateBody, presence: Client) -> Response:
    """The visitor has authenticated again: replace the token and note the time. Call it after you have checked the
    password or another factor. The old token opens nothing any more. Do not send it again: its reply has the token."""
    login = await presence.reauthenticated(body.token, **body.options())
    return json_response(_begun(login))


@router.post("/users/{uid:quoted}/sessions/{session_id:quoted}/reauthenticate", response_model=Session,
             dependencies=[Recorder])  # fmt: skip
async def reauthenticate_session(
    uid: str, session_id: str, body: schemas.AuthenticationBody, presence: Client
) -> Response:
    """The same for a site with session ids of its own, which replaces its own key."""
    return json_response(await presence.reauthenticated_session(uid, session_id, **body.options()))


@router.post(
    "/heartbeats", response_model=dict[str, list[str]], openapi_extra=schemas.openapi_of(schemas.HeartbeatsBody)
)
async def heartbeats(request: Request) -> Response:
    """Note that these sessions were seen. `offline` lists those that are no longer live."""
    await authorize(request, "record")
    body = await schemas.read_body(request, schemas.HeartbeatsBody)
    presence: AsyncPresence = request.app.state.presence
    return json_response({"offline": await presence.heartbeats(body.refs)})


@router.get("/sessions", response_model=Page[Session], dependencies=[Reader])
async def list_sessions(query: Annotated[schemas.SessionsQuery, InQuery()], presence: Client) -> Response:
    """Live sessions in pages, newest login first or last seen first: all, or those that match. A cursor belongs to its
    filter and order."""
    page = await presence.list_sessions(query.to_filter(), order=query.order, limit=query.limit, cursor=query.cursor)
    return json_response(page)


@router.get("/users/{uid:quoted}/sessions", response_model=dict[str, list[Session]], dependencies=[Reader])
async def user_sessions(uid: str, presence: Client) -> Response:
    """A user's live sessions, newest login first."""
    return json_response({"items": await presence.sessions(uid)})


@router.get("/users/{uid:quoted}/sign-ins", response_model=dict[str, list[SignIn]], dependencies=[Reader])
async def sign_ins(uid: str, presence: Client) -> Response:
    """A user's latest logins, at most 50, the newest first, as long as `keep_sign_ins` keeps them."""
    return json_response({"items": await presence.sign_ins(uid)})


@router.get("/users/{uid:quoted}/sessions/{session_id:quoted}/previous-login",
            response_model=dict[str, SignIn | None], dependencies=[Recorder])  # fmt: skip
async def previous_login(uid: str, session_id: str, presence: Client) -> Response:
    """The user's last login before that of this live session, for a line on the site. `previous` is null if it is the
    first that is known, or the session is not live."""
    return json_response({"previous": await presence.previous_login(uid, session_id)})


@router.get("/users/{uid:quoted}/sessions/{session_id:quoted}", response_model=Session, dependencies=[Reader])
async def session(uid: str, session_id: str, presence: Client) -> Response:
    """One live session."""
    record = await presence.get(uid, session_id)
    if record is None:
        raise not_found(NOT_LIVE)
    return json_response(record)


@router.patch("/users/{uid:quoted}/sessions/{session_id:quoted}", response_model=Session, dependencies=[Recorder])
async def update(uid: str, session_id: str, body: schemas.UpdateBody, presence: Client) -> Response:
    """Change attributes, name, aliases, device, app or app version of a live session. What is not given stays; null
    removes it. Facets and searches follow."""
    validation = await presence.update_session(uid, session_id, **body.given())
    if validation.code == "sign_in_required":
        raise LoginRefused(validation.code, "A new sign-in of this session is required first.")
    if not validation:
        raise not_found(NOT_LIVE)
    return json_response(validation.session)


@router.patch("/users/{uid:quoted}", response_model=dict[str, int], dependencies=[Recorder])
async def update_person(uid: str, body: schemas.PersonBody, presence: Client) -> Response:
    """Change name and aliases of a user, in all live sessions and while they are offline. What is not given stays; null
    removes it. `changed` is the number of live sessions that were changed."""
    return json_response({"changed": await presence.update_person(uid, **body.given())})


@router.delete("/users/{uid:quoted}/sessions/{session_id:quoted}", response_model=dict[str, bool],
               dependencies=[Recorder])  # fmt: skip
async def logout(uid: str, session_id: str, presence: Client) -> Response:
    """Log a user out of one session. `ended` is false if it was not live."""
    ended: dict[str, Any] = {"ended": await presence.logout(uid, session_id)}
    return json_response(ended)


@router.post("/users/{uid:quoted}/sessions/{session_id:quoted}/logout-others",
             response_model=dict[str, list[Session]], dependencies=[Recorder])  # fmt: skip
async def logout_others(uid: str, session_id: str, body: schemas.LogoutOthersBody, presence: Client) -> Response:
    """End the user's other sessions on behalf of the user: all but this one, or only `other`. `ended` lists them. The
    site checks that the request comes from this session, and that its user authenticated recently."""
    return json_response({"ended": await presence.logout_others(uid, session_id, body.other)})


FAST_ROUTES: Final = {"/v1/validate": validate, "/v1/heartbeats": heartbeats}
"""The routes that a site calls at each of its own requests."""
