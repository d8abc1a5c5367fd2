"""What staff do, as plain data in and out: no page is drawn here.

Sessions are named by ref (``uid:session_id``), never by their place in a table. Who acts is asked inside each action.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from presence_core import (
    Block,
    Ended,
    ForgetReport,
    InvalidArgument,
    KickResult,
    OutcomeUnknown,
    Presence,
    PresenceError,
    Session,
)
from presence_dashboard import access
from presence_dashboard.wording import plain


@dataclass(frozen=True, slots=True)
class Why:
    """What goes with a kick or a block."""

    reason: str  #: for staff
    message: str | None = None  #: for the visitor
    ticket: str | None = None
    block: int | None = None  #: seconds for which the person may not log in again; 0 until somebody unblocks them
    until: datetime | None = None  #: of a block, in place of seconds
    shorten: bool = False  #: of a block: also where the one that there is ends later


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the sessions that an action was about. Each is in one of these places."""

    kicked: tuple[Session, ...] = ()
    already: tuple[Ended, ...] = ()  #: over, and how is known
    forgotten: tuple[str, ...] = ()  #: refs that are over; how is no longer known
    alive: tuple[str, ...] = ()  #: refs whose kick had no answer; a second look showed that they are live
    unknown: tuple[str, ...] = ()  #: refs whose kick had no answer, and at which no second look was possible yet
    untouched: tuple[str, ...] = ()  #: refs for which nothing was tried, or nothing can have happened
    failure: str | None = None  #: what Redis did, if it did not answer as it should
    blocked: Block | None = None  #: where a block was asked for: the one that holds now
    unconfirmed: bool = False  #: too few replicas have it yet, where that was asked for
    unasked: bool = False  #: no replica was asked, and a failover may undo it

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.kicked + other.kicked,
            self.already + other.already,
            self.forgotten + other.forgotten,
            self.alive + other.alive,
            self.unknown + other.unknown,
            self.untouched + other.untouched,
            self.failure or other.failure,
            self.blocked or other.blocked,
            self.unconfirmed or other.unconfirmed,
            self.unasked or other.unasked,
        )

    @property
    def is_cut_short(self) -> bool:
        """Redis is away: there is no sense in going on."""
        return bool(self.unknown or self.untouched)


def is_unasked(presence: Presence) -> bool:
    """Whether a failover may undo what is done now, because no replica is asked."""
    return presence.may_fail_over and not presence.settings.confirm_replicas


def split(ref: str) -> tuple[str, str]:
    """uid and session id: an id has no colon, a uid may."""
    uid, _, session_id = ref.rpartition(":")
    return uid, session_id


def kick_sessions(presence: Presence, refs: Sequence[str], why: Why) -> Outcome:
    """End these sessions, one after the other; stop where Redis is away.

    Raises InvalidArgument for a bad text, Denied and SignedOut where whoever acts may not.
    """
    outcome = Outcome()
    for position, ref in enumerate(refs):
        uid, session_id = split(ref)
        outcome += _tried(presence, [ref], why, partial(_kick, presence, uid, session_id, why))
        if outcome.is_cut_short:
            return outcome + Outcome(untouched=tuple(refs[position + 1 :]))
    return outcome


def kick_person(presence: Presence, uid: str, seen: Sequence[str], why: Why, keep: Sequence[str] = ()) -> Outcome:
    """End all sessions of a user but those in ``keep``, also ones that have begun since somebody looked.

    ``seen`` are the refs that were to be hit when somebody looked. Raises as ``kick_sessions``.
    """
    kept = [split(ref)[1] for ref in keep]
    asked = [ref for ref in seen if ref not in keep]
    outcome = _tried(presence, asked, why, partial(_kick, presence, uid, None, why, kept))
    if not outcome.forgotten:
        return outcome
    # A kick of all tells of those that it ended, not of those that somebody else ended a moment before.
    return replace(outcome, forgotten=()) + look_again(presence, outcome.forgotten)


