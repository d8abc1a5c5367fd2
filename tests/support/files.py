"""The dashboard's files, as its exports write them."""

from __future__ import annotations

from typing import Any

from presence_core import Page, Presence
from presence_dashboard.actions import csv_export, history_export
from presence_dashboard.data.history_query import HistoryView


def dashboard_files(p: Presence) -> dict[str, str]:
    """View → CSV of its first page."""
    views: dict[HistoryView, Page[Any]] = {
        "ended": p.ended(),
        "blocks": p.blocks(),
        "jobs": p.jobs(),
        "staff": p.audit(),
    }
    files: dict[str, str] = {
        view: csv_export.csv(history_export.COLUMNS[view], page.items, header=True) for view, page in views.items()
    }
    return {"sessions": csv_export.csv(csv_export.SESSION_COLUMNS, p.list_sessions().items, header=True), **files}
