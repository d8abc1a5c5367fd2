"""What a site records, and what it asks about sessions."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi import Query as InQuery

from presence_core.client import AsyncPresence
from presence_core.models import Page, Session
from presence_core.web.keys import Reader, Recorder, let_in
from presence_core.web.problems import not_found
from presence_core.web.routes import Store
from presence_core.web.schemas import (
    HeartbeatsBody,
    LoginAnswer,
    LoginBody,
    SessionsQuery,
    ValidateAnswer,
    ValidateBody,
    answer,
    by_hand,
    read_body,
)

router = APIRouter(prefix="/v1", tags=["sessions"])


@router.post("/sessions", status_code=201, response_model=LoginAnswer, dependencies=[Recorder])
async def create(body: LoginBody, presence: Store) -> Response:
    """Begin a session. Given again with the session_id of a live one it refreshes that, so it may be repeated."""
    login = await presence.login(**dict(body))
    return answer({"token": login.token, "session": login.session, "replaced": login.replaced}, 201)


@router.post("/validate", response_model=ValidateAnswer, openapi_extra=by_hand(ValidateBody))
async def validate(request: Request) -> Response:
    """May this visitor's request pass? Where not, `ended` is what they may read of why, as long as that is known."""
    await let_in(request, "record")
    body = await read_body(request, ValidateBody)
    presence: AsyncPresence = request.app.state.presence
    seen = await presence.validate(body.token, touch=body.touch, ip=body.ip)
    if seen:
        return answer({"live": True, "session": seen.session, "ended": None})
    return answer({"live": False, "session": None, "ended": seen.ended.public if seen.ended else None})


@router.post("/heartbeats", response_model=dict[str, list[str]], openapi_extra=by_hand(HeartbeatsBody))
async def heartbeats(request: Request) -> Response:
    """These sessions were seen. Answers those that are not live any more, as `offline`."""
    await let_in(request, "record")
    body = await read_body(request, HeartbeatsBody)
    presence: AsyncPresence = request.app.state.presence
    return answer({"offline": await presence.heartbeats(body.refs)})


@router.get("/sessions", response_model=Page[Session], dependencies=[Reader])
async def listed(asked: Annotated[SessionsQuery, InQuery()], presence: Store) -> Response:
    """Live sessions, newest login first, page by page: all, or those that match. A cursor belongs to its filter."""
    return answer(await presence.list_sessions(asked.asked(), limit=asked.limit, cursor=asked.cursor))


@router.get("/users/{uid:quoted}/sessions", response_model=dict[str, list[Session]], dependencies=[Reader])
async def of_user(uid: str, presence: Store) -> Response:
    """A user's live sessions, newest login first."""
    return answer({"items": await presence.sessions(uid)})


@router.get("/users/{uid:quoted}/sessions/{session_id:quoted}", response_model=Session, dependencies=[Reader])
async def one(uid: str, session_id: str, presence: Store) -> Response:
    """One live session."""
    session = await presence.get(uid, session_id)
    if session is None:
        raise not_found("No live session has this id")
    return answer(session)


@router.delete("/users/{uid:quoted}/sessions/{session_id:quoted}", response_model=dict[str, bool],
               dependencies=[Recorder])  # fmt: skip
async def logout(uid: str, session_id: str, presence: Store) -> Response:
    """End a session at its user's wish. `ended` is false where it was not live."""
    ended: dict[str, Any] = {"ended": await presence.logout(uid, session_id)}
    return answer(ended)


HOT: Final = {"/v1/validate": validate, "/v1/heartbeats": heartbeats}
"""What a site asks on each of its own requests."""
