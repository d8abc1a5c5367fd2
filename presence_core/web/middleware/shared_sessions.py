"""Mode ``adopt``: clients that keep no cookie share a session, one for each user and kind of client.

A script, or a client with Basic authentication, does not send back the cookie that ``adopt`` sets: each of its requests
would begin a session. Its session is found by an id instead, that begins with a digest of the user and the kind of
client, and continues with a digest of the id before. So all processes of a site begin the same one, and nothing is
stored for it. The id opens nothing: it is asked for only after the site itself has named the user.
"""

from __future__ import annotations

import json
import threading
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from presence_core.fork_safety import renew_in_child
from presence_core.models import Ended, Page, Session
from presence_core.text.user_agents import families
from presence_core.web.middleware.request_data import RequestData
from presence_core.web.rules import Visitor

KICK_HOLDS: Final = 60.0
"""Seconds for which a kick of a shared session refuses such clients. They name their user in every request, so the next
one after that is a new sign-in; a block keeps the user out."""

MAX_TRIES: Final = 4
"""Ids that are tried, the last one at random: while no worker runs, sessions end without a tombstone."""


class SharedSessions:
    """The ids of shared sessions that this process knows: at most ``max_known``. Safe to share between threads."""

    def __init__(self, max_known: int) -> None:
        self._max_known = max_known
        self._ids: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._reset_lock()
        renew_in_child(self, SharedSessions._reset_lock)

    def _reset_lock(self) -> None:
        """In a forked child the parent's lock may be held by a thread that the child does not have."""
        self._lock = threading.Lock()

    def get(self, uid: str, prefix: str) -> str | None:
        """The id of the session that was live here last."""
        return self._ids.get((uid, prefix))

    def note(self, uid: str, prefix: str, session_id: str | None) -> None:
        """Remember the session; None: it has ended."""
        with self._lock:
            self._ids.pop((uid, prefix), None)
            if session_id is not None:
                self._ids[uid, prefix] = session_id
                if len(self._ids) > self._max_known:
                    self._ids.popitem(last=False)


def prefix_of(request: RequestData, visitor: Visitor) -> str | None:
    """How the ids of the sessions begin that the visitor's client shares; None for a client that has its own.

    Browsers have their own, by cookie; but not if they send an Authorization header, as with Basic authentication.
    """
    agent = request.user_agent or ""
    is_browser = agent.startswith("Mozilla/") and not request.authorization
    if is_browser or visitor.session_id is not None or visitor.login.get("on_behalf_by") is not None:
        return None
    kind = [visitor.uid, *(str(visitor.login.get(name)) for name in ("app", "device")), *families(agent)]
    if not kind[-1]:  # the parser does not know it: the name of the program, without its version
        kind[-1] = agent.partition(" ")[0].partition("/")[0].lower()
    return f"shared-{_digest(json.dumps(kind))[:11]}-"


def next_id(prefix: str, before: str) -> str:
    """The id that follows ``before``, or the first one if that is empty: all processes make the same one."""
    return prefix + _digest(prefix + before)[:22]


def live_id(sessions: Iterable[Session], prefix: str) -> str | None:
    """The shared session among a user's live ones; the oldest, if there are several."""
    return next((each.session_id for each in reversed(list(sessions)) if each.session_id.startswith(prefix)), None)


def last_end(ended: Page[Ended], prefix: str) -> Ended | None:
    """The latest end of a shared session."""
    return next((end for end in ended.items if end.session_id.startswith(prefix)), None)


def is_held(end: Ended, ended: Page[Ended]) -> bool:
    """Whether a kick still refuses the clients that shared this session."""
    return end.reason == "kicked" and (ended.as_of - end.at).total_seconds() < KICK_HOLDS


def _digest(text: str) -> str:
    return urlsafe_b64encode(sha256(text.encode("utf-8", "surrogateescape")).digest()).decode()
