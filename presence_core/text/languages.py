"""The languages of the texts that people read: which there are, the choice of one, and its gettext catalogues.

A package with texts has the folder ``locale/<language>/LC_MESSAGES``. ``<domain>.po`` holds the translations, the
``.mo`` next to it is made from it (``make catalogues``).
"""

from __future__ import annotations

from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("en", "de", "es", "fr", "ja", "zh_Hans")

_CHINESE: Final = {"zh", "zh_cn", "zh_sg", "zh_my"}  # written with simplified characters


@cache
def translations(locale: Path, domain: str, language: str) -> NullTranslations:
    """The texts of a domain in one of LANGUAGES. locale: the folder of the catalogues."""
    if language == "en":
        return NullTranslations()
    with (locale / language / "LC_MESSAGES" / f"{domain}.mo").open("rb") as catalogue:
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


def tag_of(language: str) -> str:
    """The language as HTML names it: ``zh_Hans`` → ``zh-Hans``."""
    return language.replace("_", "-")
