"""The languages of the page: gettext catalogues, read with the standard library.

``locale/<language>/LC_MESSAGES/your_devices.po`` holds the translations, the ``.mo`` next to it is made from it
(``make catalogues``).
"""

from __future__ import annotations

from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Final

LOCALE: Final = Path(__file__).with_name("locale")
DOMAIN: Final = "your_devices"

LANGUAGES: Final = ("en", "de", "es", "fr", "ja", "zh_Hans")

_CHINESE: Final = {"zh", "zh_cn", "zh_sg", "zh_my"}  # written with simplified characters


@cache
def translations(language: str) -> NullTranslations:
    """The texts of one of LANGUAGES."""
    if language == "en":
        return NullTranslations()
    with (LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.mo").open("rb") as catalogue:
        return GNUTranslations(catalogue)


def match(tag: str | None) -> str | None:
    """The one of LANGUAGES for a language tag such as "de-AT", or None."""
    name = (tag or "").strip().lower().replace("-", "_")
    if name in _CHINESE or name.startswith("zh_hans"):
        return "zh_Hans"
    if name.startswith("zh"):
        return None  # traditional characters
    base = name.partition("_")[0]
    return base if base in LANGUAGES else None


def accepted(header: str) -> str:
    """The language that a browser's Accept-Language likes best; "en" if there is none of LANGUAGES in it."""
    best, best_weight = "en", 0.0
    for part in header[:500].split(","):
        tag, _, parameter = part.partition(";")
        name, equals, value = parameter.strip().partition("=")
        try:
            weight = float(value) if equals and name.strip() == "q" else 1.0
        except ValueError:
            continue
        language = match(tag)
        if language is not None and best_weight < weight <= 1:
            best, best_weight = language, weight
    return best
