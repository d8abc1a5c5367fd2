"""The texts of the page in each language. ``presence_core.text.languages`` has the languages and the choice of one."""

from __future__ import annotations

from gettext import NullTranslations
from pathlib import Path
from typing import Final

from presence_core.text import languages

LOCALE: Final = Path(__file__).with_name("locale")
DOMAIN: Final = "your_devices"


def translations(language: str) -> NullTranslations:
    """The texts in one of the languages."""
    return languages.translations(LOCALE, DOMAIN, language)
