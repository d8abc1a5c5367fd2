"""The query of the History page, and how its pages are read: ended sessions, blocks, bulk kicks and staff actions.

Streamlit runs a page's script again for every event and so makes its classes again. These must stay the same classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, cast, get_args

from presence_core import (
    AuditEntry,
    AuditFact,
    Block,
    EndCause,
    Ended,
    EndReason,
    FailedLogin,
    Job,
    Page,
    SessionFilter,
)
from presence_core.models import in_english, plain
from presence_core.schema.conditions import PERSON_FIELDS
from presence_core.schema.endings import WHY
from presence_core.schema.failures import FailureWhy
from presence_dashboard import texts
from presence_dashboard.data import paged_list
from presence_dashboard.data.paged_list import ReadPage, Total, count_on, scan
from presence_dashboard.data.store import Store
from presence_dashboard.format import second
from presence_dashboard.roles import HIDDEN, Actor, Right, without_address

HistoryView = Literal["ended", "blocks", "jobs", "failed", "staff"]

VIEWS: Final[tuple[HistoryView, ...]] = get_args(HistoryView)

FIELDS: Final[Mapping[HistoryView, tuple[str, ...]]] = {
    "ended": ("person", "by", "how", "words"),
    "blocks": ("person", "by", "words"),
    "jobs": ("by", "words"),
    "failed": ("person", "why", "ip"),
    "staff": ("person", "by", "act", "words"),
}
"""The filters of each view, in addition to the time."""

EXPORT: Final[Mapping[HistoryView, Right]] = {
    "ended": "export",
    "blocks": "export",
    "jobs": "export",
    "failed": "export",
    "staff": "audit_export",
}
"""The right needed to export a view."""


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """The filters of the History page."""

    person: str | None = None  #: user id
    by: str | None = None  #: staff name
    by_contains: str | None = None  #: a part of a staff name
    how: str | None = None  #: end reason or cause, one of HISTORY_HOWS
    act: str | None = None  #: staff action
    why: str | None = None  #: why a sign-in failed
    ip: str | None = None  #: address or network that it came from
    words: str | None = None  #: in reason or ticket
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_everything(self) -> bool:
        return self == HistoryQuery()

    @property
    def needs_scan(self) -> bool:
        """Whether it has a condition that the library cannot answer: a part of a text."""
        return self.words is not None or self.by_contains is not None

    def has_words(self, *texts: str | None) -> bool:
        """Whether one of these texts contains the words, in upper or lower case."""
        words = (self.words or "").casefold()
        return any(words in (text or "").casefold() for text in texts)

    def covers(self, at: datetime) -> bool:
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)

    def is_by(self, by: str | None) -> bool:
        return self.by in (None, by) and (self.by_contains or "").casefold() in (by or "").casefold()


_NOW: Final = timedelta(seconds=2)
"""How long a bulk kick may take to begin."""

_TIMEOUTS_WHERE: Final = "change_timeouts_where"


def filter_values(search: SessionFilter, actor: Actor) -> dict[str, Any]:
    """Fields and values of a filter; of ``without`` a dict of them. A search text may be a name or an address, so it is
    masked like those, and a device may have its owner's name."""
    masked = {*(PERSON_FIELDS if actor.masked else ()), *(() if actor.sees_names else ("device",))}
    known = plain(search) | ({"without": filter_values(search.without, actor)} if search.without else {})
    return {field: HIDDEN if field in masked else known[field] for field in search.given}


def filter_in_words(search: SessionFilter, begun: datetime, actor: Actor, zone: tzinfo) -> str:
    """The filter of a bulk kick, without the limit that each gets: sessions that began before it. Empty: no filter.

    begun: when it began, or was asked for.
    """
    values = filter_values(search, actor)
    if "logged_in_before" in values and begun - _moment(search.logged_in_before) < _NOW:
        del values["logged_in_before"]
    _word_times(values, search, zone)
    if search.without:
        _word_times(values["without"], search.without, zone)
    return texts.filter_words(values)


def _word_times(values: dict[str, Any], session_filter: SessionFilter, zone: tzinfo) -> None:
    for field in ("logged_in_after", "logged_in_before"):
        if field in values:
            values[field] = second(_moment(getattr(session_filter, field)), zone)


def _moment(given: datetime | float) -> datetime:
    return given if isinstance(given, datetime) else datetime.fromtimestamp(given, UTC)


