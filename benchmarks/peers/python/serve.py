"""The Python side of ``benchmarks/peers/driver.py``: one order per line on stdin, one reply per line on stdout."""

from __future__ import annotations

import json
import platform
import sys
import time
from typing import Any, Final

VERBS: Final = ("load", "login", "read", "count", "users", "page", "sessions", "kick", "expire", "past")

PAGE: Final = 50


def serve(about: str, peer: object) -> None:
    """Carry out orders until stdin ends. The methods of ``peer`` named in VERBS are its verbs; their docstrings say
    how."""
    does = {verb: getattr(peer, verb) for verb in VERBS if hasattr(peer, verb)}
    how = {verb: " ".join((run.__doc__ or "").split()) or None for verb, run in does.items()}
    _say({"about": f"{about}, Python {platform.python_version()}", "how": how})
    for line in sys.stdin:
        order = json.loads(line)
        _say(_obey(does[order["do"]], order["each"]))


def _obey(run: Any, each: list[Any]) -> dict[str, Any]:
    us, answers = [], []
    cpu = time.process_time_ns()
    for given in each:
        begun = time.perf_counter_ns()
        answers.append(run(given))
        us.append((time.perf_counter_ns() - begun) / 1000)
    return {"us": us, "answers": answers, "cpu_us": (time.process_time_ns() - cpu) / 1000}


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def newest(every: list[dict[str, Any]], number: int) -> list[str]:
    """The uids of a page, newest login first, for stores that have to read all sessions for it."""
    every.sort(key=lambda session: float(session["login_at"]), reverse=True)
    return [session["uid"] for session in every[(number - 1) * PAGE : number * PAGE]]
