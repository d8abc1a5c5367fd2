"""The Django app's settings and the Presence of this process, for every module of this package."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from presence_core.client import Presence
from presence_core.client.server_choice import EMBEDDED, VARIABLE, choose_server
from presence_core.errors import InvalidArgument
from presence_core.secret_files import with_secret
from presence_core.settings import Settings
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.rules import Rules

YEAR: Final = 365 * 86_400


class SiteConfig(AppConfig):  # type: ignore[misc]  # Django ships no types
    """The settings of the app, read and checked; ``apps.PresenceConfig`` documents them."""

    def check_settings(self) -> None:
        """Raise ImproperlyConfigured if a setting is wrong."""
        try:
            self.rules, _ = self._rules(), self._settings()
            self.describe = _hook("PRESENCE_DESCRIBE")
            self.on_ended = _hook("PRESENCE_ON_ENDED")
        except (InvalidArgument, TypeError, ImportError) as error:
            raise ImproperlyConfigured(f"PRESENCE_* settings: {error}") from error
        self.kick_others = bool(getattr(settings, "PRESENCE_KICK_OTHERS", True))

    def _rules(self) -> Rules:
        given = _dict("PRESENCE_RULES")
        return Rules(**{"anonymous": "pass", **given, "cookie": None, "bearer": False})

    def _settings(self) -> Settings:
        given = dict(_dict("PRESENCE_SETTINGS"))
        self.has_timeouts = bool({"idle_timeout", "absolute_timeout"} & given.keys())
        # By default a session lives as long as the Django session.
        age = settings.SESSION_COOKIE_AGE
        given.setdefault("absolute_timeout", max(age, YEAR) if settings.SESSION_SAVE_EVERY_REQUEST else age)
        given.setdefault("idle_timeout", min(age, given["absolute_timeout"]))
        return Settings(**given)

    @cached_property
    def presence(self) -> Presence:
        """The client of this process, created at its first use. Raises ImproperlyConfigured if no server is named."""
        own, named = self._settings(), getattr(settings, VARIABLE, None)
        try:
            url = choose_server(with_secret(os.environ, VARIABLE, named) if named else os.environ, own)
        except InvalidArgument as error:
            raise ImproperlyConfigured(str(error)) from error
        return Presence.embedded(settings=own) if url == EMBEDDED else Presence.from_url(url, own)

    @cached_property
    def checker(self) -> RequestChecker:
        """Decides about each request by PRESENCE_RULES."""
        return RequestChecker(self.presence, self.rules)

    def on_setting_changed(self, *, setting: str, **_: Any) -> None:
        """Make ``override_settings`` work in the site's own tests."""
        if setting.startswith("PRESENCE_"):
            for cached in ("checker", "presence"):
                self.__dict__.pop(cached, None)
            self.check_settings()


def _dict(name: str) -> Mapping[str, Any]:
    value = getattr(settings, name, {})
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, "must be a dict")
    return value


def _hook(name: str) -> Callable[..., Any] | None:
    path = getattr(settings, name, None)
    if path is None or callable(path):
        return path
    hook: Callable[..., Any] = import_string(path)
    return hook


def config() -> SiteConfig:
    """The installed app."""
    app: SiteConfig = apps.get_app_config("presence")
    return app


def get_presence() -> Presence:
    """The Presence of this process, for the site's own views: who is online, a user's devices."""
    presence: Presence = config().presence
    return presence
