"""The words of a table of records, for the browser's script. ``{0}`` and ``{1}`` are filled in there."""

from __future__ import annotations

from typing import Final

from presence_dashboard.texts.common import KICK

TABLE_WORDS: Final[dict[str, str]] = {
    "keys": "Arrow keys move, Space ticks, K kicks, Enter opens the person.",
    "keysReading": "Arrow keys move, Enter opens the person.",
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