def masked(entry: AuditEntry, actor: Actor) -> AuditEntry:
    """An audit entry as the actor may see it. A masked actor sees no filter, no network of a rule, and no text of a
    site or of an older version, which may have one."""
    facts = entry.facts
    if actor.masked and entry.outcome and not facts:
        return replace(entry, outcome=HIDDEN)
    if "ip" in actor.masked:
        facts = tuple(
            AuditFact(fact.code, {**fact.values, "match": HIDDEN}) if "match" in fact.values else fact for fact in facts
        )
    if actor.masked:
        facts = tuple(fact for fact in facts if fact.code != "filter")
    if facts == entry.facts:
        return entry
    return replace(entry, facts=facts, outcome=in_english(facts))


def reason(entry: AuditEntry, actor: Actor) -> str | None:
    """The reason of an audit entry. A masked actor does not see the address of a refused sign-in."""
    hides = "ip" in actor.masked and entry.action == "denied" and entry.reason is not None
    return without_address(entry.reason or "") if hides else entry.reason


def page_reader(view: HistoryView, store: Store, query: HistoryQuery, actor: Actor | None = None) -> ReadPage[Any]:
    """The function that reads a page of a view. actor: searches do not match text that is masked for them."""

    def read_page(limit: int, cursor: str | None) -> Page[Any]:
        if view == "staff":
            return _staff(store, query, actor, limit, cursor)
        if view == "failed":
            return _failed(store, query, actor, limit, cursor)
        return _READERS[view](store, query, limit, cursor)

    return read_page


def count_entries(view: HistoryView, store: Store, query: HistoryQuery, actor: Actor, first: Page[Any]) -> Total:
    """How many entries a view has, given its first page. The library estimates what it can list without a search; a
    short list is counted."""
    is_listed = {
        "ended": not (query.how or query.needs_scan or query.by),
        "blocks": query.is_everything,
        "jobs": query.is_everything,
        "failed": not (query.person or query.why or query.ip),
        "staff": False,
    }
    if is_listed[view] and first.total > paged_list.COUNT_STEP:
        return Total(first.total, "about")
    return count_on(page_reader(view, store, query, actor), first)


def _ended(store: Store, query: HistoryQuery, limit: int, cursor: str | None) -> Page[Ended]:
    is_cause = query.how in WHY

    def read_page(limit: int, cursor: str | None) -> Page[Ended]:
        return store.presence.ended(
            query.person,
            reason=None if is_cause else cast("EndReason | None", query.how),
            cause=cast("EndCause", query.how) if is_cause else None,
            by=query.by,
            since=query.since,
            until=query.until,
            limit=limit,
            cursor=cursor,
        )

    def matches(record: Ended) -> bool:
        return query.is_by(record.by) and query.has_words(record.note, record.ticket)

    return _filtered(read_page, matches, query.needs_scan, limit, cursor)


def _failed(
    store: Store, query: HistoryQuery, actor: Actor | None, limit: int, cursor: str | None
) -> Page[FailedLogin]:
    def read_page(limit: int, cursor: str | None) -> Page[FailedLogin]:
        return store.presence.failed_logins(
            query.person,
            ip=query.ip,
            why=cast("FailureWhy | None", query.why),
            since=query.since,
            until=query.until,
            limit=limit,
            cursor=cursor,
        )

    # A masked actor may not try out names: the text is an exact user ID.
    is_exact = query.person is not None and actor is not None and bool(actor.masked)
    return _filtered(read_page, lambda failure: failure.uid == query.person, is_exact, limit, cursor)


def _blocks(store: Store, query: HistoryQuery, limit: int, cursor: str | None) -> Page[Block]:
    def read_page(limit: int, cursor: str | None) -> Page[Block]:
        return store.presence.blocks(limit=limit, cursor=cursor)

    def matches(record: Block) -> bool:
        return query.is_by(record.by) and query.covers(record.at) and query.has_words(record.reason, *record.tickets)

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
        act = next((act for act in ("kick_where", _TIMEOUTS_WHERE) if record.action.startswith(act)), record.action)
        why = reason(record, actor) if actor else record.reason
        result = (masked(record, actor) if actor else record).outcome
        is_wanted = query.act in (None, act) and query.is_by(record.by)
        return is_wanted and query.has_words(why, record.ticket, result)

    return _filtered(read_page, matches, query.needs_scan or query.act is not None, limit, cursor)


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
