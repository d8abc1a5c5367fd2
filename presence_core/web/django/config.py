"""The Django app's settings and the Presence of this process, for every module of this package."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.core.exceptions import ImproperlyConfigured
from django.shortcuts import resolve_url
from django.utils.crypto import salted_hmac
from django.utils.module_loading import import_string

from presence_core.client import Presence
from presence_core.client.server_choice import VARIABLE
from presence_core.errors import InvalidArgument
from presence_core.files.secret_files import with_secret
from presence_core.settings import Settings, fields_of_environ
from presence_core.web.django.test_server import TestServer, is_test_run
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.rules import Rules

if TYPE_CHECKING:
    from presence_core.web.notices.link import NoticeLink
    from presence_core.web.your_devices.answers import DeviceAnswers

YEAR: Final = 365 * 86_400


class SiteConfig(AppConfig):  # type: ignore[misc]  # Django ships no types
    """The settings of the app, read and checked; ``apps.PresenceConfig`` documents them."""

    overrides = 0
    """How many ``override_settings`` name a server now: a test then uses that one."""

    def check_settings(self) -> None:
        """Raise ImproperlyConfigured if a setting is wrong."""
        try:
            self.rules, _ = self._rules(), self._settings()
            self.describe = _hook("PRESENCE_DESCRIBE")
            self.on_ended = _hook("PRESENCE_ON_ENDED")
        except (InvalidArgument, TypeError, ImportError) as error:
            raise ImproperlyConfigured(f"PRESENCE_* settings: {error}") from error
        self.device_cookie = bool(getattr(settings, "PRESENCE_DEVICE_COOKIE", True))
        self.kick_others = bool(getattr(settings, "PRESENCE_KICK_OTHERS", True))
        self.update_person = bool(getattr(settings, "PRESENCE_UPDATE_PERSON", True))

    def _rules(self) -> Rules:
        given = _dict("PRESENCE_RULES")
        return Rules(**{"anonymous": "pass", **given, "cookie": None, "bearer": False})

    def _settings(self) -> Settings:
        given = {**fields_of_environ(os.environ), **_dict("PRESENCE_SETTINGS")}
        self.has_timeouts = bool({"idle_timeout", "absolute_timeout"} & given.keys())
        # By default a session lives as long as the Django session.
        age = settings.SESSION_COOKIE_AGE
        given.setdefault("absolute_timeout", max(age, YEAR) if settings.SESSION_SAVE_EVERY_REQUEST else age)
        given.setdefault("idle_timeout", min(age, given["absolute_timeout"]))
        return Settings(**given)

    @cached_property
    def test_server(self) -> TestServer:
        """The server of a test run."""
        return TestServer(getattr(settings, "PRESENCE_TEST_REDIS_URL", None))

    def environ(self) -> dict[str, str]:
        """The site's settings as the environment variables of the ``presence`` command, with the other variables."""
        values, url = asdict(self._settings()), getattr(settings, VARIABLE, None)
        if is_test_run() and not self.overrides:
            url, values["namespace"] = self.test_server.url, self.test_server.namespace
        ours = {f"PRESENCE_{name.upper()}": _as_text(value) for name, value in values.items() if value is not None}
        unset = {f"PRESENCE_{name.upper()}" for name, value in values.items() if value is None}
        rest = {name: value for name, value in os.environ.items() if name not in unset}
        return with_secret(rest | ours, VARIABLE, str(url)) if url else rest | ours

    @cached_property
    def presence(self) -> Presence:
        """The client of this process, created at its first use. Raises ImproperlyConfigured if no server is named."""
        try:
            return Presence.from_env(self.environ())
        except InvalidArgument as error:
            raise ImproperlyConfigured(str(error)) from error

    @cached_property
    def checker(self) -> RequestChecker:
        """Decides about each request by PRESENCE_RULES."""
        return RequestChecker(self.presence, self.rules)

    @cached_property
    def your_devices(self) -> DeviceAnswers:
        """Answers the requests to ``web.django.your_devices``, by PRESENCE_YOUR_DEVICES."""
        from presence_core.web.your_devices.answers import DeviceAnswers  # needs the extra `devices`
        from presence_core.web.your_devices.options import DeviceOptions

        given = dict(_dict("PRESENCE_YOUR_DEVICES"))
        for name in ("template", "language"):
            if isinstance(given.get(name), str) and "." in given[name]:
                given[name] = import_string(given[name])
        given.setdefault("key", salted_hmac("presence_core.web.your_devices", "key", algorithm="sha256").digest())
        given.setdefault("sign_in_url", f"{resolve_url(settings.LOGIN_URL)}?{REDIRECT_FIELD_NAME}={{next}}")
        return DeviceAnswers(DeviceOptions(**given))

    def on_setting_changed(self, *, setting: str, enter: bool, **_: Any) -> None:
        """Make ``override_settings`` work in the site's own tests."""
        if setting == VARIABLE:
            self.overrides += 1 if enter else -1
        if setting.startswith("PRESENCE_"):
            self.forget_client()
            self.check_settings()

    def renew_test_namespace(self) -> None:
        """In a test run: continue with an empty namespace. A forked child does so too: it runs tests in parallel."""
        if is_test_run() and "test_server" in self.__dict__:
            self.test_server.renew()
            self.forget_client()

    def forget_client(self) -> None:
        """Make a new client at the next use."""
        for cached in ("checker", "presence", "your_devices"):
            self.__dict__.pop(cached, None)


def _dict(name: str) -> Mapping[str, Any]:
    value = getattr(settings, name, {})
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, "must be a dict", "wrong_type")
    return value


def _as_text(value: object) -> str:
    """A setting as ``Settings.from_env`` reads it."""
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    return str(value)


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


def notice_link(url: str, days: int = 7) -> NoticeLink:
    """The link of notices to the page of ``web.django.your_devices``. url: such as
    "https://shop.example/devices/notice". It needs the extra ``devices``."""
    from presence_core.web.notices.link import NoticeLink

    return NoticeLink(url=url, key=config().your_devices.options.key, days=days)


def fresh_presence() -> Presence:
    """For the site's own tests: the Presence of this process in a new, empty namespace. Call it in ``setUp``."""
    if not is_test_run():
        raise RuntimeError("fresh_presence is for tests: use get_presence.")
    config().renew_test_namespace()
    return get_presence()
