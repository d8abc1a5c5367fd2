"""Runs an earlier version of the library in a process of its own: one call per line of JSON, one reply per line.

It runs as a script, with the earlier version on PYTHONPATH, so it imports nothing of the tests.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from presence_core import Presence, PresenceError, Settings, Worker


def comparable(value: Any) -> Any:
    """The comparable part of a result: refs of sessions, truth values, numbers and texts."""
    if hasattr(value, "token"):
        return value.token
    if hasattr(value, "ref"):
        return [value.ref, value.name]
    if hasattr(value, "expired"):
        return [value.expired, value.repaired]
    if hasattr(value, "users"):
        return [value.users, value.sessions, dict(sorted(value.totals.items()))]
    if hasattr(value, "items") and not isinstance(value, dict):
        return [comparable(item) for item in value.items]
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    if value is None or isinstance(value, bool | int | str | dict):
        return value
    return value.isoformat() if isinstance(value, datetime) else bool(value)


def work(p: Presence) -> bool:
    """One turn of a worker, in which it led if the answer is True."""
    worker = Worker(p)
    worker._turn()
    if worker.last_error is not None:
        raise worker.last_error
    led = worker.leads
    worker._leave()
    return led


def main() -> None:
    url, namespace, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    with Presence.from_url(url, Settings(namespace=namespace, **settings)) as p:
        print(json.dumps(sys.modules["presence_core"].__file__), flush=True)
        for line in sys.stdin:
            now, method, args, options = json.loads(line)
            p._ctx.now = now
            try:
                said = work(p) if method == "work" else getattr(p, method)(*args, **options)
                answer = {"answer": comparable(said)}
            except PresenceError as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
