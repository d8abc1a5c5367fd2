"""The sender of notices: a thread follows the events, and mails users about odd logins."""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Self, TypeVar

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.errors import CorruptData, InvalidArgument, PresenceError
from presence_core.fork_safety import renew_in_child
from presence_core.logs import OutageLog, fields
from presence_core.models import Ended, Event, Notice, Session, SessionMoved
from presence_core.operations.notices import queue
from presence_core.operations.notices.queue import Claim, Limits, Odd
from presence_core.schema.endings import EventKind
from presence_core.web.notices.kinds import KINDS
from presence_core.web.notices.link import NoticeLink
from presence_core.web.notices.mail import NoticeMail, NotSent, Refused, ascii_address, write_mail

__all__ = ["AddressOf", "NoticeSender", "Send"]

A = TypeVar("A")
T = TypeVar("T")

AddressOf = Callable[[str], tuple[str, str | None] | None]
"""uid → the user's mail address and language, as the site has them; None: no mail."""

Send = Callable[[NoticeMail], object]
"""Sends a mail. Raises NotSent if nothing was sent and it may be tried again, Refused if there is no such address.
After any other error the mail may have been sent, so it is not sent again."""

BATCH: Final = 200
"""Events that are read at a time, and users who are looked at."""

FIRST_PAUSE: Final = 5.0
MOST_PAUSE: Final = 60.0
"""Seconds between two tries while the mail server takes nothing: twice as long each time."""

MOST_WAIT: Final = 3600.0
"""Seconds between two tries of a mail where others may be taken: first ``MOST_PAUSE``, then twice as long each time."""

IN_A_ROW: Final = 3
"""So many tries in a row that sent nothing: the server, or a function of the site, fails for all."""

REMEMBERED: Final = 10_000
"""Notices that a sender remembers."""

CLOSE_SECONDS: Final = 30.0
"""How long ``close`` waits for a mail that is being sent."""

TURN_SECONDS: Final = 10.0
"""How often a sender that has nothing to report notes that it runs."""

log = logging.getLogger(__name__)


class _HookFailed(Exception):
    """A function of the site has raised an error of ours, which would read as one of Redis; or SystemExit or the like,
    which would end the thread."""


