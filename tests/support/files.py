"""The dashboard's files, as its exports write them."""

from __future__ import annotations

from typing import Any

from presence_core import Page, Presence
from presence_dashboard import exports, record_export
from presence_dashboard.records import View


def dashboard_files(p: Presence) -> dict[str, str]:
    """View → CSV of its first page."""
    views: dict[View, Page[Any]] = {
        "ended": p.ended(),
        "blocks": p.blocks(),
        "jobs": p.jobs(),
        "staff": p.audit(),
    }
    files: dict[str, str] = {
        view: exports.csv(record_export.COLUMNS[view], page.items, header=True) for view, page in views.items()
    }
    return {"sessions": exports.csv(exports.SESSION_COLUMNS, p.list_sessions().items, header=True), **files}
