"""Viewers: the staff members who have a person open. A note expires soon unless it is renewed."""

from __future__ import annotations

from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import Viewer, moment, text
from presence_core.operations.context import Context
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first
from presence_core.scripts.staff import NOTE_VIEWER

KEEP: Final = 30
"""Seconds after which a note expires: more than two refreshes of a page."""

MAX_VIEWERS: Final = 50
"""Members that are noted for one person."""


@checked_first
def note_viewer(ctx: Context, uid: object, by: object, closed: object) -> Op[list[Viewer]]:
    """Note that a member has a person open, or has closed it. Returns the other viewers, the first first."""
    owner, member = check.uid(uid), check.actor(by)
    if not isinstance(closed, bool):
        raise InvalidArgument("closed", "must be True or False", "wrong_type")
    yield CHECKED
    key = ctx.keys.common.viewers(owner)
    [reply] = yield [call_of(NOTE_VIEWER, (key,), ctx.now, member, KEEP, MAX_VIEWERS, int(closed))]
    others = sorted(NOTE_VIEWER.reply(reply), key=lambda note: (note[1], note[0]))
    return [Viewer(text(name), moment(since)) for name, since in others]
