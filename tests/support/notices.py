"""Notices without a sender: tests put them into the queue."""

from __future__ import annotations

from presence_core import Notice, Presence, Session
from presence_core.operations.notices import queue
from presence_core.operations.notices.queue import Claim, Limits, Odd

LIMITS = Limits(per_day=5, give_up=86_400, keep=8 * 86_400)


def queue_notice(p: Presence, session: Session, kind: str = "new_device", limits: Limits = LIMITS) -> Notice:
    """Put a notice about this login into the queue."""
    run, ctx = p.internal.run, p.internal.context
    run(queue.read_position(ctx))
    odd = Odd(session.uid, session.session_id, kind, round(session.login_at.timestamp() * 1000))
    run(queue.queue(ctx, [odd], p.events_end(), limits))
    return p.notices_of(session.uid)[0]


def claim(p: Presence, uid: str, limits: Limits = LIMITS) -> Claim:
    found: Claim = p.internal.run(queue.claim(p.internal.context, uid, limits))
    return found


def finish(p: Presence, claimed: Claim, state: str = "sent", pause: int = 0) -> bool:
    assert claimed.notice is not None
    done: bool = p.internal.run(queue.finish(p.internal.context, claimed.notice, claimed.token, state, pause))
    return done
