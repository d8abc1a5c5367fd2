"""The words of a table of records, for the browser's script. ``{0}`` and ``{1}`` are filled in there."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import gettext as _
from presence_dashboard.texts.common import KICK

TABLE_WORDS: Final[dict[str, str]] = {
    "kick": KICK,
    "kickOf": "Kick {0}",
    "tick": "Select {0}",
    "tickAll": "Select the {0} live rows shown",
    "sort": "Sort these {1} rows by {0}",
    "sortAll": "Sort the whole list by {0}",
    "sorted": "Sorted by {0}: these {1} rows only.",
    "ago": "{0} ago",
    "ahead": "in {0}",
    "due": "now",
    "units": "s min h d",
    "read": "List read again: {0} rows.",
    "ended": "{0}: {1}.",
}

TABLE_KEYS: Final[dict[str, str]] = {
    "moves": "Arrow keys move.",
    "ticks": "Space ticks.",
    "kicks": "K kicks.",
    "opens": "Enter opens the person.",
    "shows": "Enter shows the details.",
    "shows_too": "The right arrow shows the details.",
}

CLOSE_DETAILS: Final = "Close"
BACK_TO_FIRST: Final = "Back to the first order"


def table_keys(*, ticks: object, kicks: object, opens: object, shows: object) -> str:
    """What the keys do, of those actions that the table has."""
    can = {"ticks": ticks, "kicks": kicks, "opens": opens, "shows": shows and not opens, "shows_too": shows and opens}
    return " ".join(_(sentence) for name, sentence in TABLE_KEYS.items() if can.get(name, True))
