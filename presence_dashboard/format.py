"""Values as safe text: times, numbers, and text typed by visitors.

Visitors choose their names, ids, devices and user agents. Streamlit renders Markdown in labels, toasts and captions:
``code`` and ``name`` make text inert there. For plain text (``st.text``, table cells) ``literal`` is enough.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from presence_core import AuditEntry
from presence_dashboard import language, texts

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400

# They join letters in Persian and Indic scripts and parts of emoji. Names need them, and they cannot reorder text.
_JOINERS: Final = frozenset("\u200c\u200d")
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
_RIGHT_TO_LEFT: Final = frozenset(("R", "AL", "AN"))

# Words of letters, digits and non-ASCII characters, separated by a blank, hyphen, apostrophe, ". " or ", ".
_TAME: Final = re.compile(r"(?:[A-Za-z0-9]|[^\x00-\x7f\s])+(?:(?:[.,]? |[-'])(?:[A-Za-z0-9]|[^\x00-\x7f\s])+)*")


def literal(text: str) -> str:
    """Text with control characters shown as code points, so that none can hide text or reverse its direction."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_seen(char) else f"‹U+{ord(char):04X}›" for char in text)


def _is_seen(char: str) -> bool:
    return char in _JOINERS or unicodedata.category(char) not in _UNSEEN


def isolated(text: str) -> str:
    """Literal text for the middle of a sentence: a right-to-left name does not reorder the rest."""
    shown = literal(text)
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in shown):
        return f"\u2068{shown}\u2069"
    return shown


def code(text: str) -> str:
    """Literal text as a Markdown code span, which renders no link, emoji, colour, formula, image or typography.

    Backslash escapes are not enough: Streamlit's renderer looks for addresses, ``:smile:`` and ``->`` after them.
    """
    # The renderer replaces this even in code. An invisible joiner prevents that.
    shown = isolated(text).replace(":material/", ":material\u2060/")
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if shown[:1] in ("`", " ") or shown[-1:] in ("`", " ") else ""
    return f"{fence}{edge}{shown}{edge}{fence}"


def name(text: str) -> str:
    """Literal text in bold if it has no Markdown characters, like most names; otherwise as a code span."""
    return f"**{isolated(text)}**" if _TAME.fullmatch(text) and literal(text) == text else code(text)


def short_name(text: str) -> str:
    """The same, of at most 40 characters."""
    return name(cut(text, 40))


def author(by: str, uid: str | None, words: Callable[[str], str] = literal) -> str:
    """Who did something to a user: staff, or the user, who has answered a notice. words: makes the text safe."""
    return texts.the_user(words(by)) if by == uid else words(by)


def cut(text: str, length: int) -> str:
    """The text cut to ``length`` characters, with an ellipsis if it was longer."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


number: Final = language.number


def exact(moment: datetime) -> str:
    """A time to the second, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def offset(at: datetime) -> str:
    """`` +02:00`` in the hour that a clock shows twice at the end of summer time, else empty. at: of a time zone."""
    is_repeated = at.replace(fold=0).utcoffset() != at.replace(fold=1).utcoffset()
    shown = f"{at:%z}"
    return f" {shown[:3]}:{shown[3:5]}" if is_repeated else ""


def clock(moment: datetime, zone: tzinfo) -> str:
    """``10:31:05``, with its offset where a clock shows this time twice."""
    at = moment.astimezone(zone)
    return f"{at:%H:%M:%S}{offset(at)}"


def minute(moment: datetime, zone: tzinfo = UTC) -> str:
    """A time rounded up to the minute, with the year if it is far away: ``22 Nov, 10:31``."""
    at = (moment.astimezone(UTC) + timedelta(seconds=59, microseconds=999_999)).astimezone(zone)
    year = None if abs((at - datetime.now(UTC)).days) < 300 else at.year
    return texts.date_and_time(at.day, at.month, year, f"{at:%H:%M}{offset(at)}")


def second(moment: datetime, zone: tzinfo) -> str:
    """``2026-11-22 10:31:05``, with its offset where a clock shows this time twice."""
    at = moment.astimezone(zone)
    return f"{at:%Y-%m-%d %H:%M:%S}{offset(at)}"


def outcome(entry: AuditEntry, zone: tzinfo) -> str:
    """The outcome of an audit entry in the language of the page, with its times in this zone. The ends of blocks are
    rounded as everywhere. In a file, for which the zone is ``UTC``, times have their seconds. A text of the site or of
    an older version stays as it is."""
    if not entry.facts:
        return entry.outcome
    if zone is UTC:
        return texts.outcome(entry.facts, _utc, _utc)
    return texts.outcome(entry.facts, lambda end: minute(end, zone), lambda at: second(at, zone))


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float) -> str:
    """A duration in its two largest units: ``0.3 s``, ``12 s``, ``3 min``, ``2 h 5 min``, ``4 d 3 h``."""
    seconds = max(seconds, 0.1)
    s, min_, h, d = texts.TABLE_WORDS["units"].split()
    if seconds < 9.95:
        return f"{language.decimal(seconds, 1)} {s}"
    if seconds < 2 * MINUTE:
        return f"{round(seconds)} {s}"
    whole = int(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} {min_}"
    if whole < DAY:
        return _two(whole // HOUR, h, whole % HOUR // MINUTE, min_)
    return _two(whole // DAY, d, whole % DAY // HOUR, h)


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"


def since(moment: datetime, now: datetime) -> str:
    """The time since a moment, in whole seconds or more: ``4 s``, ``3 min``."""
    seconds = (now - moment).total_seconds()
    if seconds >= MINUTE:
        return span(seconds)
    return f"{max(int(seconds), 0)} {texts.TABLE_WORDS['units'].split()[0]}"
