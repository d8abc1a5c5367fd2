"""The export of a shift report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from presence_core import Page
from presence_dashboard.actions.csv_export import Export

COLUMNS: Final = (
    "at", "by", "action", "uid", "name", "people", "sessions", "reason", "ticket", "outcome", "filter",
)  # fmt: skip


def report_export(rows: Sequence[Any], as_of: datetime, description: str, audit_filter: str) -> Export:
    """The export of these rows, which the page shows: so it needs no right to export the whole audit."""

    def read_page(_limit: int, _cursor: str | None) -> Page[Any]:
        return Page(list(rows), None, len(rows), True, len(rows), as_of)

    return Export("shift-report", "actions_exported", "export", COLUMNS, read_page, description, audit_filter)