def look_again(presence: Presence, refs: Sequence[str]) -> Outcome:
    """What has become of these sessions. Changes nothing."""
    outcome = Outcome()
    for position, ref in enumerate(refs):
        try:
            found = presence.validate_session(*split(ref), touch=False)
        except PresenceError as error:
            return outcome + Outcome(unknown=tuple(refs[position:]), failure=plain(error))
        if found:
            outcome += Outcome(alive=(ref,))
        else:
            outcome += Outcome(already=(found.ended,)) if found.ended else Outcome(forgotten=(ref,))
    return outcome


def block(presence: Presence, uid: str, why: Why) -> Block:
    """Let a person not log in; their sessions go on. Raises what Presence.block raises."""
    actor = access.require("kick", what="block", uid=uid)
    return presence.block(
        uid,
        by=actor.name,
        reason=why.reason,
        message=why.message,
        ticket=why.ticket,
        duration=why.block or None,
        until=why.until,
        shorten=why.shorten,
    )


def unblock(presence: Presence, uid: str, reason: str) -> bool:
    """Let a person log in again. False: they were not blocked."""
    actor = access.require("kick", what="unblock", uid=uid)
    return presence.unblock(uid, by=actor.name, reason=reason)


def forget(presence: Presence, uid: str, reason: str) -> ForgetReport:
    """Take every trace of a person out of every key. Raises what Presence.forget raises."""
    actor = access.require("staff", what="forget", uid=uid)
    return presence.forget(uid, by=actor.name, reason=reason)


def export_person(presence: Presence, uid: str) -> str:
    """All that is kept of a person, JSON; in the audit before anybody has it."""
    actor = access.require("staff", what="export_person", uid=uid)
    found = presence.export_person(uid)
    presence.audit_note(by=actor.name, what="export_person", uid=uid, outcome="all that is kept of this person")
    return json.dumps(found, ensure_ascii=False, indent=2)


def _kick(presence: Presence, uid: str, session_id: str | None, why: Why, keep: Sequence[str] = ()) -> KickResult:
    actor = access.require("kick", what="kick", uid=uid)
    held = block(presence, uid, why) if why.block == 0 else None  # first: no login slips in between
    result = presence.kick(
        uid,
        session_id,
        by=actor.name,
        reason=why.reason,
        message=why.message,
        ticket=why.ticket,
        keep=keep,
        block_for=why.block or None,
    )
    return replace(result, block=held) if held else result


def _tried(presence: Presence, refs: Sequence[str], why: Why, kick: Callable[[], KickResult]) -> Outcome:
    try:
        result = kick()
    except OutcomeUnknown as error:
        found = Outcome(failure=plain(error)) + look_again(presence, refs)
        return found if found.unknown else replace(found, blocked=_held(presence, refs, why))
    except InvalidArgument:
        raise
    except PresenceError as error:
        # A block without an end is set before the kick: it may hold although the kick failed.
        held = _held(presence, refs, why) if why.block == 0 else None
        return Outcome(untouched=tuple(refs), failure=plain(error), blocked=held)
    told = {record.ref for record in (*result.kicked, *result.already_ended)}
    return Outcome(
        kicked=tuple(result.kicked),
        already=tuple(result.already_ended),
        forgotten=tuple(ref for ref in refs if ref not in told),
        blocked=result.block,
        unconfirmed=result.confirmed is False,
        unasked=is_unasked(presence) and bool(result or why.block is not None),
    )


def _held(presence: Presence, refs: Sequence[str], why: Why) -> Block | None:
    """The block that holds, where one was asked for; None also where that cannot be read."""
    if why.block is None or not refs:
        return None
    try:
        return presence.blocked(split(refs[0])[0])
    except PresenceError:
        return None


def blocks_of(presence: Presence, uids: Iterable[str]) -> dict[str, Block]:
    """Who of these may not log in; of nobody where that cannot be read: it is no reason to show less of the rest."""
    try:
        return presence.blocked_among(uids)
    except PresenceError:
        return {}
