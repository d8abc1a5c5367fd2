"""Learn when given sessions end: for open connections, and for ``when_ended``.

``watched_sessions.py`` decides what to ask Redis, ``runners.py`` asks it, in a thread or in a task. A client has one of
these, shared by all that wait.
"""

from __future__ import annotations

from presence_core.end_watch.runners import EndWatchTask, EndWatchThread
from presence_core.end_watch.watched_sessions import Watch

__all__ = ["EndWatchTask", "EndWatchThread", "Watch"]
