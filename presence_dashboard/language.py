"""The language of a page, and the words of ``texts`` in it.

A page has the language that the operator has set (PRESENCE_DASHBOARD_LANGUAGE), the one that was chosen in the account
menu, or the one that its browser likes best. Two viewers can have different languages at once. Without a page, as in a
thread of our own, it is English.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from gettext import NullTranslations
from pathlib import Path
from typing import Any, Final

import streamlit as st
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit.runtime.scriptrunner import get_script_run_ctx

from presence_core.text.languages import LANGUAGES, accepted, translations

VARIABLE: Final = "PRESENCE_DASHBOARD_LANGUAGE"
LOCALE: Final = Path(__file__).with_name("locale")
DOMAIN: Final = "dashboard"

CHOICE: Final = "language"
"""Key of the choice in the session state of a tab."""

COOKIE: Final = "presence_language"
"""Cookie in which ``page.js`` keeps the choice."""

# The space of French does not break a number over two lines.
_SEPARATORS: Final = {"de": (".", ","), "es": (".", ","), "fr": ("\u202f", ",")}
"""What separates thousands, and what decimals, where it is not as in English."""

_PLACE: Final = re.compile(r"\{(\w+)\}")

_set: ContextVar[str | None] = ContextVar("language", default=None)
_run: Final = threading.local()  # .page: the page of this thread, .language: its language


def current() -> str:
    """The language of this page or request, one of LANGUAGES."""
    return _set.get() or _of_page()


def _of_page() -> str:
    page = get_script_run_ctx(suppress_warning=True)
    if page is None:
        return "en"
    if getattr(_run, "page", None) is not page:
        # What the page's script reads comes first: the header of a websocket may name another language.
        best, header = st.context.locale, st.context.headers.get("Accept-Language")
        _run.page, _run.language = page, _chosen(choice(), ",".join(filter(None, (best, header))))
    language: str = _run.language
    return language


def choice() -> str | None:
    """What was chosen in the account menu, in this tab or before."""
    chosen: str | None = st.session_state.get(CHOICE) or st.context.cookies.get(COOKIE)
    return chosen


def choose() -> None:
    """Callback of the choice: the rest of this run has the new language."""
    _run.page = None


def is_fixed() -> bool:
    """Whether the operator has set one language for all."""
    return bool(os.environ.get(VARIABLE, "").strip())


def _chosen(choice: str | None, header: str | None) -> str:
    fixed = os.environ.get(VARIABLE, "").strip()
    return fixed or (choice if choice in LANGUAGES else accepted(header or ""))


@contextmanager
def in_language(language: str) -> Iterator[None]:
    token = _set.set(language)
    try:
        yield
    finally:
        _set.reset(token)


class InLanguage:
    """ASGI middleware: what answers a request has the language of its browser."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        with in_language(_chosen(request.cookies.get(COOKIE), request.headers.get("accept-language"))):
            await self.app(scope, receive, send)


def _catalogue() -> NullTranslations:
    return translations(LOCALE, DOMAIN, current())


def gettext(text: str) -> str:
    """The text in the language of the page. It is English if there is no translation."""
    return _catalogue().gettext(text) if text else text


def ngettext(singular: str, plural: str, count: int) -> str:
    """The form of a text that fits a number, in the language of the page."""
    return _catalogue().ngettext(singular, plural, count)


class Sentence:
    """A sentence with values, such as ``Sentence("{shown} of {total}")``. A call fills them in, in their English order,
    and returns it in the language of the page."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.values = tuple(dict.fromkeys(_PLACE.findall(text)))

    def __call__(self, *values: object) -> str:
        return gettext(self.text).format(**dict(zip(self.values, values, strict=True)))


class Counted:
    """A sentence about a number, which is the first value: ``{count}``. ``plural`` names the others in their order."""

    def __init__(self, singular: str, plural: str) -> None:
        self.singular, self.plural = singular, plural
        self.values = tuple(dict.fromkeys(("count", *_PLACE.findall(plural))))

    def __call__(self, count: int, *values: object) -> str:
        sentence = ngettext(self.singular, self.plural, count)
        return sentence.format(**dict(zip(self.values, (count, *values), strict=True)))


def translated(value: Any) -> Any:
    """A constant of ``texts``: a text, or a mapping or tuple with texts as its values."""
    if isinstance(value, str):
        return gettext(value)
    if isinstance(value, dict):
        return {key: translated(item) for key, item in value.items()}
    return tuple(map(translated, value)) if isinstance(value, tuple) else value


def number(value: int) -> str:
    """A whole number with separators: ``1,234``."""
    return _separated(f"{value:,}")


def decimal(value: float, digits: int) -> str:
    """A number with decimals."""
    return _separated(f"{value:,.{digits}f}")


def _separated(english: str) -> str:
    thousands, decimals = _SEPARATORS.get(current(), (",", "."))
    return english.translate({ord(","): thousands, ord("."): decimals})
