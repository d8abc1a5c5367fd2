"""The dashboard's ASGI app: the gate, the headers and our own routes. The pages are in ``presence_dashboard``.

Start it with ``presence dashboard``, or in a checkout with ``streamlit run dashboard.py``. A wheel has this file and
``.streamlit/config.toml`` inside ``presence_dashboard``. Settings: PRESENCE_REDIS_URL and PRESENCE_DASHBOARD_ACCESS
(how staff sign in).
"""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import presence_dashboard
from presence_dashboard import browser_files, gate


async def healthz(_request: Request) -> Response:
    """200 while this process runs. Does not check Redis: a restart of the dashboard would not fix Redis."""
    return JSONResponse({"status": "ok"})


middleware, routes = gate.middleware_and_routes()
app = st.App(
    Path(presence_dashboard.__file__).with_name("main.py"),
    routes=[Route("/healthz", healthz), *routes, *browser_files.routes],
    middleware=[*middleware, Middleware(browser_files.OwnFiles)],
)
