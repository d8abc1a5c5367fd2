"""The dashboard's app: ``streamlit run dashboard.py``. The gate, the headers and our own routes; pages are elsewhere.

It reads PRESENCE_REDIS_URL (without it, it uses the embedded server), and PRESENCE_DASHBOARD_ACCESS: how people get in.
"""

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
    "presence_dashboard/main.py",
    routes=[Route("/healthz", healthz), *routes, *browser.routes],
    middleware=[*middleware, Middleware(browser.OwnFiles)],
)
