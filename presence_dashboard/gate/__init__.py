"""The gate: ASGI middleware around the whole app that decides who gets in, and sets security headers.

``gate_settings``, next to this package, has the settings. ``loopback`` and ``signed_in_only`` refuse requests,
``sign_in_forms`` and ``html_pages`` are the sign-in, ``oidc`` completes that of Streamlit, ``staff_sessions``
keeps sign-ins and roles, ``socket_limits`` and ``page_messages`` bound what a browser may send, and ``gate_mark`` tells
pages that the gate is there.
Imports ``texts``, ``format``, ``roles`` and ``data.store``; ``access``, ``actions`` and ``dashboard.py`` import it.
Start with ``middleware_and_routes`` below. The manual is docs/run/access.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

import streamlit as st
import uvicorn.config
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from presence_core import InvalidArgument, Unavailable
from presence_core.files.supported_systems import why_not_here
from presence_core.logs import start_logs
from presence_dashboard.data.store import open_store
from presence_dashboard.gate.gate_mark import GateMark
from presence_dashboard.gate.headers import SecurityHeaders, security_headers
from presence_dashboard.gate.limits.socket_limits import LARGEST_OF_MEMBERS, SocketLimits
from presence_dashboard.gate.loopback import LoopbackOnly, refuse_public_address
from presence_dashboard.gate.made_files import MadeFiles
from presence_dashboard.gate.oidc import BACK_CHANNEL
from presence_dashboard.gate.oidc.redirects import OidcRedirects, sign_in_again
from presence_dashboard.gate.page_messages import PageMessagesOnly
from presence_dashboard.gate.sign_in_forms import SignInForms
from presence_dashboard.gate.signed_in_only import SignedInOnly
from presence_dashboard.gate.staff_sessions import open_staff_sessions
from presence_dashboard.gate_settings import MODE, check_settings
from presence_dashboard.language import InLanguage

_OIDC_KEYS: Final = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")


def middleware_and_routes() -> tuple[list[Middleware], list[BaseRoute]]:
    """The middleware around the app, and the routes of the sign-in.

    Ends the program with one sentence if the settings contradict each other, would let everyone in, or name no Redis,
    and on a system where it does not run.
    """
    if refusal := why_not_here():
        raise SystemExit(refusal)
    _disable_proxy_headers()
    _limit_messages()
    first = [Middleware(InLanguage), Middleware(SecurityHeaders, security_headers())]
    last = [Middleware(PageMessagesOnly), Middleware(GateMark)]
    try:
        start_logs(os.environ)
        config = check_settings(os.environ)
        if config.mode == "open":
            refuse_public_address()
            _require_redis()
            return [*first, Middleware(LoopbackOnly), Middleware(MadeFiles), *last], []
        _check_server_options()
        if config.mode == "oidc":
            check_oidc()
        staff = open_staff_sessions()
        _require_redis()
    except InvalidArgument as error:
        raise SystemExit(str(error)) from None
    last = [Middleware(SocketLimits, staff), Middleware(MadeFiles, staff), *last]
    signed_in_only = Middleware(SignedInOnly, staff)
    if config.mode == "oidc":
        redirects = Middleware(OidcRedirects, config)
        routes: list[BaseRoute] = [Route("/sign-in-again", sign_in_again)]
        if find_spec("joserfc") is not None:  # Authlib brings it
            from presence_dashboard.gate.oidc.back_channel import StaffLogout

            routes.append(Route(BACK_CHANNEL, StaffLogout(staff)))
        return [*first, signed_in_only, redirects, *last], routes
    forms = SignInForms(staff)
    handlers = {"/sign-in": forms.sign_in, "/sign-in-again": forms.sign_in_again, "/sign-out": forms.sign_out}
    return [*first, signed_in_only, *last], [
        Route(path, handler, methods=["GET", "POST"]) for path, handler in handlers.items()
    ]


def check_oidc() -> None:
    """Raise InvalidArgument if Streamlit cannot run the sign-in. Streamlit itself notices it at the first sign-in."""
    if find_spec("authlib") is None:
        raise InvalidArgument(MODE, "cannot be oidc without Authlib: pip install 'streamlit[auth]'", "not_installed")
    try:
        auth = st.secrets.get("auth")
    except OSError:  # no file, or one that cannot be read or parsed
        auth = None
    if lacking := [key for key in _OIDC_KEYS if not isinstance(auth, Mapping) or not auth.get(key)]:
        rule = f"must have a table [auth] with {', '.join(lacking)}: docs/run/sign_in.md"
        raise InvalidArgument("secrets.toml", rule)


def _require_redis() -> None:
    """Raise InvalidArgument if the environment names no Redis. One that is unavailable is no reason not to start."""
    with suppress(Unavailable):
        _ = open_store().presence


def _disable_proxy_headers() -> None:
    """Keep uvicorn from replacing the peer address by what proxy headers say.

    uvicorn believes every peer on this machine, and Streamlit offers no setting for it. We read these headers
    ourselves, from trusted proxies only.
    """
    if not hasattr(uvicorn.config, "ProxyHeadersMiddleware"):
        raise SystemExit("This version of uvicorn is not supported: install the versions of requirements.txt.")
    uvicorn.config.ProxyHeadersMiddleware = lambda app, **_: app


def _limit_messages() -> None:
    """Limit what uvicorn collects of a message before the gate sees it.

    Streamlit sets one limit for both directions, and what it sends to a browser may be twenty times as long.
    """
    uvicorn.config.Config.ws_max_size = property(  # type: ignore[assignment]
        lambda _config: LARGEST_OF_MEMBERS, lambda _config, _value: None
    )


def _check_server_options() -> None:
    if not st.get_option("server.allowedHosts"):
        raise InvalidArgument("server.allowedHosts", "must name the host name of the dashboard")
    if st.get_option("server.baseUrlPath"):
        raise InvalidArgument("server.baseUrlPath", "must be empty: a dashboard with a sign-in needs its own host name")