class NoticeSender:
    """``with NoticeSender(presence, link=…, address_of=…, send=SmtpServer(…), site="Shop"): …`` runs it in a thread.

    presence: a Presence. link: where the links lead. address_of: uid → (address, language) as your site has them, or
    None for no mail; aliases are never mailed, because an attacker changes them first. send: an SmtpServer, or a
    function of your own that takes a NoticeMail. site: the name of your site in the mails. kinds: the events to tell
    of.

    per_day: mails that a user gets in a day, 1…20; what is beyond is counted and not sent. give_up: seconds after which
    a mail that waits is dropped, 60…604,800: a mail server may be away for so long. At most 10,000 users wait.
    interval: seconds between two looks, 0.01…60.

    A mail is sent at most once, also with several senders: each claims a notice in Redis before it sends it. If it is
    killed while it sends, the mail may be missing: after 10 minutes the log and ``Presence.notices`` say so. Events
    from before the first start are not sent.

    Cost: four round trips at each look, O(P) each; two more for a mail, and those of ``sessions_among``.
    """

    def __init__(
        self,
        presence: Presence,
        *,
        link: NoticeLink,
        address_of: AddressOf,
        send: Send,
        site: str,
        kinds: Iterable[EventKind] = tuple(KINDS),
        per_day: int = 5,
        give_up: int = 86_400,
        interval: float = 1.0,
    ) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument("presence", "must be a Presence: the sender has a thread of its own", "wrong_type")
        if not isinstance(link, NoticeLink):
            raise InvalidArgument("link", "must be a NoticeLink", "wrong_type")
        for name, hook in (("address_of", address_of), ("send", send)):
            if not callable(hook):
                raise InvalidArgument(name, "must be a function", "wrong_type")
            check.plain_function(name, hook)
        self._presence, self._link = presence, link
        self._address_of, self._send_mail = address_of, send
        self._site = check.plain_text("site", site, 100, "must be text of 1 to 100 bytes: the name of your site")
        self._kinds = check_kinds(kinds)
        seconds = link.seconds + check.whole("give_up", give_up, 60, 604_800)
        self._limits = Limits(check.whole("per_day", per_day, 1, 20), give_up, seconds)
        self._interval = check.duration("interval", interval, 0.01, 60)
        self._counts: Counter[str] = Counter()
        self._unfinished: list[tuple[Notice, str, str, int]] = []  # outcomes that could not be stored yet
        self._cursor = ""
        self._failure: str | None = None  # why nothing can be sent
        self._not_taken = 0  # mails in a row
        self._has_sent = False
        self._sent_since_turn = False  # and that is not stored yet
        self._tries: dict[str, int] = {}  # of notices that were not taken
        self._unreadable: dict[str, bool] = {}  # users whose notices are another program's
        self._done: dict[str, str] = {}  # the states of notices that are never sent again
        self._noted: tuple[str | None, float] = (None, float("-inf"))
        self._pause, self._resume_at = 0.0, 0.0
        self._redis = OutageLog(
            log, "notices", "notices wait for Redis: %(error)s", "notices are read again after %(seconds).1f s"
        )
        self._renew()
        renew_in_child(self, NoticeSender._renew)

    def _renew(self) -> None:
        """Also in a forked child: the parent goes on sending."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Send until ``close``."""
        while not self._stopping.is_set():
            pause = self._interval
            try:
                if self._turn():
                    pause = 0.0
                self._redis.worked()
            except PresenceError as error:
                self._redis.failed(error)
                pause = max(1.0, pause)
            except Exception:  # a mistake: what is in the queue stays there
                log.exception("notices failed, trying again", extra=fields(event="notices_failed"))
                pause = max(5.0, pause)
            self._stopping.wait(pause)

    def start(self) -> None:
        """Run in a daemon thread."""
        self._stopping.clear()
        if not self.is_running:
            self._thread = threading.Thread(target=self.run, name="presence-notices", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop. A mail that is being sent is finished first; what waits stays in the queue. After 30 seconds it is left
        to the thread, which ends with the process, or with that mail."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                extra = fields(event="notices_hang")
                log.error("the sender of notices has not stopped: address_of or send hangs", extra=extra)

    @property
    def is_running(self) -> bool:
        """Whether its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _turn(self) -> bool:
        """Queue what is new, and send what is due. Returns whether there is more to do at once."""
        run, ctx = self._presence.internal.run, self._presence.internal.context
        self._finish_again()
        has_more = self._read_events()
        if time.monotonic() >= self._resume_at:
            for uid in run(queue.due(ctx, BATCH)):
                if self._stopping.is_set() or not self._look_at_any(uid):
                    break
        self._note_turn()
        return has_more and not self._stopping.is_set()

    def _read_events(self) -> bool:
        """Queue a batch of events. Returns whether there may be more."""
        run, ctx = self._presence.internal.run, self._presence.internal.context
        cursor = run(queue.read_position(ctx))  # another sender may have moved it
        events = self._presence.events(after=cursor, limit=BATCH)
        if events:
            self._counts["missed"] += sum(event.kind == "gap" for event in events)
            self._counts.update(run(queue.queue(ctx, list(self._odd(events)), events[-1].cursor, self._limits)))
        return len(events) == BATCH

    def _odd(self, events: Iterable[Event]) -> Iterable[Odd]:
        for event in events:
            if event.kind in self._kinds and _is_ref(event):
                move = event.move if isinstance(event, SessionMoved) else None
                at = round(event.at.timestamp() * 1000)
                yield Odd(event.uid, event.session_id, event.kind, at, move.after if move else None)

    # -- one notice ----------------------------------------------------------------------------------------------------

    def _look_at_any(self, uid: str) -> bool:
        """The same of a user under whose key another program may have written: that stops no mail of others."""
        try:
            return self._look_at(uid)
        except CorruptData as error:
            if uid not in self._unreadable:
                log.error("a notice cannot be read: %s", error, extra=fields(event="notice_unreadable"))  # noqa: TRY400
            _remember(self._unreadable, uid, True)
            return True

    def _look_at(self, uid: str) -> bool:
        """Send a notice of this user that is due. False: nothing can be sent now."""
        run, ctx = self._presence.internal.run, self._presence.internal.context
        claim = run(queue.claim(ctx, uid, self._limits))
        self._counts["dropped"] += claim.dropped
        self._counts["unsure"] += claim.unsure
        if claim.dropped:
            extra = fields(event="notice_dropped", count=claim.dropped)
            log.error("%d notices were dropped: they had waited for too long", claim.dropped, extra=extra)
        if claim.unsure:
            extra = fields(event="notice_unsure", count=claim.unsure)
            log.error("%d notices may be missing: their sender stopped while it sent", claim.unsure, extra=extra)
        return claim.notice is None or self._send(claim.notice, claim)

    def _send(self, notice: Notice, claim: Claim) -> bool:
        """Send a notice that was claimed. False: nothing can be sent now."""
        if notice.id in self._done:  # Redis has started from an older snapshot
            return self._finish(notice, claim, self._done[notice.id])
        try:
            mail = self._write(notice)
        except PresenceError:
            self._unfinished.append((notice, claim.token, "waiting", 0))
            raise
        except Exception as error:  # of the site's hook
            log.exception("a notice could not be written", extra=fields(event="notice_failed", notice=notice.id))
            return self._put_back(notice, claim, NotSent(_words(error), only_this=True))
        if mail is None:
            return self._finish(notice, claim, "skipped")
        try:
            self._give(mail)
        except NotSent as error:
            return self._put_back(notice, claim, error)
        except Refused as error:
            if not self._has_sent or self._not_taken + 1 >= IN_A_ROW:  # it may refuse every address
                return self._put_back(notice, claim, NotSent(str(error), only_this=True))
            self._not_taken += 1
            log.warning("a notice was refused: %s", error, extra=fields(event="notice_refused", notice=notice.id))
            return self._finish(notice, claim, "refused")
        except Exception as error:
            extra = fields(event="notice_unsure", notice=notice.id, error=type(error).__name__)
            log.exception("a notice may be missing: an error while it was sent", extra=extra)
            return self._finish(notice, claim, "unsure")
        self._works()
        return self._finish(notice, claim, "sent")

    def _give(self, mail: NoticeMail) -> None:
        result = _call(self._send_mail, mail)
        try:
            check.not_awaitable("send", result)
        except InvalidArgument as error:
            if inspect.iscoroutine(result):  # nothing of it has run
                raise NotSent(_words(error)) from None
            raise

    def _write(self, notice: Notice) -> NoticeMail | None:
        """The mail; None if there is none to send: no address, or staff act on behalf of the user."""
        if check.is_on_behalf(notice.session_id):
            return None
        ref = f"{notice.uid}:{notice.session_id}"
        record: Session | Ended | None = self._presence.sessions_among([ref]).get(ref)
        found = self._ask_address(notice.uid)
        if found is None:
            return None
        address, language = found
        to = ascii_address(address)
        if to is None:
            log.warning("address_of returned no mail address", extra=fields(event="notice_no_address"))
            return None
        link = self._link.make(notice.uid, notice.session_id, notice.at)
        return write_mail(notice, record, to, language, self._site, link, self._link.days)

    def _ask_address(self, uid: str) -> tuple[str, str | None] | None:
        """The address and language that the site has. Its errors are no errors of Redis."""
        try:
            found = _call(self._address_of, uid)
            check.not_awaitable("address_of", found)
        except PresenceError as error:
            raise _HookFailed(_words(error)) from error
        return found

    def _put_back(self, notice: Notice, claim: Claim, error: NotSent) -> bool:
        """Nothing was sent: it is tried again later, and if the server takes nothing, all others too."""
        self._not_taken += 1
        if not error.only_this or self._not_taken >= IN_A_ROW:
            if self._failure is None:
                log.warning("notices wait: %s", error, extra=fields(event="notices_wait", error=str(error)))
            self._failure = str(error)
        goes_on = error.only_this and self._not_taken % IN_A_ROW > 0
        if not goes_on:
            self._pause = min(MOST_PAUSE, 2 * self._pause or FIRST_PAUSE)
            self._resume_at = time.monotonic() + self._pause
        self._finish(notice, claim, "waiting", round(self._wait_of(notice) if error.only_this else self._pause))
        return goes_on

    def _wait_of(self, notice: Notice) -> float:
        """Seconds until a notice is tried again."""
        tries = self._tries.get(notice.id, 0)
        _remember(self._tries, notice.id, tries + 1)
        return min(MOST_WAIT, MOST_PAUSE * float(1 << min(tries, 20)))

    def _works(self) -> None:
        if self._failure is not None:
            log.info("notices are sent again", extra=fields(event="notices_restored"))
        self._failure, self._pause = None, 0.0
        self._not_taken, self._has_sent, self._sent_since_turn = 0, True, True

    def _finish(self, notice: Notice, claim: Claim, state: str, pause: int = 0) -> bool:
        """Note how it went; later, if Redis is away now."""
        if state != "waiting":
            self._counts[state] += 1
            _remember(self._done, notice.id, state)
        self._unfinished.append((notice, claim.token, state, pause))
        self._finish_again()
        return True

    def _finish_again(self) -> None:
        run, ctx = self._presence.internal.run, self._presence.internal.context
        while self._unfinished:
            with contextlib.suppress(CorruptData):  # another program has written there: there is nothing to note
                run(queue.finish(ctx, *self._unfinished[0]))
            del self._unfinished[0]

    def _note_turn(self) -> None:
        failure, at = self._noted
        counts = {name: number for name, number in self._counts.items() if number}
        if not (counts or self._sent_since_turn) and failure == self._failure and time.monotonic() < at + TURN_SECONDS:
            return
        run, ctx = self._presence.internal.run, self._presence.internal.context
        self._counts.clear()  # first: a number that is lost is better than one that is counted twice
        run(queue.note_turn(ctx, counts, self._failure, has_sent=self._sent_since_turn))
        self._sent_since_turn = False
        self._noted = self._failure, time.monotonic()


def check_kinds(kinds: object) -> frozenset[EventKind]:
    """Kinds of events that users can get mails about. Raises InvalidArgument."""
    chosen = () if isinstance(kinds, str) or not isinstance(kinds, Iterable) else tuple(kinds)
    if not chosen or not all(kind in KINDS for kind in chosen):
        raise InvalidArgument("kinds", "must be some of " + ", ".join(KINDS), "not_a_choice")
    return frozenset(chosen)


def _call(hook: Callable[[A], T], given: A) -> T:
    """The result of a function of the site."""
    try:
        return hook(given)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise _HookFailed(type(error).__name__) from error


def _remember(memory: dict[str, T], name: str, value: T) -> None:
    memory.pop(name, None)
    memory[name] = value  # the latest at the end
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]


def _words(error: Exception) -> str:
    """What failed, without the error's own words: they may name the user."""
    if isinstance(error, InvalidArgument):
        return f"{error.field} {error.rule}"
    return str(error) if isinstance(error, _HookFailed) else type(error).__name__


def _is_ref(event: Event) -> bool:
    """Whether the event names a session as we write it; another program may have added it."""
    with contextlib.suppress(InvalidArgument):
        check.ref(f"{event.uid}:{event.session_id}")
        return True
    return False
