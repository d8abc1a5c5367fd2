"""Links to the ticket system: ``PRESENCE_TICKET_URL`` is an address with ``{ticket}`` in it."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from presence_core import InvalidArgument
from presence_dashboard.format import cut, name

VARIABLE: Final = "PRESENCE_TICKET_URL"

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


def address(ticket: str | None) -> str | None:
    """The address of a ticket in the ticket system; None without a template or a ticket."""
    template = check_template(os.environ.get(VARIABLE, "").strip())
    words = (ticket or "").strip()
    if not template or not words.strip("."):  # a browser would take "." and ".." for a folder
        return None
    return template.replace(_PLACE, quote(words, safe=""))


def markdown(ticket: str) -> str:
    """The ticket as safe Markdown: a link, if there is a template."""
    link, label = address(ticket), name(cut(ticket, 64))
    return f"[{label}]({link})" if link else label
