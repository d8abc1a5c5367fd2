"""The dashboard's ASGI app: the gate, the headers and our own routes. The pages are in ``presence_dashboard``.

Start it with ``presence dashboard``, or in a checkout with ``streamlit run dashboard.py``. A wheel has this file and
``.streamlit/config.toml`` inside ``presence_dashboard``. Settings: PRESENCE_REDIS_URL and PRESENCE_DASHBOARD_ACCESS
(how staff sign in).
"""

from pathlib import Path

import streamlit as st
from anyio import to_thread
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import presence_dashboard
from presence_dashboard import browser_files, gate
from presence_dashboard.data.browser_tab import zone_named
from presence_dashboard.data.store import open_store, outage_words


async def healthz(_request: Request) -> Response:
    """200 while this process runs. Does not check Redis: a restart of the dashboard would not fix Redis."""
    return JSONResponse({"status": "ok"})


KEEP_CONNECTION = 1.9
"""Seconds for which pages share a look at Redis. With the second between two questions of a page and the two seconds
that a call may take, an outage is said within five."""


async def connection(request: Request) -> Response:
    """``{"notice": …}``: why sessions cannot be read, in Markdown and in the language of the request, or null.

    page.js asks every second. A page notices an outage only at its next tick, and may then wait for Redis.
    """
    counts = await to_thread.run_sync(lambda: open_store().counts(keep=KEEP_CONNECTION))
    notice = None if counts.error is None else outage_words(counts, zone_named(request.query_params.get("zone")))
    return JSONResponse({"notice": notice}, headers={"Cache-Control": "no-store"})


middleware, routes = gate.middleware_and_routes()
app = st.App(
    Path(presence_dashboard.__file__).with_name("main.py"),
    routes=[Route("/healthz", healthz), Route("/page/connection", connection), *routes, *browser_files.routes],
    middleware=[*middleware, Middleware(browser_files.OwnFiles)],
)
