"""Values as text that is safe to show: times, numbers, and what strangers have typed into a sign-in form.

Names, ids, devices and user agents are chosen by the people who are shown. Streamlit reads Markdown, with extensions of
its own, in labels, toasts and captions: ``code`` and ``name`` make text inert there. Where Streamlit shows plain text
(``st.text``, table cells) ``literal`` is enough.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Final

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400

# They join letters in Persian and Indic scripts and the parts of an emoji: names need them, and they move nothing.
_JOINERS: Final = frozenset("\u200c\u200d")
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_RIGHT_TO_LEFT: Final = frozenset(("R", "AL", "AN"))

# Words of letters, digits and whatever is not ASCII; between them one blank, hyphen or apostrophe, ". " and ", ".
_TAME: Final = re.compile(r"(?:[A-Za-z0-9]|[^\x00-\x7f\s])+(?:(?:[.,]? |[-'])(?:[A-Za-z0-9]|[^\x00-\x7f\s])+)*")


def literal(text: str) -> str:
    """Text with every control character named, so that none can hide, or turn the reading order of what follows."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_seen(char) else f"‹U+{ord(char):04X}›" for char in text)


def _is_seen(char: str) -> bool:
    return char in _JOINERS or unicodedata.category(char) not in _UNSEEN


def isolated(text: str) -> str:
    """Literal text for the middle of a sentence: a right-to-left name keeps its own order and leaves ours alone."""
    shown = literal(text)
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in shown):
        return f"\u2068{shown}\u2069"
    return shown


def code(text: str) -> str:
    """Literal text as a Markdown code span: no link, emoji, colour, formula, image or typography comes of it.

    Backslashes would not do: Streamlit's renderer also looks for addresses, ``:smile:`` and ``->`` after they are gone.
    """
    # The renderer rewrites this one even in code; an invisible joiner between keeps what is seen.
    shown = isolated(text).replace(":material/", ":material\u2060/")
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if shown[:1] in ("`", " ") or shown[-1:] in ("`", " ") else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def name(text: str) -> str:
    """Literal text as bold Markdown where nothing in it can mean anything, as most names; else as a code span."""
    return f"**{isolated(text)}**" if _TAME.fullmatch(text) and literal(text) == text else code(text)


def cut(text: str, length: int) -> str:
    """At most so many characters, with a mark where some are gone."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def number(value: int) -> str:
    return f"{value:,}"


def exact(moment: datetime) -> str:
    """A moment to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def minute(moment: datetime) -> str:
    """A moment rounded up to the minute, in UTC, with its year where that is far: ``22 Nov, 10:31 UTC``."""
    at = moment.astimezone(UTC) + timedelta(seconds=59, microseconds=999_999)
    year = "" if abs((at - datetime.now(UTC)).days) < 300 else f" {at.year}"
    return f"{at.day} {at:%b}{year}, {at:%H:%M} UTC"


def clock(moment: datetime) -> str:
    """A moment of today, in UTC."""
    return moment.astimezone(UTC).strftime("%H:%M:%S UTC")


def span(seconds: float) -> str:
    """A length of time in its two largest units: ``0.3 s``, ``12 s``, ``3 min``, ``2 h 5 min``, ``4 d 3 h``."""
    seconds = max(seconds, 0.1)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 2 * MINUTE:
        return f"{round(seconds)} s"
    whole = int(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        return _two(whole // HOUR, "h", whole % HOUR // MINUTE, "min")
    return _two(whole // DAY, "d", whole % DAY // HOUR, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"


def since(moment: datetime, now: datetime) -> str:
    """How long ago, in whole seconds at least: ``4 s``, ``3 min``."""
    seconds = (now - moment).total_seconds()
    return f"{max(int(seconds), 0)} s" if seconds < MINUTE else span(seconds)
