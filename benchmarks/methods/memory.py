"""How much Redis memory a live session takes, and how much remains after its end."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.data import logins
from benchmarks.measure import Json, Result, Target
from benchmarks.methods.ending import BY, MESSAGE, REASON
from benchmarks.stage import SETTINGS, Stage
from presence_core import Login, Presence

MILLION = 1_000_000
ENDED = 50_000


def memory(stage: Stage) -> Result:
    """Bytes per session: the increase of used_memory by loading, divided by the sessions; by kind of key, from MEMORY
    USAGE."""
    stage.progress("memory")
    before, after = stage.memory
    each = (after - before) / stage.size
    result = Result("memory", " ".join((memory.__doc__ or "").split()))
    result.figures = {"bytes per session": each} | _families(stage)
    result.figures["tables, expiries and the rest"] = each - sum(list(result.figures.values())[1:])
    if stage.size >= MILLION:  # the target holds for a million: hash tables grow by doubling, and lists are capped
        result.targets.append(Target("B per session", 800 if stage.server == "valkey" else 1000, each))
    return result


def _families(stage: Stage) -> Json:
    """Bytes per session of each kind of key."""
    keys, size = stage.keys, stage.size
    sample = [stage.ticket() for _ in range(1000)]
    users = stage.redis.zcard(keys.users)
    records = _mean_usage(stage, [keys.record(ticket.uid, ticket.session_id) for ticket in sample])
    sets = _mean_usage(stage, [keys.user(ticket.uid) for ticket in sample])
    out: Json = {"records": records, "sets of users' sessions": sets * users / size}
    for name in ("sessions", "deadlines", "users", "words", "addresses", "facets", "events", "labels"):
        usage = stage.redis.memory_usage(getattr(keys, name), samples=200) or 0
        out[name] = usage / size
    return out


def _mean_usage(stage: Stage, keys: list[str]) -> float:
    pipe = stage.redis.pipeline(transaction=False)
    for key in keys:
        pipe.memory_usage(key)
    usage: list[int] = [size for size in pipe.execute() if size]
    return sum(usage) / len(usage)


def ended(stage: Stage) -> Result:
    """Bytes that an expired session leaves, without those of its person, on a server of its own; 50,000 expired."""
    stage.progress("ended")
    result = Result("ended", " ".join((ended.__doc__ or "").split()))
    left = left_behind(stage.server)
    result.figures = {"an ended session": left["session"], "an offline person": left["person"]}
    result.targets.append(Target("B per ended session", 300, left["session"]))
    return result


def left_behind(server: str) -> dict[str, int]:
    """Bytes that an expired session leaves, and a person after the last session; without the capped events."""
    left, users = {}, 0
    for kind, keep in (("person", 0), ("session", SETTINGS.keep_expired)):
        settings = replace(SETTINGS, keep_expired=keep, max_events=100)
        with (
            TemporaryDirectory(prefix="bench-") as directory,
            Stage(server, ENDED, Path(directory), quiet=True, settings=settings) as stage,
        ):
            stage.load()
            users = stage.presence.counts().users
            stage.set_clock(int(time.time() * 1000) + 1000 * (SETTINGS.idle_timeout + 3600))
            stage.presence.sweep()
            left[kind] = stage.settled_memory() - stage.memory[0]
    return {"person": round(left["person"] / users), "session": round((left["session"] - left["person"]) / ENDED)}


def tombstones(stage: Stage) -> Result:
    """Bytes that an ended session leaves, by reason, each on a new server: 100,000 expired, 20,000 of the other
    reasons."""
    result = Result("tombstones", " ".join((tombstones.__doc__ or "").split()))
    expired, others = min(stage.size, 100_000), min(stage.size, 20_000)
    for reason in ("expired", "logout", "kicked", "replaced"):
        stage.progress(f"tombstones, {reason}")
        with (
            TemporaryDirectory(prefix="bench-") as directory,
            Stage(stage.server, others, Path(directory), quiet=True) as own,
        ):
            left, records = _ended(own, reason, expired if reason == "expired" else others)
        result.figures[f"{reason}, MB per million"] = left
        result.figures[f"{reason}, of these records"] = records
    return result


def _ended(stage: Stage, reason: str, count: int) -> tuple[float, float]:
    """Bytes per ended session: in all, and of its record. The events are capped by number and not counted."""
    settings = replace(SETTINGS, max_events=100, max_audit=100, max_sessions=1 if reason == "replaced" else 1000)
    presence = Presence(stage.redis, settings)
    empty = stage.settled_memory()
    rows = list(logins(count))
    if reason == "replaced":  # each person logs in twice: one session is replaced, one stays live
        rows = list({row["uid"]: row for row in rows}.values())
        presence.login_many(rows)
        empty = stage.settled_memory()
    answers = presence.login_many(rows)
    if reason == "expired":
        presence.internal.context.now = str(int(time.time() * 1000) + 1000 * (settings.idle_timeout + 60))
        presence.sweep()
    for answer in answers if reason in ("logout", "kicked") else ():
        assert isinstance(answer, Login)
        session = answer.session
        if reason == "logout":
            presence.logout(session.uid, session.session_id)
        else:
            presence.kick(session.uid, session.session_id, by=BY, reason=REASON, message=MESSAGE, ticket="T-12345")
    left = stage.settled_memory() - empty
    refs = stage.redis.zrange(stage.keys.ended, 0, 999)
    records = _mean_usage(stage, [stage.keys.record_prefix + ref.decode() for ref in refs])
    presence.close()
    return left / len(rows), records
