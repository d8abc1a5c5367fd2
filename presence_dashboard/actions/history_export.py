"""Exports of the History page: ended sessions, blocks, bulk kicks and staff actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from presence_core.schema.record import FLAGS
from presence_dashboard.actions.csv_export import OF_PLACE, Export
from presence_dashboard.data.history_query import EXPORT, HistoryQuery, HistoryView, page_reader
from presence_dashboard.data.store import Store

COLUMNS: Final[Mapping[HistoryView, tuple[str, ...]]] = {
    "ended": (
        "at", "reason", "cause", "by", "note", "message", "ticket", "replaced_by", "uid", "session_id", "name",
        "device", "app", "app_version", "browser", "os", "ip", "last_ip", "login_at", "last_seen",
        *OF_PLACE, *FLAGS,
    ),
    "blocks": ("at", "until", "uid", "by", "reason", "message", "ticket"),
    "failed": (
        "at", "first_at", "uid", "name_kind", "why", "count", "ip", *OF_PLACE, "app", "os", "browser", "rule",
    ),
    "jobs": (
        "id", "created", "finished", "state", "by", "reason", "message", "ticket", "filter", "total", "expected",
        "kicked", "not_before", "error", "kind", "idle_timeout", "absolute_timeout",
    ),
    "staff": ("at", "by", "action", "count", "uid", "session_id", "outcome", "reason", "message", "ticket"),
}  # fmt: skip

_FACTS: Final[Mapping[HistoryView, str]] = {
    "ended": "ended_exported",
    "blocks": "blocks_exported",
    "jobs": "jobs_exported",
    "failed": "failures_exported",
    "staff": "actions_exported",
}


def history_export(store: Store, view: HistoryView, query: HistoryQuery, description: str) -> Export:
    given = {name: getattr(query, name) for name in HistoryQuery.__slots__ if getattr(query, name) is not None}
    audit_filter = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in given.items())
    return Export(
        view, _FACTS[view], EXPORT[view], COLUMNS[view], page_reader(view, store, query), description, audit_filter
    )
