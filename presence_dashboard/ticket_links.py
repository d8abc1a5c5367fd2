"""Links to the ticket system: ``PRESENCE_TICKET_URL`` is an address with ``{ticket}`` in it."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from presence_core import InvalidArgument
from presence_dashboard.format import cut, name

VARIABLE: Final = "PRESENCE_TICKET_URL"

_ADDRESS: Final = re.compile("[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PLACE: Final = "{ticket}"
_REFUSED: Final = frozenset("<>\"'`\\^|")
_RULE: Final = (
    "must be an http or https address with {ticket} after its host, such as https://tickets.example.com/{ticket}"
)


@lru_cache(maxsize=8)
def check_template(template: str) -> str:
    """The template, safe in a Markdown link; "" for none. Raises InvalidArgument."""
    if not template:
        return ""
    is_plain = template.isascii() and template.isprintable() and not _REFUSED & set(template) and " " not in template
    try:
        parts = urlsplit(template)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        is_web = False
    if not (is_plain and is_web and len(template) <= 1_000 and _PLACE in template and _PLACE not in parts.netloc):
        raise InvalidArgument(VARIABLE, _RULE)
    return template.replace("(", "%28").replace(")", "%29")


def _template() -> str:
    return check_template(os.environ.get(VARIABLE, "").strip())


@lru_cache(maxsize=8)
def _pattern(template: str) -> re.Pattern[str]:
    """Matches the address of a ticket, with a query or a fragment of its own."""
    first, *others = map(re.escape, template.split(_PLACE))
    return re.compile(f"{first}([^/?#&]+){'[^/?#&]+'.join(others)}(?:[/?#&].*)?", re.IGNORECASE)


def ticket_of(text: str | None) -> str:
    """The ticket that staff mean: of an address in the ticket system, the ticket in it."""
    words, template = (text or "").strip(), _template()
    found = _pattern(template).fullmatch(words) if template else None
    return unquote(found[1]) if found else words


def address(ticket: str | None) -> str | None:
    """The address of a ticket in the ticket system; None without a template or a ticket, and for another address."""
    template, words = _template(), ticket_of(ticket)
    if not template or not words.strip(".") or _ADDRESS.match(words):  # a browser takes "." and ".." for a folder
        return None
    return template.replace(_PLACE, quote(words, safe=""))


def markdown(ticket: str) -> str:
    """The ticket as safe Markdown: a link, if there is a template."""
    link, label = address(ticket), name(cut(ticket_of(ticket), 64))
    return f"[{label}]({link})" if link else label
