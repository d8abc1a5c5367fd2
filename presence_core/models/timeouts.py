"""What a change of timeouts makes of a session, without Redis: for previews."""

from __future__ import annotations

from dataclasses import replace

from presence_core.models.sessions import Session, as_ms, login_ms, moment
from presence_core.validation import is_mirrored


def predict(session: Session, idle: int | None, absolute: int | None, most_on_behalf: int) -> Session:
    """The session after a change of its timeouts (s; None: it keeps its own), if it is not seen meanwhile. An expiry in
    the past means that the change ends it. ``change_timeouts.lua`` decides the same. A mirrored one keeps its own."""
    if is_mirrored(session.session_id):
        return session
    new_absolute = session.absolute_timeout if absolute is None else absolute
    if absolute is not None and session.on_behalf_by is not None:
        new_absolute = min(new_absolute, most_on_behalf)
    if session.idp_expires_at is not None:
        new_absolute = min(new_absolute, (as_ms(session.idp_expires_at) - login_ms(session)) // 1000)
    new_idle = min(session.idle_timeout if idle is None else idle, new_absolute)
    seen = round(session.last_seen.timestamp() * 1000)
    expires_at = moment(min(seen + new_idle * 1000, login_ms(session) + new_absolute * 1000))
    return replace(session, idle_timeout=new_idle, absolute_timeout=new_absolute, expires_at=expires_at)


def is_longer(before: Session, after: Session) -> bool:
    """Whether a timeout is longer than before."""
    return after.idle_timeout > before.idle_timeout or after.absolute_timeout > before.absolute_timeout


def is_changed(before: Session, after: Session) -> bool:
    """Whether a timeout is another one than before."""
    return (after.idle_timeout, after.absolute_timeout) != (before.idle_timeout, before.absolute_timeout)
