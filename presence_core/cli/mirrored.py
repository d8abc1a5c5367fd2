"""After a kick of mirrored sessions: what is left to do at the site."""

from __future__ import annotations

from collections.abc import Sequence

from presence_core.client import Presence
from presence_core.errors import PresenceError
from presence_core.models import Session
from presence_core.models.mirror import ends_soon


def site_note(presence: Presence, kicked: Sequence[Session]) -> list[str]:
    """A sentence if these sessions have yet to end in the site's own store. Empty for sessions of ours."""
    ids = [session.session_id for session in kicked if session.is_mirrored]
    if not ids:
        return []
    try:
        is_soon = ends_soon(ids, presence.mirrors())
    except PresenceError:  # the kick is done
        is_soon = False
    if is_soon:
        return ["The mirror deletes the site's own session next, usually within a second."]
    return ["The site's own session has not ended yet: it ends when presence mirror works again."]
