"""System checks: mistakes in the settings that ``manage.py check`` reports."""

from __future__ import annotations

import os
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.core.checks import CheckMessage, Error, Info, Warning
from django.utils.module_loading import import_string

from presence_core.client import AsyncPresence, Presence
from presence_core.client.server_choice import EMBEDDED, FALLBACK, VARIABLE
from presence_core.errors import InvalidArgument, PresenceError, Unavailable
from presence_core.models import START_A_WORKER, no_worker
from presence_core.web.django.config import config
from presence_core.web.django.middleware import PresenceMiddleware

NAMES: Final = frozenset({
    "PRESENCE_REDIS_URL", "PRESENCE_TEST_REDIS_URL", "PRESENCE_SETTINGS", "PRESENCE_RULES", "PRESENCE_DESCRIBE",
    "PRESENCE_ON_ENDED", "PRESENCE_KICK_OTHERS", "PRESENCE_UPDATE_PERSON", "PRESENCE_DEVICE_COOKIE",
    "PRESENCE_YOUR_DEVICES",
})  # fmt: skip
"""Settings of the app. ``apps.PresenceConfig`` documents them."""

NO_EFFECT: Final = ("cookie", "bearer", "anonymous")
"""Rules that Django decides itself."""


def check_site(**_: Any) -> list[CheckMessage]:
    """All mistakes that can be seen without a connection."""
    return [*_check_url(), *_check_middleware(), *_check_names(), *_check_devices()]


def check_deployment(**_: Any) -> list[CheckMessage]:
    """What is fine on a laptop, but not in production."""
    if EMBEDDED in (getattr(settings, VARIABLE, None), os.environ.get(VARIABLE)):
        hint = "Name a Redis that all machines of the site can reach."
        return [Warning("PRESENCE_REDIS_URL is embedded.", hint=hint, id="presence.W006")]
    return _check_worker()


def _check_worker() -> list[CheckMessage]:
    """Whether a worker leads, by a connection: no mistake of the settings, so what cannot be read is a note."""
    try:
        with Presence.from_env(config().environ()) as presence:
            status = presence.worker_status()
    except InvalidArgument:  # an error of check_site
        return []
    except PresenceError as error:
        return [Info(f"It is unknown whether a worker runs: {error}", id="presence.I001")]
    if status is not None and status.alive:
        return []
    return [Warning(no_worker(status.beat if status else None), hint=START_A_WORKER, id="presence.W007")]


def _check_url() -> list[CheckMessage]:
    try:
        environ = config().environ()
    except Unavailable as error:  # in a test run, where no embedded server can start
        return [Error(str(error), hint="Or set PRESENCE_TEST_REDIS_URL.", id="presence.E001")]
    url = environ.get(VARIABLE, "").strip()
    if url == EMBEDDED or (not url and environ.get(FALLBACK)):  # to decide about the latter takes a round trip
        return []
    try:
        AsyncPresence.from_env(environ)  # opens no connection
    except InvalidArgument as error:
        if url:
            return [Error(f"{VARIABLE} is wrong: {error}", id="presence.E002")]
        return [Error(str(error), id="presence.E001")]
    return []


def _check_middleware() -> list[CheckMessage]:
    chain = [import_string(path) for path in settings.MIDDLEWARE]
    ours = _place(chain, PresenceMiddleware)
    if ours is None:
        hint = f"Add {PresenceMiddleware.__module__}.PresenceMiddleware after AuthenticationMiddleware."
        return [Error("PresenceMiddleware is not in MIDDLEWARE: no kick ends a visit.", hint=hint, id="presence.E003")]
    authentication, messages = _place(chain, AuthenticationMiddleware), _place(chain, MessageMiddleware)
    found: list[CheckMessage] = []
    if authentication is None or authentication > ours:
        found.append(Error("PresenceMiddleware must come after AuthenticationMiddleware in MIDDLEWARE.",
                           id="presence.E004"))  # fmt: skip
    if messages is not None and messages > ours:
        hint = "Otherwise a user who was signed out does not see why."
        found.append(Warning("PresenceMiddleware should come after MessageMiddleware in MIDDLEWARE.", hint=hint,
                             id="presence.W004"))  # fmt: skip
    return found


def _place(chain: list[Any], kind: type) -> int | None:
    return next((n for n, each in enumerate(chain) if isinstance(each, type) and issubclass(each, kind)), None)


def _check_devices() -> list[CheckMessage]:
    if not hasattr(settings, "PRESENCE_YOUR_DEVICES"):
        return []
    try:
        config().your_devices  # noqa: B018
    except (InvalidArgument, TypeError, ImportError) as error:
        return [Error(f"PRESENCE_YOUR_DEVICES: {error}", id="presence.E005")]
    return []


def _check_names() -> list[CheckMessage]:
    unknown = sorted(name for name in dir(settings) if name.startswith("PRESENCE_") and name not in NAMES)
    found: list[CheckMessage] = [
        Warning(f"{name} is not a setting of presence.", hint=f"It knows {', '.join(sorted(NAMES))}.",
                id="presence.W001") for name in unknown
    ]  # fmt: skip
    given = [name for name in NO_EFFECT[:2] if name in getattr(settings, "PRESENCE_RULES", {})]
    return found + [
        Warning(f"{name} in PRESENCE_RULES has no effect.", hint="Django's own session names the user.",
                id="presence.W002") for name in given
    ]  # fmt: skip
