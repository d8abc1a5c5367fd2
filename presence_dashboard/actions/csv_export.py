"""A list as CSV: made page by page, so that no cell is a formula, and that it is written down who takes it along.

Names and devices come from strangers. A spreadsheet runs a cell that begins with ``=``; ``cell`` takes the sting out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pandas as pd

from presence_core import Page, Presence, SessionFilter
from presence_dashboard import access
from presence_dashboard.ledger import Ask
from presence_dashboard.roles import HIDDEN, Right

MOST: Final = 100_000
"""Rows of one file: it is made in memory. For more there is the command line."""

PAGE: Final = 1_000

SESSION_COLUMNS: Final = (
    "uid", "session_id", "name", "device", "app", "app_version", "browser", "os", "ip",
    "login_at", "last_seen", "expires_at",
)  # fmt: skip

_MASKED: Final = {"name": "name", "ip": "ip", "last_ip": "ip"}
_FORMULA: Final = re.compile(r"(^|;)(?=[=+\-@\t\r\n＝＋－＠])")
"""Where one would begin: also behind a semicolon, at which spreadsheets of many countries part the cells of a file."""


@dataclass(frozen=True, slots=True)
class Export:
    """What is to be taken along."""

    view: str  #: what the file's name begins with
    noun: str  #: what one row is, for the audit
    right: Right  #: what one must be allowed
    columns: tuple[str, ...]
    ask: Ask[Any]
    words: str  #: which rows, for a reader; safe for Markdown
    which: str  #: the same for the audit

    @property
    def what(self) -> str:
        """What is refused, as the audit names it."""
        return f"export {self.view}"


def of_sessions(presence: Presence, asked: SessionFilter | None, words: str) -> Export:
    """The sessions that match."""

    def ask(limit: int, cursor: str | None) -> Page[Any]:
        return presence.list_sessions(asked, limit=limit, cursor=cursor)

    which = f": {asked.to_json()}" if asked else ""
    return Export("sessions", "session", "export", SESSION_COLUMNS, ask, words, which)


def pages(export: Export) -> Iterator[Page[Any]]:
    """What is to be written, step by step. Denied and SignedOut are raised at the first."""
    access.require(export.right, what=export.what)
    count, cursor = 0, None
    while count < MOST:
        page = export.ask(min(PAGE, MOST - count), cursor)
        yield page
        count, cursor = count + len(page), page.next_cursor
        if cursor is None:
            return


def csv(columns: Sequence[str], items: Sequence[Any], *, header: bool, masked: frozenset[str] = frozenset()) -> str:
    """Rows of the file; times are ISO 8601, UTC. masked: what who asks may not see, as ``Actor.masked``."""
    cells = {name: [_shown(item, name, masked) for item in items] for name in columns}
    rows: str = pd.DataFrame(cells, dtype=str).to_csv(index=False, header=header, lineterminator="\r\n")
    return rows


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe before what would begin one."""
    return _FORMULA.sub(r"\1'", text)


def _shown(item: Any, name: str, masked: frozenset[str]) -> str:
    value = getattr(item, name)
    if value is None:
        return ""
    if _MASKED.get(name) in masked:
        return HIDDEN
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return cell(value.to_json() if isinstance(value, SessionFilter) else str(value))


def hand_over(presence: Presence, export: Export, count: int) -> None:
    """Write down who takes how many rows with them: before they have the file, never after."""
    actor = access.require(export.right, what=export.what)
    rows = f"{count:,} {export.noun}{'' if count == 1 else 's'}"
    presence.audit_note(by=actor.name, what="export", outcome=f"{rows} exported{export.which}"[:500])
