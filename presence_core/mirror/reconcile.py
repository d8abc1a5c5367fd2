"""Bring our copies in step with the site's sessions, and delete at the site what staff ended here.

Every key that may have changed is read and compared with our copy. No answer is kept that cannot be found again: a
tombstone of ours says that a session must end at the site, so a restart, or a store that was away, loses no kick.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, LoginRefused
from presence_core.logs import fields
from presence_core.mirror.digests import Digests, MiddlewareIds
from presence_core.mirror.formats import Unreadable
from presence_core.mirror.site_session import SiteSession
from presence_core.mirror.stores import Store
from presence_core.models import Ended, Login
from presence_core.operations.mirror import copies
from presence_core.transport.site_store import GONE, NO_EXPIRY, RawSession, SiteStore

log = logging.getLogger(__name__)

T = TypeVar("T")

BATCH: Final = 500

MAX_DELETED: Final = 100_000
"""Ids that are remembered for ``same_login="new"``."""

_MOVE: Final = 1_000
"""Changes of a time that are not worth a write, ms: the site's server tells how long a key lives, not until when."""


@dataclass(slots=True)
class Copy:
    """Our copy of a session of the site."""

    uid: str
    session_id: str
    identity: int  #: hash of uid and login
    content: int  #: hash of what we show of it
    seen: int  #: ms
    expires: int  #: ms; 0: never
    looked: int  #: the last pass that saw it


@dataclass(slots=True)
class Begin:
    """A session of the site that has no copy yet, or whose copy is to be written again."""

    key: bytes
    session: SiteSession
    seen: int
    expires: int
    session_id: str = ""  #: of the copy that is there
    generation: int = 0  #: else: how many copies of this session have ended


@dataclass(slots=True)
class Kicked:
    """A session that ended here and must end at the site."""

    uid: str
    identity: int
    session_id: str = ""  #: of our copy


def ended_by_us(ended: Ended) -> bool:
    """Whether the session must end at the site, too: it did not end there, and no time of ours ended it."""
    return ended.reason in ("kicked", "replaced") or (ended.reason == "logout" and ended.cause != "site")


