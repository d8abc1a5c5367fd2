"""The query of the History page, and how its pages are read: ended sessions, blocks, bulk kicks and staff actions.

Streamlit runs a page's script again for every event and so makes its classes again. These must stay the same classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args

from presence_core import AuditEntry, Block, Ended, EndReason, Job, Page, SessionFilter
from presence_core.filters import PERSON_FIELDS
from presence_core.models import plain
from presence_dashboard.data.paged_list import ReadPage, scan
from presence_dashboard.data.person_state import exact_uid
from presence_dashboard.data.store import Store
from presence_dashboard.roles import HIDDEN, Actor, Right

HistoryView = Literal["ended", "blocks", "jobs", "staff"]

VIEWS: Final[tuple[HistoryView, ...]] = get_args(HistoryView)

FIELDS: Final[Mapping[HistoryView, tuple[str, ...]]] = {
    "ended": ("person", "by", "how", "words"),
    "blocks": ("person", "by", "words"),
    "jobs": ("by", "words"),
    "staff": ("person", "by", "act", "words"),
}
"""The filters of each view, in addition to the time."""

EXPORT: Final[Mapping[HistoryView, Right]] = {
    "ended": "export",
    "blocks": "export",
    "jobs": "export",
    "staff": "audit_export",
}
"""The right needed to export a view."""


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """The filters of the History page."""

    person: str | None = None
    by: str | None = None
    how: str | None = None  #: end reason
    act: str | None = None  #: staff action
    words: str | None = None  #: in reason or ticket
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_everything(self) -> bool:
        return self == HistoryQuery()

    def has_words(self, *texts: str | None) -> bool:
        """Whether one of these texts contains the words, in upper or lower case."""
        words = (self.words or "").casefold()
        return any(words in (text or "").casefold() for text in texts)

    def covers(self, at: datetime) -> bool:
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)

    def is_by(self, by: str | None) -> bool:
        return self.by is None or self.by == by


_ADDRESS_IN_REASON: Final = re.compile(r"(?<=, from ).+")


def filter_values(search: SessionFilter, actor: Actor) -> dict[str, Any]:
    """Fields and values of a filter. A search text may be a name or an address, so it is masked like those."""
    known = plain(search)
    return {field: HIDDEN if actor.masked and field in PERSON_FIELDS else known[field] for field in search.given}


def outcome(entry: AuditEntry, actor: Actor) -> str:
    """The outcome of an audit entry. A masked actor does not see the filter of an export or the network of a rule."""
    if "ip" in actor.masked and entry.action in ("add_block_rule", "remove_block_rule"):
        return HIDDEN
    head, exported, _ = entry.outcome.partition(" exported")
    return f"{head}{exported}" if actor.masked and entry.action == "export" else entry.outcome


def reason(entry: AuditEntry, actor: Actor) -> str | None:
    """The reason of an audit entry. A masked actor does not see the address of a refused sign-in."""
    hides = "ip" in actor.masked and entry.action == "denied" and entry.reason is not None
    return _ADDRESS_IN_REASON.sub(HIDDEN, entry.reason or "") if hides else entry.reason


def page_reader(view: HistoryView, store: Store, query: HistoryQuery, actor: Actor | None = None) -> ReadPage[Any]:
    """The function that reads a page of a view. actor: searches do not match text that is masked for them."""

    def read_page(limit: int, cursor: str | None) -> Page[Any]:
        uid = None if query.person is None else exact_uid(store.presence, query.person)
        known = replace(query, person=uid)
        if view == "staff":
            return _staff(store, known, actor, limit, cursor)
        return _READERS[view](store, known, limit, cursor)

    return read_page


def _ended(store: Store, query: HistoryQuery, limit: int, cursor: str | None) -> Page[Ended]:
    def read_page(limit: int, cursor: str | None) -> Page[Ended]:
        return store.presence.ended(
            query.person,
            reason=cast("EndReason | None", query.how),
            by=query.by,
            since=query.since,
            until=query.until,
            limit=limit,
            cursor=cursor,
        )

    return _filtered(
        read_page, lambda record: query.has_words(record.note, record.ticket), query.words is not None, limit, cursor
    )


def _blocks(store: Store, query: HistoryQuery, limit: int, cursor: str | None) -> Page[Block]:
    def read_page(limit: int, cursor: str | None) -> Page[Block]:
        return store.presence.blocks(limit=limit, cursor=cursor)

    def matches(record: Block) -> bool:
        return query.is_by(record.by) and query.covers(record.at) and query.has_words(record.reason, record.ticket)

    if query.person is not None:
        record = store.presence.blocked(query.person)
        found = [record] if record is not None and matches(record) else []
        return Page(found, None, len(found), True, len(found), datetime.now(UTC))
    return _filtered(read_page, matches, not query.is_everything, limit, cursor)


def _jobs(store: Store, query: HistoryQuery, limit: int, cursor: str | None) -> Page[Job]:
    def read_page(limit: int, cursor: str | None) -> Page[Job]:
        return store.presence.jobs(limit=limit, cursor=cursor)

    def matches(record: Job) -> bool:
        return query.is_by(record.by) and query.covers(record.created) and query.has_words(record.reason, record.ticket)

    return _filtered(read_page, matches, not query.is_everything, limit, cursor)


def _staff(store: Store, query: HistoryQuery, actor: Actor | None, limit: int, cursor: str | None) -> Page[AuditEntry]:
    def read_page(limit: int, cursor: str | None) -> Page[AuditEntry]:
        return store.presence.audit(
            uid=query.person, by=query.by, since=query.since, until=query.until, limit=limit, cursor=cursor
        )

    def matches(record: AuditEntry) -> bool:
        # Steps of a bulk kick are audited as kick_where_start, kick_where_pause, …
        act = "kick_where" if record.action.startswith("kick_where") else record.action
        why, result = (reason(record, actor), outcome(record, actor)) if actor else (record.reason, record.outcome)
        return query.act in (None, act) and query.has_words(why, record.ticket, result)

    return _filtered(read_page, matches, query.words is not None or query.act is not None, limit, cursor)


def _filtered(
    read_page: ReadPage[Any], matches: Callable[[Any], bool], is_needed: bool, limit: int, cursor: str | None
) -> Page[Any]:
    """The library's own pages if it can answer the whole query; otherwise scanned ones."""
    return scan(read_page, matches, limit, cursor) if is_needed else read_page(limit, cursor)


_READERS: Final[Mapping[HistoryView, Callable[[Store, HistoryQuery, int, str | None], Page[Any]]]] = {
    "ended": _ended,
    "blocks": _blocks,
    "jobs": _jobs,
}
