"""Library errors as sentences for support staff.

The library's own messages are for engineers: they go to the log, and those about a server also to the Health page.
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

REFUSALS: Final = (PresenceError, Denied, SignedOut)
"""What an action raises if it was refused or could not be done. ``plain`` says it to staff."""


def plain(error: PresenceError | Denied | SignedOut, *, advise: bool = True) -> str:
    """One or two sentences for staff, safe for Markdown. Logs what staff cannot fix.

    advise: say when to try again.
    """
    if isinstance(error, Denied | SignedOut):
        return code(str(error))  # already a sentence of ours; may contain a name
    if isinstance(error, InvalidArgument):
        sentences = texts.ERROR_FIELD.get(error.field, {})
        sentence = sentences.get(error.code) or sentences.get("")
        if sentence is not None:
            return sentence
    _log_once(f"{type(error).__name__}: {error}")
    if isinstance(error, InvalidArgument):
        return texts.ERROR_VALUE
    if isinstance(error, OutcomeUnknown):
        return texts.ERROR_UNKNOWN
    if isinstance(error, Unavailable):
        sentence = texts.ERROR_SERVER.get(error.code, texts.ERROR_AWAY if error.server else texts.ERROR_NOT_NOW)
        return f"{sentence} {texts.TRY_LATER}" if advise and error.code not in texts.ERROR_LASTING else sentence
    return texts.ERROR_DATA


@lru_cache(maxsize=256)
def _log_once(message: str) -> None:
    """Log each message once: a page that refreshes meets the same error every few seconds."""
    _log.warning("%s", message)
