"""Scripts on mirrored sessions: copies of those in the site's own store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from presence_core.scripts.script import Script


def _decode_places(reply: Sequence[int]) -> list[int]:
    """Decode a reply of mirror/follow_sessions.lua: the places, from 0, of the sessions that are not live."""
    return [place - 1 for place in reply]


FOLLOW_SESSIONS: Final = Script("mirror/follow_sessions", repeatable=True, shares=True, reply=_decode_places)
