"""The dashboard's app: ``streamlit run dashboard.py``. The gate, the headers and our own routes; pages are elsewhere.

It reads PRESENCE_REDIS_URL; without it, it uses the embedded server.
"""

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from presence_dashboard import gate


async def healthz(_request: Request) -> Response:
    """This process answers. Says nothing of Redis: a restart of the dashboard would not mend that."""
    return JSONResponse({"status": "ok"})


gate.refuse_public_address()
app = st.App(
    "presence_dashboard/main.py",
    routes=[Route("/healthz", healthz)],
    middleware=[Middleware(gate.SecurityHeaders, gate.security_headers()), Middleware(gate.LoopbackOnly)],
)
