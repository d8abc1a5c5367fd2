"""Sessions of Django in a cache. Reads commands: "in USER", "who KEY", "out KEY", "late KEY" (a request in flight that
began with "load KEY"). Answers with a line.

    python django_sessions.py URL django.core.cache.backends.redis.RedisCache|django_redis.cache.RedisCache [engine]
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from django.conf import settings

url, backend, engine = sys.argv[1:4]
settings.configure(
    CACHES={"default": {"BACKEND": backend, "LOCATION": url}},
    SESSION_ENGINE=f"django.contrib.sessions.backends.{engine}",
    SECRET_KEY="test",
)
SessionStore: Any = import_module(settings.SESSION_ENGINE).SessionStore
loaded: dict[str, Any] = {}


def act(word: str, value: str) -> str:
    if word == "in":
        session = SessionStore()
        session["_auth_user_id"], session["name"] = value, f"User {value}"
        session.create()
        return str(session.session_key)
    if word == "late":
        loaded[value]["seen"] = True
        try:
            loaded[value].save()
        except Exception as error:
            return type(error).__name__
        return "saved"
    session = SessionStore(value)
    if word == "load":
        loaded[value] = session
    if word == "out":
        session.flush()
    return str(session.get("_auth_user_id", "-"))


print("ready", flush=True)
for line in sys.stdin:
    print(act(*line.split()), flush=True)
