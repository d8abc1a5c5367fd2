"""Who gets in at all, and the headers that go with every answer. ASGI middleware around the whole app.

``config`` says how people get in, ``loopback`` and ``signed_in`` keep all others out, ``forms`` lets them sign in and
out, ``desk`` keeps their sessions and roles, and ``mark`` tells pages that the gate is there. ``docs/access.md`` is the
manual.
"""

from __future__ import annotations

import os

import streamlit as st
import uvicorn.config
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from presence_core import InvalidArgument
from presence_core.passwords import PasswordFile
from presence_dashboard.gate.config import Config
from presence_dashboard.gate.desk import open_desk
from presence_dashboard.gate.forms import Forms
from presence_dashboard.gate.headers import SecurityHeaders, security_headers
from presence_dashboard.gate.loopback import LoopbackOnly, refuse_public_address
from presence_dashboard.gate.mark import GateMark
from presence_dashboard.gate.signed_in import SignedInOnly

__all__ = [
    "GateMark",
    "LoopbackOnly",
    "SecurityHeaders",
    "SignedInOnly",
    "doors",
    "refuse_public_address",
    "security_headers",
]


def doors() -> tuple[list[Middleware], list[BaseRoute]]:
    """What stands around the app, and the pages at the door. Ends the program with one sentence where the environment
    asks for what makes no sense, or for what would let everybody in."""
    _believe_nobody()
    headers, mark = Middleware(SecurityHeaders, security_headers()), Middleware(GateMark)
    try:
        config = Config.from_env(os.environ)
        if config.mode == "open":
            refuse_public_address()
            return [headers, Middleware(LoopbackOnly), mark], []
        _check_place()
        passwords = PasswordFile.from_env(os.environ) if config.mode == "password" else None
        desk = open_desk()
    except InvalidArgument as error:
        raise SystemExit(str(error)) from None
    forms = Forms(desk, passwords)
    routes = [] if config.mode == "oidc" else [
        Route("/sign-in", forms.sign_in, methods=["GET", "POST"]),
        Route("/sign-out", forms.sign_out, methods=["GET", "POST"]),
    ]  # fmt: skip
    return [headers, Middleware(SignedInOnly, desk), mark], list(routes)


def _believe_nobody() -> None:
    """uvicorn takes the word of every peer on this machine for where a request comes from, and tells nobody who the
    peer was. Streamlit has chosen uvicorn's settings before our code runs, and has none of its own for it; so what
    would do it stands aside. We decide ourselves whom to believe."""
    if not hasattr(uvicorn.config, "ProxyHeadersMiddleware"):
        raise SystemExit("This version of uvicorn is unknown to the dashboard: install what requirements.txt says.")
    uvicorn.config.ProxyHeadersMiddleware = lambda app, **_: app


def _check_place() -> None:
    if not st.get_option("server.allowedHosts"):
        raise InvalidArgument("server.allowedHosts", "must name the host under which people reach the dashboard")
    if st.get_option("server.baseUrlPath"):
        raise InvalidArgument(
            "server.baseUrlPath", "must be empty: a dashboard that people sign in to has a host of its own"
        )
