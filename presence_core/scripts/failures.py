"""Scripts on sign-ins that failed."""

from __future__ import annotations

from typing import Final

from presence_core.scripts.script import Script


def _decode_noted(reply: int) -> bool:
    """Decode a reply of failures/note_failure.lua: whether it was noted."""
    return reply == 1


NOTE_FAILURE: Final = Script("failures/note_failure", repeatable=False, shares=True, reply=_decode_noted)
