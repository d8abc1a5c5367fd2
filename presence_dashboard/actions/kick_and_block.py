"""Kick sessions, require a new sign-in, change timeouts, block and unblock people. Blocks, longer timeouts and kicks of
several people need a fresh authentication; a kick of one person does not.

Sessions are named by ref (``uid:session_id``), never by their position in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial

from presence_core import (
    Block,
    Ended,
    InvalidArgument,
    KickResult,
    OutcomeUnknown,
    Presence,
    PresenceError,
    Session,
    SignInResult,
)
from presence_dashboard import access, texts
from presence_dashboard.error_sentences import plain
from presence_dashboard.roles import Actor, Denied


@dataclass(frozen=True, slots=True)
class ActionDetails:
    """The form of a kick or a block: texts, and how long to block."""

    reason: str  #: for staff
    message: str | None = None  #: for the visitor
    ticket: str | None = None
    block: int | None = None  #: seconds; 0: until unblocked; None: do not block
    until: datetime | None = None  #: end of a block, instead of seconds
    shorten: bool = False  #: also replace a block that ends later


@dataclass(frozen=True, slots=True)
class KickOutcome:
    """The outcome of a kick. Each session is in one of these tuples."""

    kicked: tuple[Session, ...] = ()
    already: tuple[Ended, ...] = ()  #: already ended, with their end reason
    ended_unknown: tuple[str, ...] = ()  #: refs that already ended; their end reason is no longer stored
    still_live: tuple[str, ...] = ()  #: refs whose kick had no reply and that are still live
    unanswered: tuple[str, ...] = ()  #: refs whose kick had no reply and that could not be checked yet
    not_kicked: tuple[str, ...] = ()  #: refs that were not kicked: refused, or not tried after a failure
    failure: str | None = None  #: why not all were kicked, as a sentence for staff
    blocked: Block | None = None  #: the block in force, if one was requested
    unconfirmed: bool = False  #: too few replicas confirmed it so far
    no_replica_asked: bool = False  #: no replica was asked to confirm, so a failover may undo it

    def __add__(self, other: KickOutcome) -> KickOutcome:
        """Both outcomes together: tuples are joined, and of the other fields the first that is set counts."""
        ours = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        return KickOutcome(**{
            name: first + second if isinstance(first, tuple) else first or second
            for name, (first, second) in ours.items()
        })  # fmt: skip

    @property
    def did_nothing(self) -> bool:
        """Whether no session was kicked and nothing else is known, so that the kick can be tried again as it is."""
        return bool(self.not_kicked) and replace(self, not_kicked=(), failure=None) == KickOutcome()

    @property
    def is_cut_short(self) -> bool:
        """Whether Redis became unavailable, so that further kicks would fail too."""
        return bool(self.unanswered or self.not_kicked)


def may_be_undone(presence: Presence) -> bool:
    """Whether a failover may undo an action, because replicas are not asked to confirm it."""
    return presence.may_fail_over and not presence.settings.confirm_replicas


def split_ref(ref: str) -> tuple[str, str]:
    """The uid and the session id of a ref. A uid may contain colons, a session id does not."""
    uid, _, session_id = ref.rpartition(":")
    return uid, session_id


def require_within_limit(presence: Presence, count: int, *, action: str, begun: bool = False) -> Actor:
    """The actor, if they may end this many sessions at once. Otherwise audits the attempt and raises Denied.

    begun: a bulk kick has begun, so that it needs no second person again.
    """
    actor = access.require("bulk", action=action)
    limit = actor.bulk_limit if begun else actor.alone_limit
    if limit is not None and count > limit:
        presence.denied(by=actor.name, what=action, reason=f"{count:,} sessions, of {limit:,} allowed")
        raise Denied(texts.too_many_at_once(limit, count))
    return actor


def kick_refs(presence: Presence, refs: Sequence[str], details: ActionDetails) -> KickOutcome:
    """Kick these sessions one by one; stop if Redis is unavailable. Those of several people are a bulk kick: it needs a
    fresh authentication, and the role limits their number.

    Raises InvalidArgument for a wrong text, and Denied or SignedOut if the actor lacks the right.
    """
    if len({split_ref(ref)[0] for ref in refs}) > 1:
        access.require_fresh("bulk", action="kick")
        require_within_limit(presence, len(refs), action="kick")
    if refs and details.block is not None:
        access.require_fresh("kick", action="block", uid=split_ref(refs[0])[0])
    outcome = KickOutcome()
    for position, ref in enumerate(refs):
        uid, session_id = split_ref(ref)
        outcome += _attempt(presence, [ref], details, partial(_kick, presence, uid, session_id, details))
        if outcome.is_cut_short:
            return outcome + KickOutcome(not_kicked=tuple(refs[position + 1 :]))
    return outcome


def kick_person(
    presence: Presence, uid: str, seen: Sequence[str], details: ActionDetails, keep: Sequence[str] = ()
) -> KickOutcome:
    """Kick all sessions of a user except those in ``keep``, including sessions that are newer than the page.

    seen: the refs that the page showed. Raises as ``kick_refs``.
    """
    if details.block is not None:
        access.require_fresh("kick", action="block", uid=uid)
    kept = [split_ref(ref)[1] for ref in keep]
    to_kick = [ref for ref in seen if ref not in keep]
    outcome = _attempt(presence, to_kick, details, partial(_kick, presence, uid, None, details, kept))
    if not outcome.ended_unknown:
        return outcome
    # The reply names the sessions that this kick ended, not those that had just ended in another way.
    return replace(outcome, ended_unknown=()) + check_again(presence, outcome.ended_unknown)


def check_again(presence: Presence, refs: Sequence[str]) -> KickOutcome:
    """The current state of these sessions. Changes nothing."""
    outcome = KickOutcome()
    for position, ref in enumerate(refs):
        try:
            found = presence.validate_session(*split_ref(ref), touch=False)
        except PresenceError as error:
            return outcome + KickOutcome(unanswered=tuple(refs[position:]), failure=plain(error))
        if found or found.refused is not None:  # one that must sign in again is live
            outcome += KickOutcome(still_live=(ref,))
        else:
            outcome += KickOutcome(already=(found.ended,)) if found.ended else KickOutcome(ended_unknown=(ref,))
    return outcome


def may_require_sign_in(session: Session) -> bool:
    """Whether staff may require a new sign-in: not twice, not of a support session, which cannot sign in again, and not
    of a mirrored one, of which the site does not ask us."""
    return session.sign_in_required_at is None and session.on_behalf_by is None and not session.is_mirrored


def may_change_timeouts(session: Session) -> bool:
    """Whether staff may change its timeouts: those of a mirrored session are the site's."""
    return not session.is_mirrored


