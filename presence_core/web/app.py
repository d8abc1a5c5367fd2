"""The HTTP service: one FastAPI app over one AsyncPresence, which stays its caller's."""

from __future__ import annotations

from typing import Final

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.routing import Match, Route
from starlette.types import Scope

import presence_core
from presence_core.client import AsyncPresence
from presence_core.web import metrics, pages
from presence_core.web.docs import add_docs
from presence_core.web.keys import Keys
from presence_core.web.metrics import Meters, Timed
from presence_core.web.pages import Buckets, Goodbyes, Pages, PagesCors
from presence_core.web.problems import RESPONSES, add_problems
from presence_core.web.routes import events, jobs, numbers, sessions, staff
from presence_core.web.shell import Shell
from presence_core.web.sse import Feed

_ABOUT: Final = """\
Who is online, on what, since when. Errors are problem+json (RFC 9457). Times are ISO 8601; where one is asked for, Unix
seconds do as well. A uid in a path is percent-encoded, slashes too.
"""

# By default the framework tells a process's OpenTelemetry of queries, and of bodies that it could not read: tokens may
# be in them.
_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip


class _Hot(Route):
    """A plain route that tells of itself as the framework's own do."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, {**found, "route": self}


def create_app(presence: AsyncPresence, *, keys: Keys | None, serves: Pages | None = None) -> FastAPI:
    """The service as an ASGI app.

    keys: where API keys are looked up, ``StoredKeys(presence)``; None lets everybody do everything, but only from this
    machine. serves: R1's and R5's addresses for a site's own pages; None leaves them out. The app belongs to one event
    loop, as ``presence`` does.
    """
    app = FastAPI(
        title="presence", version=presence_core.__version__, description=_ABOUT, docs_url=None, redoc_url=None,
        responses=RESPONSES, redirect_slashes=False, telemetry=_NO_TELEMETRY,
    )  # fmt: skip
    meters = Meters(lambda: feed.readers)
    presence = Timed(presence, meters)
    feed = Feed(presence)
    app.state.presence = presence
    app.state.keys = keys
    app.state.feed = feed
    app.state.meters = meters
    add_problems(app)
    for room in (sessions, staff, jobs, numbers, events, metrics):
        app.include_router(room.router)
    if serves is not None:
        app.state.pages = serves
        app.state.buckets = Buckets(serves.per_second, serves.burst)
        app.state.goodbyes = Goodbyes()
        app.include_router(pages.router)
        app.add_middleware(PagesCors, origins=serves.origins)
    # The schema knows these two as the others; they are answered before the framework looks for their arguments.
    app.router.routes[:0] = [_Hot(path, run, methods=["POST"]) for path, run in sessions.HOT.items()]
    add_docs(app)
    app.add_middleware(Shell, observe=meters.observe)
    return app
