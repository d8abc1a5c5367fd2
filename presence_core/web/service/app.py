"""Create the HTTP service: one FastAPI app over one AsyncPresence, which the caller closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import Depends, FastAPI
from starlette.routing import Match, Route
from starlette.types import Scope

import presence_core
from presence_core.client import AsyncPresence
from presence_core.web.service import metrics
from presence_core.web.service.access_log import log_request
from presence_core.web.service.api_docs import add_docs
from presence_core.web.service.api_keys import Keys
from presence_core.web.service.event_stream import EventPoller
from presence_core.web.service.metrics import Meters
from presence_core.web.service.problems import RESPONSES, add_problems
from presence_core.web.service.request_limits import RequestLimits
from presence_core.web.service.routes import events, jobs, numbers, sessions, staff
from presence_core.web.service.schemas import refuse_repeated
from presence_core.web.service.site_pages.access import SitePagesCors
from presence_core.web.service.site_pages.options import Pages
from presence_core.web.service.site_pages.routes import add_site_pages

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig

    from presence_core.otel import Telemetry
    from presence_core.web.backchannel_logout import LogoutReceiver

_DESCRIPTION: Final = """\
Sessions of users: who is online, on which device, since when. Errors are problem+json (RFC 9457). Times in responses
are ISO 8601; parameters also accept Unix seconds. A uid in a path is percent-encoded, also its slashes.
"""

# By default the framework sends queries, and bodies that it could not parse, to the process's OpenTelemetry: they may
# hold tokens. Older versions have no telemetry, and ignore this.
_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip


class _FastRoute(Route):
    """A plain route that the metrics can name: like FastAPI's own routes, it puts itself into the scope."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self}


def create_app(
    presence: AsyncPresence,
    *,
    keys: Keys | None,
    serves: Pages | None = None,
    telemetry: Telemetry | None = None,
    logouts: LogoutReceiver | None = None,
) -> FastAPI:
    """The service as an ASGI app.

    keys: looks up API keys: ``StoredKeys(presence)``. None gives all rights to all callers, but only from this machine.
    serves: the addresses for a site's own pages (R1, R5); None leaves them out. telemetry: ``add_telemetry(presence)``
    of ``presence_core.otel``, for spans of requests. logouts: receives those of identity providers, at
    ``/backchannel-logout``, without an API key: the provider signs them. The app belongs to one event loop, as
    ``presence`` does.
    """
    app = FastAPI(
        title="presence", version=presence_core.__version__, description=_DESCRIPTION, docs_url=None, redoc_url=None,
        responses=RESPONSES, redirect_slashes=False, telemetry=_NO_TELEMETRY, dependencies=[Depends(refuse_repeated)],
    )  # fmt: skip
    poller = EventPoller(presence)
    meters = Meters(lambda: poller.readers)
    presence.internal.observers.append(meters.observe_operation)
    app.state.presence = presence
    app.state.keys = keys
    app.state.event_poller = poller
    app.state.meters = meters
    add_problems(app)
    for module in (sessions, staff, jobs, numbers, events, metrics):
        app.include_router(module.router)
    if serves is not None:
        add_site_pages(app, serves)
        app.add_middleware(SitePagesCors, origins=serves.origins)
    # These two are in the schema like the others, but are matched before the framework parses their arguments.
    app.router.routes[:0] = [
        _FastRoute(path, endpoint, methods=["POST"]) for path, endpoint in sessions.FAST_ROUTES.items()
    ]
    if logouts is not None:
        from presence_core.web.backchannel_logout.asgi import BackchannelLogout

        app.state.logouts = receiver = BackchannelLogout(presence, logouts)
        app.router.routes.append(Route("/backchannel-logout", receiver))
    add_docs(app)

    def observe(scope: Scope, status: int, seconds: float) -> None:
        meters.observe_request(scope, status, seconds)
        log_request(scope, status, seconds)

    app.add_middleware(RequestLimits, observe=observe)
    if telemetry is not None:
        from presence_core.web.service.request_spans import RequestSpans

        app.add_middleware(RequestSpans, telemetry=telemetry)
    return app
