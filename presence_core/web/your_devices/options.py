"""The settings of "Your devices"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import Session
from presence_core.web.your_devices.device_list import DevicesPage

SHORTEST_KEY: Final = 16
"""Bytes."""

_COLOURS: Final = ("accent", "on_accent", "text", "soft", "page", "card", "line")
THEME: Final = (*_COLOURS, *(f"{name}_dark" for name in _COLOURS), "font", "radius")
"""The names of a theme."""

_VALUE: Final = re.compile(r"[\w#%.,()'\" -]{1,120}")

Language = str | Callable[[Session], str | None]
Template = Callable[[DevicesPage], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """How "Your devices" looks and what it demands."""

    key: str | bytes = field(repr=False)
    """A secret of at least 16 bytes, such as ``secrets.token_hex(32)``, the same in all processes of the site. Another
    key makes the pages that are open now invalid, and changes nothing else."""
    fresh: int | None = 300
    """Seconds since the login or ``reauthenticated`` in which a visitor may sign out other devices; after that the
    page asks for a new sign-in. None: at any time."""
    sign_in_url: str | None = None
    """Where a visitor signs in again. ``{next}`` in it is replaced by the path of the page: "/sign-in?next={next}"."""
    language: Language | None = None
    """"de", "en", "es", "fr", "ja" or "zh_Hans", or a function of the Session that returns one; None: as the
    browser's Accept-Language says."""
    theme: Mapping[str, str] = field(default_factory=dict)
    """Name → CSS value: ``accent``, ``on_accent``, ``text``, ``soft``, ``page``, ``card``, ``line``, each
    also with ``_dark`` for dark mode; ``font``, ``radius``. A template has them as CSS variables:
    ``--devices-accent``, ``--devices-on-accent``, …"""
    template: Template | None = None
    """A function that returns the whole HTML of a ``DevicesPage``, to show it inside the site's own layout."""
    policy: str | None = None
    """Content-Security-Policy of the pages; ``{style}`` in it is replaced by the source of ``DevicesPage.style``. None:
    nothing but our own style; with a ``template``, the site's own files. No inline script runs in either."""
    notice_block: int | None = None
    """Seconds for which a user may not log in after they answered a notice with "this was not me". None: they may, so
    that a person who opens a stolen mail cannot lock the user out."""
    per_minute: int = 60
    """Requests of one session in a minute, in this process; for the link of a notice, of one address. 1…10,000."""

    def __post_init__(self) -> None:
        if not isinstance(self.key, str | bytes) or len(self.secret) < SHORTEST_KEY:
            raise InvalidArgument("key", f"must be text or bytes of at least {SHORTEST_KEY} bytes")
        if self.fresh is not None:
            check.seconds("fresh", self.fresh)
        _check_url(self.sign_in_url)
        if self.language is not None and not isinstance(self.language, str) and not callable(self.language):
            raise InvalidArgument("language", "must be a language such as de, or a function")
        if not isinstance(self.theme, Mapping) or not self.theme.keys() <= set(THEME):
            raise InvalidArgument("theme", f"must be a dict with the names {', '.join(THEME)}", "wrong_type")
        if not all(isinstance(value, str) and _VALUE.fullmatch(value) for value in self.theme.values()):
            raise InvalidArgument("theme", "must hold CSS values of up to 120 characters, without ; { } < and >")
        check.callback("template", self.template)
        if self.policy is not None and not (isinstance(self.policy, str) and re.fullmatch(r"[ -~]+", self.policy)):
            raise InvalidArgument("policy", "must be a Content-Security-Policy in one line")
        if self.notice_block is not None:
            check.seconds("notice_block", self.notice_block)
        check.whole("per_minute", self.per_minute, 1, 10_000)

    @property
    def secret(self) -> bytes:
        """The key as bytes."""
        return self.key.encode() if isinstance(self.key, str) else self.key


def _check_url(url: object) -> None:
    if url is not None and not (isinstance(url, str) and re.fullmatch(r"(/(?!/)|https?://)[!-~]*", url)):
        raise InvalidArgument("sign_in_url", "must begin with / or https://")
