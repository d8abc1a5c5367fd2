"""What begins and ends, told as it happens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from fastapi import Query as InQuery
from starlette.exceptions import HTTPException

from presence_core.errors import Unavailable
from presence_core.web.keys import Reader, let_in
from presence_core.web.schemas import EventsQuery
from presence_core.web.sse import Feed

router = APIRouter(prefix="/v1", tags=["events"])


@router.get("/events", dependencies=[Reader], response_class=Response,
            responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events, without end"}},
            )  # fmt: skip
async def stream(
    request: Request,
    asked: Annotated[EventsQuery, InQuery()],
    last_event_id: Annotated[str | None, Header(description="go on behind the event of this id")] = None,
) -> Response:
    """Logins and ends as server-sent events: from now on, or behind the last one seen (`Last-Event-ID`, or `after`).

    `event` is login, logout, expired, kicked or replaced; `data` the event in JSON; `id` its cursor. Where events were
    lost to the cap a `gap` comes first. A comment is sent every 15 seconds. Who reads too slowly is dropped, and may
    come back with the last id.
    """
    feed: Feed = request.app.state.feed

    async def allowed() -> bool:
        """Whether the key still opens this: the line may be older than its removal."""
        try:
            await let_in(request, "read")
        except HTTPException:
            return False
        except Unavailable:
            pass
        return True

    return await feed.open(last_event_id if last_event_id is not None else asked.after, allowed)
