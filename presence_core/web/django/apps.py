"""The Django app: its settings, the Presence of this process, and the signals that it listens to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db.models.signals import post_delete, post_save, pre_save
from django.utils.module_loading import import_string

from presence_core.client import Presence
from presence_core.errors import InvalidArgument
from presence_core.settings import Settings
from presence_core.web.gate import Gate
from presence_core.web.rules import Rules

YEAR: Final = 365 * 86_400
SIGNED_COOKIES: Final = "django.contrib.sessions.backends.signed_cookies"


class PresenceConfig(AppConfig):  # type: ignore[misc]  # Django ships no types
    """``presence_core.web.django`` in INSTALLED_APPS. All settings have defaults:

    ======================  ============================================================================================
    PRESENCE_REDIS_URL      where Redis is; without it the environment's, or the embedded server
    PRESENCE_SETTINGS       dict of Settings: ``{"idle_timeout": 1800, …}``; both timeouts are SESSION_COOKIE_AGE, or
                            what ``set_expiry`` said before login, if not given; with SESSION_SAVE_EVERY_REQUEST the
                            absolute timeout is a year
    PRESENCE_RULES          dict of Rules: ``{"mode": "adopt", "routes": {"/feed": "open"}, …}``; cookie and bearer are
                            of no meaning here, and anonymous visitors always pass: they are Django's affair
    PRESENCE_DESCRIBE       "path.to.function": (request, user) → dict of login's arguments such as name, device, app
    PRESENCE_ON_ENDED       "path.to.function": (request, ended or None) → the response for who is refused
    PRESENCE_KICK_OTHERS    True: a new password ends the user's other sessions
    ======================  ============================================================================================
    """

    name = "presence_core.web.django"
    label = "presence"
    verbose_name = "Presence"

    def ready(self) -> None:
        from presence_core.web.django import signals

        if settings.SESSION_ENGINE == SIGNED_COOKIES:
            raise ImproperlyConfigured("SESSION_ENGINE must keep sessions on the server: presence cannot end a cookie.")
        self.check_settings()
        user_logged_in.connect(signals.on_login, dispatch_uid="presence")
        user_logged_out.connect(signals.on_logout, dispatch_uid="presence")
        for model in apps.get_models():  # proxies and children of the user model send signals of their own
            if issubclass(model, get_user_model()):
                self.listen_to(model)
        setting_changed.connect(self._on_setting_changed, dispatch_uid="presence")

    def listen_to(self, model: Any) -> None:
        """End the sessions of this user model's accounts with them. Only for a model that is made later than ready."""
        from presence_core.web.django import signals

        pre_save.connect(signals.on_user_saving, sender=model, dispatch_uid="presence")
        post_save.connect(signals.on_user_saved, sender=model, dispatch_uid="presence")
        if model._meta.concrete_model is get_user_model():  # that of a child is sent for its parent as well
            post_delete.connect(signals.on_user_deleted, sender=model, dispatch_uid="presence")

    def check_settings(self) -> None:
        """Raise ImproperlyConfigured, in one sentence, for what cannot be."""
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
        # Unless the site says otherwise a session lives as long as Django lets it.
        age = settings.SESSION_COOKIE_AGE
        given.setdefault("absolute_timeout", max(age, YEAR) if settings.SESSION_SAVE_EVERY_REQUEST else age)
        given.setdefault("idle_timeout", min(age, given["absolute_timeout"]))
        return Settings(**given)

    @cached_property
    def presence(self) -> Presence:
        """The client of this process, made when it is first asked for."""
        url = getattr(settings, "PRESENCE_REDIS_URL", None) or os.environ.get("PRESENCE_REDIS_URL")
        return Presence.from_url(url, self._settings()) if url else Presence.embedded(settings=self._settings())

    @cached_property
    def gate(self) -> Gate:
        """The rules of the middleware, applied."""
        return Gate(self.presence, self.rules)

    def _on_setting_changed(self, *, setting: str, **_: Any) -> None:
        """For the site's own tests: ``override_settings`` takes effect."""
        if setting.startswith("PRESENCE_"):
            for made in ("gate", "presence"):
                self.__dict__.pop(made, None)
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


def config() -> PresenceConfig:
    """The app as it is installed."""
    found: PresenceConfig = apps.get_app_config("presence")
    return found


def get_presence() -> Presence:
    """The Presence of this process, for views that ask more: who is online, a user's devices."""
    presence: Presence = config().presence
    return presence
