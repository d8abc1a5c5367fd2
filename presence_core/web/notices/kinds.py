"""The kinds of events that a user is told of: a row for each, with its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from gettext import NullTranslations
from typing import Final

from presence_core.models.places import Move
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


def move_at(record: Record, at: datetime) -> Move | None:
    """The move of a session at this time; None if it has moved again since, or not at all."""
    return record.move if record.move is not None and record.move.at == at else None


def sentences(t: NullTranslations, kinds: Iterable[str]) -> list[str]:
    """What was odd, a sentence each, in the order of the table."""
    given = set(kinds)
    return [sentence(t) for kind, sentence in KINDS.items() if kind in given]
