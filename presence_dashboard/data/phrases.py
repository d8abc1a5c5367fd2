"""Phrases for kicks, new sign-ins and blocks: those of the product, and the team's in their place or in addition."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Literal

from presence_core import SavedItem
from presence_dashboard import language, texts
from presence_dashboard.data.store import Store
from presence_dashboard.format import cut, literal

PhraseUse = Literal["kick", "require_sign_in", "kick and block", "block"]

KEEP: Final = 15.0
"""Seconds for which all tabs share the phrases."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A reason for staff, and messages for the visitor."""

    reason: str
    message: str  #: of a kick
    message_with_block: str = ""  #: of a kick with a block; empty: as ``message``
    message_block: str = ""  #: of a block alone; empty: as ``message_with_block``
    message_sign_in: str = ""  #: of a required sign-in; empty: as ``message``

    def messages(self) -> dict[PhraseUse, str]:
        """The message that fits an action."""
        with_block = self.message_with_block or self.message
        return {
            "kick": self.message,
            "require_sign_in": self.message_sign_in or self.message,
            "kick and block": with_block,
            "block": self.message_block or with_block,
        }

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def phrases(store: Store, *, fresh: bool = False) -> dict[str, Phrase]:
    """The phrases by label. Those of the product only, while the team's cannot be read."""
    reading = store.shared(
        ("phrases", language.current()), lambda presence: merged(presence.saved_items("phrase")), keep=KEEP, fresh=fresh
    )  # fmt: skip
    return reading.value or merged(())


def shown_label(label: str, length: int) -> str:
    """The label of a phrase, cut. Those of the product are translated."""
    return literal(cut(texts.PHRASE_LABELS.get(label, label), length))


def merged(items: Iterable[SavedItem]) -> dict[str, Phrase]:
    """The team's phrases in place of those of the product with the same label. One without a reason hides it.

    Labels are in English, the texts of the product in the language of the page.
    """
    found = {
        label: Phrase(*words, *texts.PHRASES_BLOCKED[label], texts.PHRASES_SIGN_IN[label])
        for label, words in texts.PHRASES.items()
    }
    for item in items:
        phrase = _decoded(item)
        if phrase is not None and phrase.reason:
            found[item.name] = phrase
        elif phrase is not None:
            found.pop(item.name, None)
    return found


def _decoded(item: SavedItem) -> Phrase | None:
    try:
        stored = json.loads(item.text)
        phrase = Phrase(**stored)
    except (ValueError, TypeError, RecursionError):
        return None
    return phrase if all(isinstance(words, str) for words in stored.values()) else None


HIDDEN_PHRASE: Final = Phrase("", "")
"""Hides a phrase of the product."""
