"""The dashboard's app: the gate, the headers and our own routes; pages are elsewhere.

Start it with ``presence dashboard``, or in a checkout with ``streamlit run dashboard.py``. A wheel has this file and
``.streamlit/config.toml`` inside ``presence_dashboard``. It reads PRESENCE_REDIS_URL (without it, it uses the embedded
server), and PRESENCE_DASHBOARD_ACCESS: how people get in.
"""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from presence_dashboard import browser, gate


async def healthz(_request: Request) -> Response:
    """This process answers. Says nothing of Redis: a restart of the dashboard would not mend that."""
    return JSONResponse({"status": "ok"})


middleware, routes = gate.doors()
app = st.App(
    Path(browser.__file__).with_name("main.py"),
    routes=[Route("/healthz", healthz), *routes, *browser.routes],
    middleware=[*middleware, Middleware(browser.OwnFiles)],
)
