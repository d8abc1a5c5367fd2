"""The events of sessions: read them in pages, watch them, wait for the end of one session; and notices to users about
odd logins."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Final

from presence_core import validation as check
from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.client.pending import pending
from presence_core.errors import Unavailable
from presence_core.models import (
    Event,
    FailedLogin,
    FailedNetwork,
    Notice,
    NoticeAnswer,
    NoticeReport,
    Page,
    Validation,
    ValidationFailed,
)
from presence_core.operations.failures import listing, record
from presence_core.operations.notices import answers, report
from presence_core.operations.sessions import events
from presence_core.schema.failures import FailureWhy, SiteFailure

WATCH_INTERVAL = 0.1
"""Seconds between two reads of the event streams while watching."""

_CLOSED: Final = "The client was closed while it waited for the end of a session."


def _timeout(value: float | None) -> float | None:
    return None if value is None else check.duration("timeout", value, 0, 86_400)


class EventsMethods(Client):
    def events(self, *, after: str | None = None, limit: int = 100) -> list[Event]:
        """Events after ``after`` (the cursor of an event), oldest first; by default from the oldest kept.

        limit: 1…1000. If events in between were dropped because of ``Settings.max_events``, a ``gap`` event comes
        first. Cost: O(P + limit), one round trip.
        """
        return self._run(events.events(self._ctx, after, limit))

    def login_failed(
        self,
        who: str,
        *,
        why: SiteFailure,
        is_uid: bool = False,
        ip: str | None = None,
        user_agent: str | None = None,
        app: str | None = None,
    ) -> None:
        """Record a sign-in that the site refused, so that support can answer "I cannot log in". What ``login`` refuses
        is recorded anyway.

        who: the uid if the visitor named an account, else the text as it was typed, of any length. Never a password. A
        text that is no uid of a known person is not stored: only a keyed digest and its kind ("email", "phone",
        "name"), in case someone typed a password there. is_uid: ``who`` is the uid of an account of yours, also if its
        user has not been here for long; without it, the uids that this namespace knows are found. why:
        "wrong_password", "second_factor", "unknown_name", "locked" or "other". ip, user_agent, app: as of ``login``.

        Failures of one person, reason and address share a row, which counts them: ``failed_logins``. It is kept for
        ``Settings.keep_failed_logins`` after the last of them. ``Settings.max_failed_logins`` bounds the rows of a day;
        a network may begin 50 an hour, a person has ten addresses. What is beyond is counted without a row, and takes
        no row of others. For a known person and an unknown one it returns nothing and takes the same time.
        Cost: two round trips.
        """
        return self._run(record.login_failed(self._ctx, who, why, is_uid, ip, user_agent, app))

    def failed_logins(
        self,
        uid: str | None = None,
        *,
        ip: str | None = None,
        why: FailureWhy | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[FailedLogin]:
        """A page of failed sign-ins, the latest first: a row for each person or typed name, reason and address.

        uid: those of this person, also under their name and aliases as someone typed them; or of any typed text, such
        as an email that belongs to no one here. ip: an address or a network. why: a reason of ``login_failed``, or
        "blocked", "block_rule", "limit", "device_limit", "no_address", "ended", "expired": what ``login`` refuses with
        these codes. since, until: of the latest failure of a row. limit: 1…1000.

        A row that fails again while pages are read moves to the front. Cost: O(P·log N + rows read), two round trips;
        with ip or why at most 5,000 rows are read for a page. With uid four to seven.
        """
        return self._run(listing.failed_logins(self._ctx, uid, ip, why, since, until, limit, cursor))

    def failed_networks(self, *, limit: int = 20) -> list[FailedNetwork]:
        """The networks with the most failed sign-ins in the last hour or less, also those without a row; limit is
        1…1000. Each shard begins its hour with a failure. Cost: O(networks), one round trip."""
        return self._run(listing.failed_networks(self._ctx, limit))

    def events_end(self) -> str:
        """Cursor of the newest event: later events come after it. Cost: O(P), one round trip."""
        return self._run(events.latest(self._ctx))

    def watch(self, *, after: str | None = None) -> Iterator[Event]:
        """Events as they happen, without end, from now on or after ``after``. Each arrives once, in about 0.1 s.

        Raises Unavailable while Redis is unreachable: continue with the cursor of the last event, and none is missed.
        Cost: that of ``events``, ten times a second.
        """
        cursor = self.events_end() if after is None else after
        return self._watch(cursor)

    def _watch(self, cursor: str) -> Iterator[Event]:
        while True:
            batch = self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                time.sleep(WATCH_INTERVAL)

    def when_ended(self, uid: str, session_id: str, *, timeout: float | None = None) -> Validation | None:
        """Wait until no request of a session passes any more, and return why: as ``validate``, always falsy.

        ``.ended`` is the end; with the code "sign_in_required" the session lives, and its visitor must sign in again.
        Returns about 0.1 s after a kick, a logout or the deadline, and at once for a session that has ended or is
        unknown. A new secret (``rotate``, ``reauthenticated``) is no end. None: after ``timeout`` seconds requests
        still passed, as far as is known.

        While Redis is away it waits on; afterwards the session is checked. Raises Unavailable only if the client is
        closed meanwhile. Cost: all that wait share one reader of the events, which reads ten times a second while
        there are any; and one check of the session a minute.
        """
        seconds = _timeout(timeout)
        ended: queue.SimpleQueue[ValidationFailed | None] = queue.SimpleQueue()
        watch = self.internal.ends.add(check.uid(uid), check.session_id(session_id), ended.put)
        try:
            failed = ended.get(timeout=seconds)
        except queue.Empty:
            return None
        finally:
            self.internal.ends.remove(watch)
        if failed is None:
            raise Unavailable(_CLOSED)
        return failed

    def notices(self) -> NoticeReport:
        """How the notices to users about odd logins are sent: how many wait, were sent, and may be missing.

        The sender is ``presence_core.web.notices.NoticeSender``. Cost: O(P), one round trip.
        """
        return self._run(report.notices(self._ctx))

    def notices_of(self, uid: str) -> list[Notice]:
        """The notices to one user that are kept, the newest first: their kinds, state, and the user's answer.

        They are kept as long as their link is valid. Cost: O(notices of the user), one round trip.
        """
        return self._run(answers.notices_of(self._ctx, uid))

    def notice_is_open(self, uid: str, notice_id: str) -> bool:
        """Whether the user has not answered this notice yet, or it is unknown. Cost: that of ``notices_of``."""
        return self._run(answers.notice_is_open(self._ctx, uid, notice_id))

    def answer_notice(
        self,
        uid: str,
        session_id: str,
        at: datetime | float,
        answer: NoticeAnswer,
        *,
        until: datetime | float,
        block_for: int | None = None,
    ) -> bool:
        """Do what a user answered to a notice: the login was theirs ("me"), or it was not ("not_me").

        "not_me" ends the session with the cause "denied", if it lives, requires a new sign-in from the user's other
        sessions, and makes the device of this login unknown again. The audit has entries by the user:
        ``confirm_login``, or ``deny_login`` and ``require_sign_in``. Returns False, and does nothing, if the notice was
        answered before, if an answer is being carried out, or if nothing is kept of the notice and the session.

        at: of the notice, aware datetime or Unix seconds. until: when its link lapses; the answer is kept until then.
        block_for: with "not_me", seconds for which the user may not log in.

        The caller has verified that the answer is the user's: the page "Your devices" does that and calls this. Cost:
        that of ``kick`` and ``require_sign_in``; eight round trips more.
        """
        return self._run(answers.answer_notice(self._ctx, uid, session_id, at, answer, until, block_for))


class AsyncEventsMethods(AsyncClient):
    notices = awaited(EventsMethods.notices)
    notices_of = awaited(EventsMethods.notices_of)
    notice_is_open = awaited(EventsMethods.notice_is_open)
    answer_notice = awaited(EventsMethods.answer_notice)
    login_failed = awaited(EventsMethods.login_failed)
    failed_logins = awaited(EventsMethods.failed_logins)
    failed_networks = awaited(EventsMethods.failed_networks)
    events = awaited(EventsMethods.events)
    events_end = awaited(EventsMethods.events_end)

    async def watch(self, *, after: str | None = None) -> AsyncIterator[Event]:
        """See Presence.watch: ``async for event in presence.watch()``. "Now" is when the loop begins."""
        cursor = await self.events_end() if after is None else after
        while True:
            batch = await self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                await asyncio.sleep(WATCH_INTERVAL)

    @pending
    async def when_ended(self, uid: str, session_id: str, *, timeout: float | None = None) -> Validation | None:
        seconds = _timeout(timeout)
        ended: asyncio.Future[ValidationFailed | None] = asyncio.get_running_loop().create_future()

        def note(failed: ValidationFailed | None) -> None:
            if not ended.done():
                ended.set_result(failed)

        watch = self.internal.ends.add(check.uid(uid), check.session_id(session_id), note)
        try:
            async with asyncio.timeout(seconds):
                failed = await ended
        except TimeoutError:
            return None
        finally:
            self.internal.ends.remove(watch)
        if failed is None:
            raise Unavailable(_CLOSED)
        return failed