def require_sign_in(presence: Presence, uid: str, session_id: str | None, details: ActionDetails) -> SignInResult:
    """Require a new sign-in of a session, or of all sessions of the user for which it may be required.

    Raises as ``Presence.require_sign_in``, and Denied or SignedOut if the actor lacks the right.
    """
    actor = access.require("kick", action="require_sign_in", uid=uid)
    others = [] if session_id else [found for found in presence.sessions(uid) if not may_require_sign_in(found)]
    return presence.require_sign_in(
        uid,
        session_id,
        by=actor.name,
        reason=details.reason,
        message=details.message,
        ticket=details.ticket,
        keep=[session.session_id for session in others],
    )


def change_timeouts(
    presence: Presence, uid: str, session_id: str | None, idle: int | None, absolute: int | None, reason: str
) -> list[Session]:
    """Change the timeouts (s) of a session, or of all sessions of the user. To make one longer, the actor needs the
    right for it and a fresh authentication.

    Raises as ``Presence.change_timeouts``, and Denied or SignedOut if the actor lacks the right.
    """
    actor = access.require("kick", action="change_timeouts", uid=uid)
    change = partial(presence.change_timeouts, uid, session_id, idle_timeout=idle, absolute_timeout=absolute,
                     reason=reason)  # fmt: skip
    try:
        return change(by=actor.name, only_shorten=True)
    except InvalidArgument as error:
        if error.code != "lengthens":
            raise
    actor = access.require_fresh("lengthen", action="change_timeouts", uid=uid)
    return change(by=actor.name)


def block(presence: Presence, uid: str, details: ActionDetails) -> Block:
    """Block a person from logging in. Their live sessions continue. Raises as ``Presence.block``."""
    return _block(presence, uid, details, access.require_fresh("kick", action="block", uid=uid).name)


def _block(presence: Presence, uid: str, details: ActionDetails, by: str) -> Block:
    return presence.block(
        uid,
        by=by,
        reason=details.reason,
        message=details.message,
        ticket=details.ticket,
        duration=details.block or None,
        until=details.until,
        shorten=details.shorten,
    )


def unblock(presence: Presence, uid: str, reason: str) -> bool:
    """Let a person log in again. False if they were not blocked."""
    actor = access.require_fresh("kick", action="unblock", uid=uid)
    return presence.unblock(uid, by=actor.name, reason=reason)


def _kick(
    presence: Presence, uid: str, session_id: str | None, details: ActionDetails, keep: Sequence[str] = ()
) -> KickResult:
    actor = access.require("kick", action="kick", uid=uid)
    blocked = (
        _block(presence, uid, details, actor.name) if details.block == 0 else None
    )  # before the kick, so that no login gets in between
    result = presence.kick(
        uid,
        session_id,
        by=actor.name,
        reason=details.reason,
        message=details.message,
        ticket=details.ticket,
        keep=keep,
        block_for=details.block or None,
    )
    return replace(result, block=blocked) if blocked else result


def _attempt(
    presence: Presence, refs: Sequence[str], details: ActionDetails, kick: Callable[[], KickResult]
) -> KickOutcome:
    try:
        result = kick()
    except OutcomeUnknown as error:
        outcome = KickOutcome(failure=plain(error)) + check_again(presence, refs)
        return outcome if outcome.unanswered else replace(outcome, blocked=_block_in_force(presence, refs, details))
    except InvalidArgument:
        raise
    except PresenceError as error:
        # A block without an end is set before the kick, so it may be in force although the kick failed.
        blocked = _block_in_force(presence, refs, details) if details.block == 0 else None
        return KickOutcome(not_kicked=tuple(refs), failure=plain(error), blocked=blocked)
    named = {record.ref for record in (*result.kicked, *result.already_ended)}
    return KickOutcome(
        kicked=tuple(result.kicked),
        already=tuple(result.already_ended),
        ended_unknown=tuple(ref for ref in refs if ref not in named),
        blocked=result.block,
        unconfirmed=result.confirmed is False,
        no_replica_asked=may_be_undone(presence) and bool(result or details.block is not None),
    )


def _block_in_force(presence: Presence, refs: Sequence[str], details: ActionDetails) -> Block | None:
    """The block in force, if one was requested. None also if it cannot be read."""
    if details.block is None or not refs:
        return None
    try:
        return presence.blocked(split_ref(refs[0])[0])
    except PresenceError:
        return None
