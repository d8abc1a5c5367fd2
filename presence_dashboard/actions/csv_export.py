"""Export a list as CSV, page by page. Each export is audited.

Names and devices come from visitors, and a spreadsheet runs a cell that starts with ``=`` as a formula: ``cell`` makes
such text inert.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd

from presence_core import AuditFact, Page, Presence, SessionFilter
from presence_core.files.csv_safety import safe_cell
from presence_core.schema.record import FLAGS
from presence_dashboard import access
from presence_dashboard.data.paged_list import ReadPage
from presence_dashboard.roles import HIDDEN, Right

MAX_ROWS: Final = 100_000
"""Most rows of a file, which is made in memory. The command line exports more."""

MAX_FILTER: Final = 1_500
"""Characters of a filter in the audit."""

PAGE: Final = 1_000

OF_PLACE: Final = ("country", "city", "network", "asn")

SESSION_COLUMNS: Final = (
    "uid", "session_id", "name", "device", "app", "app_version", "browser", "os", "ip",
    "login_at", "last_seen", "expires_at", "authenticated_at", "methods", "mfa", "on_behalf_by",
    *OF_PLACE, *FLAGS,
)  # fmt: skip

_MASKED: Final = {"name": "name", "device": "name", **dict.fromkeys(("ip", "last_ip", "rule", *OF_PLACE), "ip")}


@dataclass(frozen=True, slots=True)
class Export:
    view: str  #: start of the file name
    fact: str  #: code of the fact that the audit gets
    right: Right  #: needed right
    columns: tuple[str, ...]
    read_page: ReadPage[Any]
    description: str  #: which rows, in words; safe for Markdown
    audit_filter: str  #: which rows, for the audit; empty: all

    @property
    def audit_name(self) -> str:
        """The name in the audit of denials."""
        return f"export {self.view}"


def session_export(presence: Presence, matching: SessionFilter | None, description: str) -> Export:
    def read_page(limit: int, cursor: str | None) -> Page[Any]:
        return presence.list_sessions(matching, limit=limit, cursor=cursor)

    audit_filter = matching.to_json() if matching else ""
    return Export("sessions", "sessions_exported", "export", SESSION_COLUMNS, read_page, description, audit_filter)


def pages(export: Export) -> Iterator[Page[Any]]:
    """The pages to write. The first step raises Denied or SignedOut."""
    access.require(export.right, action=export.audit_name)
    count, cursor = 0, None
    while count < MAX_ROWS:
        page = export.read_page(min(PAGE, MAX_ROWS - count), cursor)
        yield page
        count, cursor = count + len(page), page.next_cursor
        if cursor is None:
            return


def csv(columns: Sequence[str], items: Sequence[Any], *, header: bool, masked: frozenset[str] = frozenset()) -> str:
    """Rows as CSV, times in ISO 8601 UTC. masked: as ``Actor.masked``."""
    cells = {name: [_shown(item, name, masked) for item in items] for name in columns}
    rows: str = pd.DataFrame(cells, dtype=str).to_csv(index=False, header=header, lineterminator="\r\n")
    return rows


def _shown(item: Any, name: str, masked: frozenset[str]) -> str:
    value = getattr(item.place, name, None) if name in OF_PLACE else getattr(item, name)
    if value is None:
        return ""
    if _MASKED.get(name) in masked:
        return HIDDEN
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, tuple):
        value = "; ".join(value)
    return safe_cell(value.to_json() if isinstance(value, SessionFilter) else str(value))


def log_export(presence: Presence, export: Export, count: int) -> None:
    """Audit who exports how many rows. Called before the file is handed over."""
    actor = access.require(export.right, action=export.audit_name)
    facts = [AuditFact(export.fact, {"count": count})]
    if export.audit_filter:
        facts.append(AuditFact("filter", {"filter": export.audit_filter[:MAX_FILTER]}))
    presence.audit_note(by=actor.name, what="export", facts=facts)
