"""The kinds of events that a user gets mails about: a row for each, with its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from gettext import NullTranslations
from typing import Final

from presence_core.models.alerts import Notice
from presence_core.models.places import Origin
from presence_core.models.sessions import Record
from presence_core.schema.endings import EventKind

Sentence = Callable[[NullTranslations], str]

KINDS: Final[dict[EventKind, Sentence]] = {
    "new_device": lambda t: t.gettext(
        "It was on a device that is new to your account. A private window, or a browser without its cookies, counts as "
        "new, too."
    ),
    "distant": lambda t: t.gettext("It was far from the place of your last sign-in."),
    "moved": lambda t: t.gettext(
        "The session comes from another country, or from another network and browser, than before."
    ),
    "after_failures": lambda t: t.gettext("Several sign-ins to your account had failed before it."),
}
"""Kind of an event → what the mail and the page say about it."""


def moved_to(notice: Notice | None, record: Record | None, at: datetime) -> Origin:
    """Where a session was used after the move at this time. Nothing is known of it if the notice does not say so, and
    the session has moved again since."""
    if notice is not None and notice.after is not None:
        return notice.after
    move = record.move if record is not None else None
    return move.after if move is not None and move.at == at else Origin()


def sentences(t: NullTranslations, kinds: Iterable[str]) -> list[str]:
    """What was odd, a sentence each, in the order of the table."""
    given = set(kinds)
    return [sentence(t) for kind, sentence in KINDS.items() if kind in given]
