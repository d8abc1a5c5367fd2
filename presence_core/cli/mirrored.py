"""After a kick of mirrored sessions: what is left to do at the site."""

from __future__ import annotations

from collections.abc import Sequence

from presence_core.client import Presence
from presence_core.errors import PresenceError
from presence_core.models import Session


def site_note(presence: Presence, kicked: Sequence[Session]) -> list[str]:
    """A sentence if these sessions have yet to end in the site's own store. Empty for sessions of ours."""
    ids = [session.session_id for session in kicked if session.is_mirrored]
    if not ids:
        return []
    try:
        concerned = [mirror for mirror in presence.mirrors() if any(sid.startswith(mirror.id_prefix) for sid in ids)]
    except PresenceError:  # the kick is done
        concerned = []
    if concerned and all(mirror.alive and not mirror.problem for mirror in concerned):
        return ["The mirror deletes the site's own session next, usually within a second."]
    return ["The site's own session has not ended yet: it ends when presence mirror works again."]
