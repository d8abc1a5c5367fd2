"""The Python side of ``benchmarks/peers/driver.py``: one order a line on stdin, one answer a line on stdout."""

from __future__ import annotations

import json
import platform
import sys
import time
from typing import Any, Final

VERBS: Final = ("load", "login", "read", "count", "users", "page", "sessions", "kick", "expire", "past")

PAGE: Final = 50


def serve(about: str, peer: object) -> None:
    """Obey until stdin ends. What ``peer`` can do are its methods named by VERBS; their docstrings say how."""
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
    """The uids of a page, by login; how those go about it who have read all the sessions there are."""
    every.sort(key=lambda one: float(one["login_at"]), reverse=True)
    return [one["uid"] for one in every[(number - 1) * PAGE : number * PAGE]]
