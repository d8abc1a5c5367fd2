"""Errors in the words of support staff. What the library says of them is for engineers: it goes to the log, and what it
says of a server also to the Health page.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Final

from presence_core import InvalidArgument, OutcomeUnknown, PresenceError, Unavailable
from presence_dashboard import texts
from presence_dashboard.format import code
from presence_dashboard.roles import Denied, SignedOut

_log: Final = logging.getLogger(__name__)

Refusal = PresenceError | Denied | SignedOut


def plain(error: Refusal) -> str:
    """One sentence or two for staff, safe for Markdown."""
    if isinstance(error, Denied | SignedOut):
        return code(str(error))  # ours already, and it may name somebody
    if isinstance(error, InvalidArgument):
        for part, sentence in texts.ERROR_FIELD.get(error.field, {}).items():
            if part in error.rule:
                return sentence
    _log_once(f"{type(error).__name__}: {error}")
    if isinstance(error, InvalidArgument):
        return texts.ERROR_VALUE
    if isinstance(error, OutcomeUnknown):
        return texts.ERROR_UNKNOWN
    if isinstance(error, Unavailable):
        return texts.ERROR_SERVER.get(error.code, texts.ERROR_AWAY if error.server else texts.ERROR_NOT_NOW)
    return texts.ERROR_DATA


@lru_cache(maxsize=256)
def _log_once(said: str) -> None:
    """A page that renews itself meets the same error every few seconds."""
    _log.warning("%s", said)
