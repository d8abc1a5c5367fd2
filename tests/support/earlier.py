"""Runs an earlier version of the library, beside ours: one call a line of JSON comes in, its answer goes out. It is run
as a script, with the earlier version on PYTHONPATH, so it imports nothing of the tests."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

from presence_core import Presence, PresenceError, Settings


def told(value: Any) -> Any:
    """What of an answer is compared: refs of sessions, the truth of what has a truth, numbers and texts."""
    if hasattr(value, "token"):
        return value.token
    if hasattr(value, "ref"):
        return [value.ref, value.name]
    if hasattr(value, "expired"):
        return [value.expired, value.repaired]
    if hasattr(value, "users"):
        return [value.users, value.sessions, dict(sorted(value.totals.items()))]
    if hasattr(value, "items") and not isinstance(value, dict):
        return [told(one) for one in value.items]
    if isinstance(value, list | tuple):
        return [told(one) for one in value]
    if value is None or isinstance(value, bool | int | str | dict):
        return value
    return value.isoformat() if isinstance(value, datetime) else bool(value)


def main() -> None:
    url, namespace, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    with Presence.from_url(url, Settings(namespace=namespace, **settings)) as p:
        print(json.dumps(sys.modules["presence_core"].__file__), flush=True)
        for line in sys.stdin:
            now, method, args, options = json.loads(line)
            p._ctx.now = now
            try:
                answer = {"answer": told(getattr(p, method)(*args, **options))}
            except PresenceError as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
