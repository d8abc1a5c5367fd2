"""The kinds of events that a user is told of: a row for each, with its sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from gettext import NullTranslations
from typing import Final

from presence_core.schema.endings import EventKind

Sentence = Callable[[NullTranslations], str]

KINDS: Final[dict[EventKind, Sentence]] = {
    "new_device": lambda t: t.gettext(
        "It was on a device that is new to your account. A private window, or a browser without its cookies, counts as "
        "new, too."
    ),
    "distant": lambda t: t.gettext("It was far from the place of your last sign-in."),
    "after_failures": lambda t: t.gettext("Several sign-ins to your account had failed before it."),
}
"""Kind of an event → what the mail and the page say about it."""


def sentences(t: NullTranslations, kinds: Iterable[str]) -> list[str]:
    """What was odd, a sentence each, in the order of the table."""
    given = set(kinds)
    return [sentence(t) for kind, sentence in KINDS.items() if kind in given]
