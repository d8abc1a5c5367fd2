"""GET /v1/events: logins and ends as they happen."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi import Query as InQuery
from starlette.exceptions import HTTPException

from presence_core.errors import Unavailable
from presence_core.web.service.authorization import Reader, authorize
from presence_core.web.service.event_stream import EventPoller
from presence_core.web.service.schemas import EventsQuery

router = APIRouter(prefix="/v1", tags=["events"])


@router.get("/events", dependencies=[Reader], response_class=Response,
            responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events, without end"}},
            )  # fmt: skip
async def stream(
    request: Request,
    query: Annotated[EventsQuery, InQuery()],
    last_event_id: Annotated[str | None, Header(description="continue after the event with this id")] = None,
) -> Response:
    """Events as server-sent events: from now on, or from the last one received (`Last-Event-ID`, or `after`).

    `event` is login, logout, expired, kicked, replaced, sign_in_required, reauthenticated, new_device, distant,
    after_failures, moved or old_token; `data` is the event in JSON; `id` is its cursor. If events were lost to the cap,
    a `gap` comes first.
    `revoked` has no id: all sessions with a login up to `login_until` are revoked; a new reader gets the latest one.
    After 15 seconds of silence a comment is sent. A reader that is too slow is disconnected, and may come back with its
    last id.
    """
    poller: EventPoller = request.app.state.event_poller

    async def allowed() -> bool:
        """Whether the key is still valid: it may have been removed since the stream was opened."""
        try:
            await authorize(request, "read")
        except HTTPException:
            return False
        except Unavailable:
            pass
        return True

    return await poller.open(last_event_id if last_event_id is not None else query.after, allowed)
