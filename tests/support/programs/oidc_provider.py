"""A small OpenID provider that signs every user in at once, with the name that the test sets: discovery, code flow,
RS256."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from typing import Any, Self
from urllib.parse import urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.support.servers import free_port, wait_for

CLIENT = "dashboard"


class Provider:
    """Runs in a thread of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.kid, self.fetches = "one", 0
        self.slow = 0.0  #: seconds that it takes to publish its keys
        self.published: list[tuple[Any, str]] = []  #: keys with their ids, in place of the one that signs
        self.claims: dict[str, Any] = {}  #: claims of the next sign-in; None: without the claim
        self.asked: dict[str, str] = {}  #: the parameters of the latest request
        self.is_away, self.discoveries = False, 0  #: of its metadata
        self.signed_out: list[dict[str, str]] = []  #: the parameters of each request to sign out
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._nonces: dict[str, str] = {}
        routes = [
            Route("/.well-known/openid-configuration", self._discovery),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/jwks", self._jwks),
            Route("/end", self._end),
        ]
        config = uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=self.port, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        wait_for("the provider", lambda: self._server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def _discovery(self, _request: Request) -> Response:
        self.discoveries += 1
        if self.is_away:
            return Response(status_code=503)
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks",
                 "end_session_endpoint": "end"}  # fmt: skip
        return JSONResponse(
            {name: f"{self.url}/{path}" for name, path in paths.items()}
            | {
                "issuer": self.url,
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _authorize(self, request: Request) -> Response:
        code, asked = secrets.token_urlsafe(), request.query_params
        self._nonces[code] = asked["nonce"]
        self.asked = dict(asked)
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}")

    async def _token(self, request: Request) -> Response:
        nonce = self._nonces.pop(str((await request.form())["code"]))
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 600, "nonce": nonce, "auth_time": now}
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        token = jwt.encode(claims, self._key, "RS256", {"kid": self.kid})
        return JSONResponse({"access_token": "unused", "token_type": "Bearer", "id_token": token})

    async def _end(self, request: Request) -> Response:
        self.signed_out.append(dict(request.query_params))
        return RedirectResponse(request.query_params["post_logout_redirect_uri"])

    async def _jwks(self, _request: Request) -> Response:
        self.fetches += 1
        await asyncio.sleep(self.slow)
        return JSONResponse(
            {
                "keys": [
                    jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
                    | {"kid": kid, "use": "sig", "alg": "RS256"}
                    for key, kid in self.published or [(self._key, self.kid)]
                ]
            }
        )

    def use_new_key(self, kid: str) -> None:
        """Sign with another key from now on."""
        self._key, self.kid = rsa.generate_private_key(public_exponent=65537, key_size=2048), kid

    def logout_token(self, header: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
        """A logout token. A claim or header of None is left out."""
        now = int(time.time())
        event: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}
        full = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": secrets.token_hex(8),
                "events": event} | claims  # fmt: skip
        headers = {"typ": "logout+jwt", "kid": self.kid} | (header or {})
        return jwt.encode(
            {name: value for name, value in full.items() if value is not None}, key or self._key,
            str(headers.pop("alg", "RS256")), {name: value for name, value in headers.items() if value is not None},
        )  # fmt: skip
