"""What of History can be taken along as CSV: ends, blocks, bulk kicks and staff actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from presence_dashboard.exports import Export
from presence_dashboard.records import EXPORT, Question, View, asker
from presence_dashboard.store import Store

COLUMNS: Final[Mapping[View, tuple[str, ...]]] = {
    "ended": (
        "at", "reason", "cause", "by", "note", "message", "ticket", "replaced_by", "uid", "session_id", "name",
        "device", "app", "app_version", "browser", "os", "ip", "last_ip", "login_at", "last_seen",
    ),
    "blocks": ("at", "until", "uid", "by", "reason", "message", "ticket"),
    "jobs": (
        "id", "created", "finished", "state", "by", "reason", "message", "ticket", "filter", "expected", "kicked",
        "error",
    ),
    "staff": ("at", "by", "action", "count", "uid", "session_id", "outcome", "reason", "message", "ticket"),
}  # fmt: skip

_NOUNS: Final[Mapping[View, str]] = {
    "ended": "ended session",
    "blocks": "block",
    "jobs": "bulk kick",
    "staff": "staff action",
}


def of_records(store: Store, view: View, question: Question, words: str) -> Export:
    """What a view of History answers."""
    given = {name: getattr(question, name) for name in Question.__slots__ if getattr(question, name) is not None}
    which = "".join(f", {name} {value}" for name, value in given.items())
    return Export(view, _NOUNS[view], EXPORT[view], COLUMNS[view], asker(view, store, question), words, which)
