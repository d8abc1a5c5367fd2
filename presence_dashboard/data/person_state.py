"""One person in a browser tab: sessions, ended sessions, block and staff actions. Kept in the session state.

With Follow, each tick takes over what changed. Cards keep their places: an ended session stays where it was, and new
sessions come last. Without Follow the data is read only on request.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import streamlit as st

from presence_core import (
    AuditEntry,
    Block,
    Ended,
    FailedLogin,
    Person,
    Presence,
    PresenceError,
    Remark,
    Session,
    SignIn,
    Viewer,
)
from presence_core.text.search_text import fold
from presence_core.text.typed_text import as_one_line, read_typed
from presence_dashboard.data import person_timeline
from presence_dashboard.data.paged_list import TabState
from presence_dashboard.data.store import Reading, Store
from presence_dashboard.error_sentences import plain

MAX_FOUND: Final = 20
_ENTRIES: Final = 200
_KEY: Final = "person-state"


# -- Search ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PersonMatches:
    uid: str | None  #: the only match: opened directly
    others: tuple[Person, ...]


def find(store: Store, wanted: str, *, by_name: bool, fresh: bool = False) -> Reading[PersonMatches]:
    """Search a person. by_name: also by the start of a name or alias; otherwise by exact user id only."""
    return store.shared(("find", wanted, by_name), lambda presence: _find(presence, wanted, by_name), fresh=fresh)


def exact_uid(presence: Presence, text: str) -> str:
    """The user id that staff mean by this text: without the spaces, quotes and so on that the search cleans, unless a
    user has exactly this id."""
    typed = read_typed(text)
    meant = dict.fromkeys(meaning for meaning in (text, text.strip(), *typed.uids, *typed.texts) if meaning.strip())
    if len(meant) < 2:  # nearly always
        return text.strip()
    return next((meaning for meaning in meant if _is_user(presence, meaning)), text.strip())


def meant_uid(store: Store, text: str) -> str:
    """The same for a list that searches for exact user ids. While Redis is away, the text itself."""
    return store.shared(("uid", text), lambda presence: exact_uid(presence, text)).value or text


def _is_user(presence: Presence, uid: str) -> bool:
    is_found = any(person.uid == uid for person in presence.people(uid))
    return is_found or _is_known(presence, uid, everywhere=False)


def _find(presence: Presence, wanted: str, by_name: bool) -> PersonMatches:
    wanted = exact_uid(presence, as_one_line(wanted))
    people = presence.people(wanted, limit=MAX_FOUND if by_name else 1)
    if not by_name:
        people = [person for person in people if person.uid == wanted]
    is_user = bool(people) and people[0].uid == wanted
    # Before the aliases: a link to an old account must not open another person who is called so.
    uid = wanted if is_user or _is_known(presence, wanted, everywhere=not people) else _only_named(people, wanted)
    return PersonMatches(uid, tuple(person for person in people if person.uid != uid))


def _only_named(people: list[Person], wanted: str) -> str | None:
    """The only person with this alias, or with the user id or alias that a pasted text means."""
    meant = {fold(text) for text in read_typed(wanted).texts}
    named = [person.uid for person in people if not meant.isdisjoint(map(fold, (person.uid, *person.aliases)))]
    return named[0] if len(named) == 1 else None


def _is_known(presence: Presence, uid: str, *, everywhere: bool) -> bool:
    """Whether there is data of a user id that the search does not find. everywhere: also search the audit."""
    if presence.blocked(uid) is not None or presence.ended(uid, limit=1).items:
        return True
    if any(failure.uid == uid for failure in presence.failed_logins(uid, limit=10)):
        return True
    return everywhere and bool(presence.audit(uid=uid, limit=1).items)


# -- Data of a person --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PersonFacts:
    """The data of a person, as of one time."""

    person: Person | None  #: None: not online now or recently
    sessions: tuple[Session, ...]
    ended: tuple[Ended, ...]
    block: Block | None
    as_of: datetime  #: by the Redis clock
    read: float  #: the same by the monotonic clock
    complete_since: datetime | None = None  #: older ended sessions may be missing
    remarks: tuple[Remark, ...] = ()  #: of staff, newest first
    failures: tuple[FailedLogin, ...] = ()  #: sign-ins that failed, the latest first
    sign_ins: tuple[SignIn, ...] = ()  #: the sign-in history, newest first
    acted_at: datetime | None = None  #: the latest audit entry

    @property
    def age(self) -> float:
        return time.monotonic() - self.read

    @property
    def _latest(self) -> Person | Session | Ended | None:
        records: list[Session | Ended] = [*self.sessions, *self.ended]
        return self.person or next(iter(records), None)

    @property
    def name(self) -> str | None:
        return self._latest.name if self._latest else None

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._latest.aliases if self._latest else ()

    @property
    def last_seen(self) -> datetime | None:
        return self._latest.last_seen if self._latest else None

    @property
    def version(self) -> PersonVersion:
        return version_of(self.sessions, self.block, self.remarks, _latest(self.failures), self.acted_at)


@dataclass(frozen=True, slots=True)
class PersonNow:
    """What a tick reads of a person."""

    sessions: tuple[Session, ...]
    block: Block | None
    remarks: tuple[Remark, ...]
    failed_at: datetime | None  #: the latest sign-in that failed
    acted_at: datetime | None

    @property
    def version(self) -> PersonVersion:
        return version_of(self.sessions, self.block, self.remarks, self.failed_at, self.acted_at)


@dataclass(frozen=True, slots=True)
class Card:
    """A session in its place on the page."""

    session: Session
    ended: Ended | None = None  #: how it ended while the page was open
    has_ended: bool = False  #: it is not live any more


PersonVersion = tuple[
    frozenset[tuple[str, datetime | None]], datetime | None, frozenset[str], datetime | None, datetime | None
]
"""Refs of the live sessions, each with when a new sign-in was required, when the block changed, the remarks, the latest
sign-in that failed and the latest audit entry. A page compares it to notice changes."""


def version_of(
    sessions: tuple[Session, ...],
    block: Block | None,
    remarks: tuple[Remark, ...],
    failed_at: datetime | None,
    acted_at: datetime | None,
) -> PersonVersion:
    demands = frozenset((session.ref, session.sign_in_required_at) for session in sessions)
    return demands, block.changed if block else None, frozenset(remark.id for remark in remarks), failed_at, acted_at


def _latest(events: Iterable[FailedLogin | AuditEntry]) -> datetime | None:
    """When the first of these was; they are listed latest first."""
    return next((event.at for event in events), None)


@dataclass(slots=True)
class PersonState(TabState):
    """The person page of one tab."""

    uid: str = ""
    facts: PersonFacts | None = None
    entries: list[AuditEntry] = field(default_factory=list)  #: audit entries read so far
    cursor: str | None = None  #: of the next audit entries
    cards: int = 0  #: additional pages of cards
    rows: int = 0  #: additional pages of the timeline
    news: list[AuditEntry] = field(default_factory=list)  #: staff actions that a tick found, not announced yet
    _wanted: bool = True
    _places: dict[str, Session] = field(default_factory=dict)  #: sessions by id, in the order of their cards

    def refresh(self) -> None:
        """Read again at the next run, and put the cards in order."""
        self._wanted = True
        self._places.clear()

    def shown_cards(self) -> list[Card]:
        """The cards in their places: newest login first at the last refresh, later sessions behind."""
        if self.facts is None:
            return []
        ends = {ended.session_id: ended for ended in self.facts.ended}
        live = {session.session_id: session for session in self.facts.sessions}
        self._places |= live
        return [
            Card(live[session_id]) if session_id in live else Card(session, ends.get(session_id), has_ended=True)
            for session_id, session in self._places.items()
        ]

    def follow(self, store: Store) -> bool:
        """Take over what a tick read. Returns whether the page shows something else now."""
        reading, facts = current_state(store, self.uid), self.facts
        latest = reading.value
        if facts is None or latest is None or reading.read <= facts.read:
            return False
        if latest.version != facts.version:
            known = {(entry.at, entry.action, entry.by) for entry in self.entries}
            self._wanted = True
            self.load(store)
            self.news += [entry for entry in self.entries if (entry.at, entry.action, entry.by) not in known]
            return True
        as_of = facts.as_of + timedelta(seconds=reading.read - facts.read)
        self.facts = replace(facts, sessions=latest.sessions, as_of=as_of, read=reading.read)
        return latest.sessions != facts.sessions

    def load(self, store: Store) -> None:
        """Read the data if requested. If that fails, the page stays as it is."""
        if self.has_acted():
            self.refresh()
        if not self._wanted:
            return
        try:
            self._read(store.presence)
        except PresenceError as error:
            self.failure = plain(error)
            store.counts(fresh=True)
        else:
            self.failure = None
            self.generation += 1
        self._wanted = self.facts is None

    def _read(self, presence: Presence) -> None:
        people = presence.people(self.uid, limit=1)
        sessions, block = presence.sessions(self.uid), presence.blocked(self.uid)
        ended, audit = presence.ended(self.uid, limit=100), presence.audit(uid=self.uid, limit=_ENTRIES)
        person = next((person for person in people if person.uid == self.uid), None)
        self.facts = PersonFacts(
            person, tuple(sessions), tuple(ended), block, ended.as_of, time.monotonic(), ended.complete_since,
            tuple(presence.remarks(self.uid)), tuple(presence.failed_logins(self.uid, limit=100)),
            tuple(presence.sign_ins(self.uid)), _latest(audit.items),
        )  # fmt: skip
        self.entries, self.cursor = audit.items, audit.next_cursor

    def look_back(self, store: Store) -> None:
        try:
            page = store.presence.audit(uid=self.uid, limit=_ENTRIES, cursor=self.cursor)
        except PresenceError as error:
            self.failure = plain(error)
            return
        self.entries = [*self.entries, *page.items]
        self.cursor = page.next_cursor

    def events(self) -> list[person_timeline.TimelineEvent]:
        facts = self.facts
        if facts is None:
            return []
        return person_timeline.merge(facts.sessions, facts.ended, self.entries, facts.failures, facts.sign_ins)

    def demanded_by(self, session: Session) -> str | None:
        """The staff member who required that this session signs in again. None: not known."""
        for entry in self.entries:
            is_of_session = entry.session_id in (None, session.session_id)
            if (entry.action, entry.at) == ("require_sign_in", session.sign_in_required_at) and is_of_session:
                return entry.by
        return None

    def has_changed(self, store: Store) -> bool:
        """Whether sessions or the block have changed since the read."""
        reading, known = current_state(store, self.uid), self.facts
        if known is None or reading.value is None or reading.read <= known.read:
            return False
        return reading.value.version != known.version


def current_state(store: Store, uid: str, *, fresh: bool = False) -> Reading[PersonNow]:
    """What may change of a person, read once a tick for all tabs that show them."""

    def read(presence: Presence) -> PersonNow:
        return PersonNow(
            tuple(presence.sessions(uid)), presence.blocked(uid), tuple(presence.remarks(uid)),
            _latest(presence.failed_logins(uid, limit=1)), _latest(presence.audit(uid=uid, limit=1)),
        )  # fmt: skip

    return store.shared(("state", uid), read, fresh=fresh)


def other_viewers(store: Store, uid: str, by: str, *, before: str | None = None) -> tuple[Viewer, ...]:
    """The other staff members who have this person open. Notes that this one has, until 30 seconds after the last tick.

    before: the person that this tab showed before. Empty if it cannot be read: the page can still show the rest.
    """
    try:
        if before is not None and before != uid:
            store.presence.note_viewer(before, by=by, closed=True)
        return tuple(store.presence.note_viewer(uid, by=by))
    except PresenceError:
        return ()


def this_person(uid: str) -> PersonState:
    """The person of the tab for which this script runs. Another person gets a new state."""
    state: PersonState | None = st.session_state.get(_KEY)
    if state is None or state.uid != uid:
        state = PersonState(uid=uid)
        st.session_state[_KEY] = state
    return state