class Reconciler:
    """The copies of one mirror. For one thread."""

    def __init__(
        self,
        presence: Presence,
        site: SiteStore,
        store: Store,
        ids: Digests | MiddlewareIds,
        *,
        lists_visitors: bool = False,
    ) -> None:
        """lists_visitors: also sessions without a user, each as a user of its own."""
        self._presence, self._site, self._store, self._ids = presence, site, store, ids
        self._imports = isinstance(ids, MiddlewareIds)  # once: nothing is deleted, and ours end by their own times
        self._lists_visitors = lists_visitors
        self._counts = False
        self.copies: dict[bytes, Copy] = {}  #: by the key in the site's store
        self.key_of: dict[str, bytes] = {}  #: by our session id
        self.pending: dict[bytes, Kicked] = {}  #: to be deleted at the site
        self.deleted: dict[str, None] = {}  #: ids of ours whose session was deleted there, the latest last
        self.skipped: Counter[str] = Counter()  #: by why
        self.without_user = 0  #: of the pass that goes on
        self.pass_number = 0
        self._offset = 0  # ms that our Redis's clock is ahead of time.monotonic
        self._logged: set[str] = set()
        self.look_again: list[bytes] = []  #: keys whose copy has ended here, and not by us

    # -- time ---------------------------------------------------------------------------------------------------------

    def set_clock(self, redis_ms: int) -> None:
        """The time of our Redis, now."""
        self._offset = redis_ms - round(time.monotonic() * 1000)

    @property
    def now(self) -> int:
        return round(time.monotonic() * 1000) + self._offset

    # -- the site's keys ----------------------------------------------------------------------------------------------

    def take(self, keys: Sequence[bytes], expired: Collection[bytes] = (), *, counts: bool = False) -> None:
        """Read these keys at the site and bring our copies in step. expired: of which the site said so. counts: note
        the sessions without a user, which have no copy."""
        self._counts = counts
        for at in range(0, len(keys), BATCH):
            part = keys[at : at + BATCH]
            self._take(list(zip(part, self._site.read(part), strict=True)), expired)

    def _take(self, found: list[tuple[bytes, RawSession]], expired: Collection[bytes]) -> None:
        begins: list[Begin] = []
        lives: list[tuple[bytes, copies.Life, int]] = []
        ends: list[bytes] = []
        for key, raw in found:
            copy = self.copies.get(key)
            session = self._session_of(key, raw)
            if isinstance(session, str):  # it cannot be read: what we have stays
                self._skip(session)
                if copy is not None:
                    copy.looked = self.pass_number  # it is not gone
                continue
            if session is None:
                if copy is not None:
                    ends.append(key)
                continue
            seen, expires = self._times(session, raw, copy)
            if expires and expires <= self.now:  # the site keeps the key of an expired session
                if copy is not None:
                    ends.append(key)
                continue
            if copy is not None and copy.identity != hash(session.identity):
                ends.append(key)
                copy = None
            if copy is None or copy.content != hash(session[:7]):
                begins.append(Begin(key, session, seen, expires, copy.session_id if copy else ""))
            if copy is not None:
                copy.looked = self.pass_number
                if abs(copy.expires - expires) > _MOVE or seen - copy.seen > _MOVE:
                    life = copies.Life(copy.uid, copy.session_id, seen, self._idle(seen, expires))
                    lives.append((key, life, expires))
        self._end(ends, expired)
        self._begin(begins)
        self._follow(lives)
        if self._counts:
            self._check_listed([key for key, _ in found])

    def _check_listed(self, keys: Iterable[bytes]) -> None:
        """Look again at copies that have ended here unheard: events are kept for a time, and erase sends none."""
        key_of = {(copy.uid, copy.session_id): key for key in keys if (copy := self.copies.get(key))}
        internal = self._presence.internal
        for ref in internal.run(copies.not_listed(internal.context, key_of)) if key_of else ():
            self.forget(key_of[ref])
            self.look_again.append(key_of[ref])

    def _session_of(self, key: bytes, raw: RawSession) -> SiteSession | str | None:
        """The session; None if it is gone or has no user; text: why it cannot be read."""
        if raw.ttl == GONE:
            return None
        try:
            visitor = self._visitor(key)
            session = self._store.read(raw, visitor)
            if session is not None:
                check.uid(session.uid)
            self.without_user += self._counts and (session is None or session.uid == visitor)
        except Unreadable as unreadable:
            return str(unreadable)
        except InvalidArgument:
            return "a user id that does not fit"
        return session

    def _visitor(self, key: bytes) -> str:
        """The user that a session without one counts as; empty: it is not listed."""
        return f"visitor-{self._ids.session_id(key, ('', ''), 0)[-12:]}" if self._lists_visitors else ""

    def _times(self, session: SiteSession, raw: RawSession, copy: Copy | None) -> tuple[int, int]:
        """Last seen and until when it lives, ms; 0: it does not expire."""
        now, lifetime = self.now, session.lifetime
        expires = now + raw.ttl if raw.ttl != NO_EXPIRY else 0
        if session.seen is not None:
            seen = min(now, round(session.seen * 1000))
            if not expires and lifetime:
                expires = seen + round(lifetime * 1000)
        elif expires and lifetime and expires - now <= lifetime * 1000 + _MOVE:
            seen = min(now, expires - round(lifetime * 1000))
        elif copy is None or expires - copy.expires > _MOVE:  # its time to live has grown
            seen = now
        else:
            seen = copy.seen
        return max(seen, copy.seen if copy else 0, 0), expires

    def _skip(self, why: str) -> None:
        self.skipped[why] += 1
        if why not in self._logged:
            self._logged.add(why)
            log.warning("some keys of the site are skipped: %s", why, extra=fields(event="mirror_skipped"))

    # -- copies begin and end -----------------------------------------------------------------------------------------

    def _begin(self, begins: list[Begin]) -> None:
        while begins:
            again: list[Begin] = []
            for part in _parts(begins, BATCH):
                rows = [self._row(begin) for begin in part]
                answers = self._log_in(rows)
                unclear = []
                for begin, row, answer in zip(part, rows, answers, strict=True):
                    if isinstance(answer, Login):
                        self._note(begin, row["session_id"])
                    elif answer is None:
                        self._skip("a value that does not fit")
                    elif self._imports:
                        self._skip(f"refused: {answer.code}")
                    elif answer.code == "ended":
                        unclear.append((begin, row["session_id"]))
                    elif answer.code == "limit":
                        self._skip("a user has more sessions than are listed")
                    elif begin.session_id:  # the user was blocked after it began: a block ends no session
                        self.copies[begin.key].content = hash(begin.session[:7])
                    else:  # blocked, or from before a revoke_before
                        self._must_end(begin)
                again += self._judge(unclear)
            begins = again

    def _judge(self, unclear: list[tuple[Begin, str]]) -> list[Begin]:
        """Of sessions whose copy has ended: delete what we ended, and begin again what goes on at the site."""
        ends = self._presence.sessions_among([f"{begin.session.uid}:{sid}" for begin, sid in unclear])
        again = []
        for begin, sid in unclear:
            end = ends.get(f"{begin.session.uid}:{sid}")
            if isinstance(end, Ended) and ended_by_us(end) and sid not in self.deleted:
                self._must_end(begin, sid)
            else:
                begin.generation += not begin.session_id
                begin.session_id = ""
                again.append(begin)
        return again

    def _log_in(self, rows: list[dict[str, Any]]) -> list[Login | LoginRefused | None]:
        """The answers of ``login_many``; None of a row that it does not take."""
        try:
            return list(self._presence.login_many(rows, imported=True))
        except InvalidArgument:
            if len(rows) == 1:
                return [None]
            half = len(rows) // 2
            return self._log_in(rows[:half]) + self._log_in(rows[half:])

    def _row(self, begin: Begin) -> dict[str, Any]:
        session = begin.session
        seen = begin.seen / 1000
        login_at = min(seen, session.login_at) if session.login_at is not None and session.login_at > 0 else seen
        return {
            "uid": session.uid,
            "session_id": begin.session_id or self._ids.session_id(begin.key, session.identity, begin.generation),
            "name": session.person,
            "aliases": [session.email] if session.email else (),
            "ip": session.address,
            "user_agent": session.agent,
            "login_at": login_at,
            "last_seen": seen,
            "idle_timeout": self._idle(begin.seen, begin.expires),
            "absolute_timeout": check.LONGEST_TIMEOUT,
        }

    def _note(self, begin: Begin, session_id: str) -> None:
        session, old = begin.session, self.copies.get(begin.key)
        if old is not None and old.session_id != session_id:
            self.key_of.pop(old.session_id, None)
        self.copies[begin.key] = Copy(session.uid, session_id, hash(session.identity), hash(session[:7]), begin.seen,
                                      begin.expires, self.pass_number)  # fmt: skip
        self.key_of[session_id] = begin.key

    def _idle(self, seen: int, expires: int) -> int:
        """The timeout with which a copy outlives the site's session by MIRROR_AWAY."""
        more = 1 if self._imports else check.MIRROR_AWAY
        return min(check.LONGEST_TIMEOUT, max(0, expires - seen) // 1000 + more) if expires else check.LONGEST_TIMEOUT

    def forget(self, key: bytes) -> Copy | None:
        copy = self.copies.pop(key, None)
        if copy is not None:
            self.key_of.pop(copy.session_id, None)
        return copy

    def _end(self, keys: list[bytes], expired: Collection[bytes]) -> None:
        ends = []
        for key in keys:
            copy = self.copies[key]
            is_expired = key in expired or (copy.expires > 0 and self.now >= copy.expires - _MOVE)
            ends.append(copies.SiteEnd(copy.uid, copy.session_id, is_expired))
        self.end_copies(ends)
        for key in keys:
            self.forget(key)

    def end_copies(self, ends: list[copies.SiteEnd]) -> None:
        """End copies whose sessions are gone at the site."""
        internal = self._presence.internal
        for part in _parts(ends, 100):
            internal.run(copies.end(internal.context, part))

    def _follow(self, lives: list[tuple[bytes, copies.Life, int]]) -> None:
        internal = self._presence.internal
        for part in _parts(lives, BATCH):
            gone = set(internal.run(copies.follow(internal.context, [life for _, life, _ in part])))
            for key, life, expires in part:
                copy = self.copies.get(key)
                if copy is None:
                    continue
                if life in gone:  # it has ended here: the next look decides what that means
                    self.forget(key)
                    self.look_again.append(key)
                else:
                    copy.seen, copy.expires = max(copy.seen, life.seen), expires

    # -- ends of ours -------------------------------------------------------------------------------------------------

    def ended_here(self, ends: Iterable[tuple[str, str, str]]) -> None:
        """Sessions of ours have ended: those that we ended must end at the site, the others are looked at again.

        ends: uid, session id and kind of the event.
        """
        mine = {(uid, sid): kind for uid, sid, kind in ends if sid in self.key_of}
        for part in _parts(list(mine), BATCH):
            found = self._presence.sessions_among([f"{uid}:{sid}" for uid, sid in part])
            for uid, sid in part:
                end, key = found.get(f"{uid}:{sid}"), self.key_of.get(sid)
                if key is None or not (end is None or isinstance(end, Ended)):
                    continue
                copy = self.forget(key)
                is_ours = ended_by_us(end) if end is not None else mine[uid, sid] in ("kicked", "replaced")
                if copy is not None and is_ours:
                    self.pending[key] = Kicked(copy.uid, copy.identity, sid)
                elif copy is not None:
                    self.look_again.append(key)

    def _must_end(self, begin: Begin, session_id: str = "") -> None:
        self.forget(begin.key)
        self.pending[begin.key] = Kicked(begin.session.uid, hash(begin.session.identity), session_id)

    def delete_pending(self) -> None:
        """Delete at the site what must end there. What the site writes all the time waits for the next turn."""
        for keys in _parts(list(self.pending), BATCH):
            busy = set(self._site.delete(keys, self._is_wanted, self._store.more))
            for key in keys:
                if key not in busy:
                    self._note_deleted(self.pending.pop(key).session_id)

    def _note_deleted(self, session_id: str) -> None:
        """What comes under its id again is another sign-in, if this store gives ids again."""
        if session_id and self._store.same_login == "new":
            self.deleted[session_id] = None
            if len(self.deleted) > MAX_DELETED:
                del self.deleted[next(iter(self.deleted))]

    def _is_wanted(self, key: bytes, raw: RawSession) -> bool:
        """Whether a key still is the session that ended here: of the same user, by the same login."""
        kicked = self.pending[key]
        try:
            session = self._store.read(raw, self._visitor(key))
        except Unreadable:
            return True  # it was this user's when it was last read
        return session is not None and session.uid == kicked.uid and hash(session.identity) == kicked.identity


def _parts(items: list[T], size: int) -> Iterable[list[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))
