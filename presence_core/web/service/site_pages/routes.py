"""The addresses that a site's pages call: /counter, /visit, /online, /online/friends, /goodbye, /presence.js."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, FastAPI, Query, Request, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from presence_core.web.service.json_format import json_response
from presence_core.web.service.site_pages.access import AddressLimiter
from presence_core.web.service.site_pages.new_visitors import NewVisitors
from presence_core.web.service.site_pages.options import Pages
from presence_core.web.service.site_pages.script import SCRIPT
from presence_core.web.service.site_pages.visitors import Caller, CountedCaller, LeftPages, NotCounted, respond

MAX_LISTED: Final = 1000


class Counted(BaseModel):
    """How many are online."""

    online: int


class Counter(Counted):
    """How many are online, and why the caller is not one of them. A client without cookies is counted once it sends
    ours back."""

    not_counted: NotCounted | None = None


class Online(Counted):
    """How many are online, and their names. `members` is null if the caller may not see them."""

    members: list[str] | None


PageName = Annotated[str | None, Query(pattern="^[a-z0-9]{1,32}$")]
"""A new random name each time the page is shown."""

router = APIRouter(tags=["pages"])


def add_site_pages(app: FastAPI, pages: Pages) -> None:
    app.state.pages = pages
    app.state.limiter = AddressLimiter(pages.per_second, pages.burst)
    app.state.left_pages = LeftPages()
    app.state.new_visitors = NewVisitors()
    app.include_router(router)


async def counter(request: Request, caller: CountedCaller, page: PageName = None) -> Response:
    """Count this visitor, and get the number of visitors in the window (R1). `page` names the page for `/goodbye`."""
    pages: Pages = request.app.state.pages
    if caller.not_counted:
        return respond(request, caller, await pages.counter.count())
    online = await pages.counter.touch(caller.member)
    if (caller.member, page) in request.app.state.left_pages:
        online -= await pages.counter.forget(caller.member)
    return respond(request, caller, online)


async def visit(request: Request, caller: CountedCaller) -> Response:
    """Put this visitor into the set of this minute, and get the number of visitors of the last minutes (R5)."""
    pages: Pages = request.app.state.pages
    if not caller.not_counted:
        await pages.visits.touch(caller.member)
    return respond(request, caller, await pages.visits.count())


for _path, _endpoint in (("/counter", counter), ("/visit", visit)):
    router.add_api_route(_path, _endpoint, methods=["GET"], response_model=Counter, operation_id=f"get{_path[1:]}")
    router.add_api_route(_path, _endpoint, methods=["POST"], response_model=Counter, operation_id=f"post{_path[1:]}")


@router.get("/online", response_model=Online)
async def online(request: Request, caller: Caller) -> Response:
    """The members of the last minutes, at most 1000. A caller who is not signed in gets only the number."""
    pages: Pages = request.app.state.pages
    if caller.uid is None and not pages.public:
        return json_response({"online": await pages.visits.count(), "members": None})
    members = await pages.visits.members()
    return json_response({"online": len(members), "members": members[:MAX_LISTED]})


@router.get("/online/friends", response_model=Online)
async def friends(request: Request, caller: Caller) -> Response:
    """The friends of the signed-in caller that were seen in the last minutes."""
    pages: Pages = request.app.state.pages
    if not pages.friends_key:
        raise HTTPException(404, "Friend lists are off: start the service with --friends-key.")
    if caller.uid is None:
        raise HTTPException(401, "Sign in to see your friends.")
    members = await pages.visits.online_friends(pages.friends_key.replace("{uid}", caller.uid))
    return json_response({"online": len(members), "members": members[:MAX_LISTED]})


@router.post("/goodbye", status_code=204, response_class=Response)
async def goodbye(request: Request, caller: Caller, page: PageName = None) -> Response:
    """The visitor has left the page: `/counter` forgets them at once and ignores late beats of this `page`. The sets of
    minutes run out. A session continues."""
    if not caller.is_new:
        if page is not None:
            request.app.state.left_pages.add(caller.member, page)
        await request.app.state.pages.counter.forget(caller.member)
    return Response(status_code=204)


@router.get("/presence.js", response_class=Response, include_in_schema=False)
async def script() -> Response:
    """The script that calls these addresses."""
    headers = {"Cache-Control": "public, max-age=3600", "Cross-Origin-Resource-Policy": "cross-origin"}
    return Response(SCRIPT, 200, headers, "text/javascript")
