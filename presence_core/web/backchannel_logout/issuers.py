"""The identity providers whose logouts count. Nothing else is ever asked: a token causes no request elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.loopback import is_loopback

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that need the private key of the provider. Never ``none``, and none with a shared secret."""

MAX_ISSUERS: Final = 100


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider, as its documents name it."""

    issuer: str  #: exactly as in its tokens, such as https://idp.example.com/realms/shop
    audience: str  #: the client id of your site there
    jwks_uri: str  #: where it publishes its keys: https, or http on this machine
    name: str = ""  #: for staff and the audit; default: the host of the issuer
    algorithms: tuple[str, ...] = ("RS256",)  #: of its signatures
    typed: bool = True  #: False: its tokens may have the type JWT or none, as those of Keycloak before 25 have

    def __post_init__(self) -> None:
        for field in ("issuer", "audience", "jwks_uri"):
            check.plain_text(field, getattr(self, field), check.MAX_CLAIM, "must be text of 1 to 255 bytes")
        try:
            address, host = urlsplit(self.jwks_uri), urlsplit(self.issuer).hostname
        except ValueError:
            raise InvalidArgument("jwks_uri", "must be an https URL") from None
        is_safe = address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname or ""))
        if not is_safe or not address.hostname or address.username is not None:
            raise InvalidArgument("jwks_uri", "must be an https URL; http only of this machine")
        object.__setattr__(self, "name", check.actor(self.name or host or self.issuer))
        if not isinstance(self.typed, bool):
            raise InvalidArgument("typed", "must be True or False", "wrong_type")
        algorithms = self.algorithms
        if not isinstance(algorithms, tuple) or not algorithms or not all(name in ALGORITHMS for name in algorithms):
            raise InvalidArgument("algorithms", "must be some of " + ", ".join(ALGORITHMS), "not_a_choice")


def read_issuers(path: str) -> list[Issuer]:
    """The issuers of a JSON file: a list of objects with the fields of Issuer. Raises InvalidArgument."""
    try:
        found = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InvalidArgument("issuers", f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InvalidArgument("issuers", "must be a JSON file", "malformed") from None
    return make_issuers(found)


def make_issuers(found: Any) -> list[Issuer]:
    """The issuers of a list of dicts with the fields of Issuer. Raises InvalidArgument."""
    if not isinstance(found, list | tuple) or not 0 < len(found) <= MAX_ISSUERS:
        raise InvalidArgument("issuers", f"must be a list of 1 to {MAX_ISSUERS} objects")
    return [_issuer(number, given) for number, given in enumerate(found, 1)]


def _issuer(number: int, given: Any) -> Issuer:
    known = {item.name for item in fields(Issuer)}
    if not isinstance(given, dict) or not {"issuer", "audience", "jwks_uri"} <= given.keys() <= known:
        raise InvalidArgument(
            f"issuer {number}", "must have issuer, audience and jwks_uri, and may have name, algorithms and typed"
        )
    texts = {name: given[name] for name in given if name != "algorithms"}
    listed = given.get("algorithms", ["RS256"])
    try:
        return Issuer(**texts, algorithms=tuple(listed) if isinstance(listed, list | tuple) else ())
    except InvalidArgument as error:
        raise InvalidArgument(f"issuer {number}: {error.field}", error.rule, error.code) from None
