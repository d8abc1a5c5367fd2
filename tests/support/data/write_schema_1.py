"""Writes schema-1.jsonl, the data of a site as an earlier commit wrote them. It is run with that commit's code:

    mkdir /tmp/earlier && git archive 3b37f3f | tar x -C /tmp/earlier
    redis-server --port 7777 --save "" &
    export PYTHONPATH=/tmp/earlier
    python tests/support/data/write_schema_1.py redis://127.0.0.1:7777 > tests/support/data/schema-1.jsonl

3b37f3f is the last commit before there were staff records, `forget`, confirmed kicks and shards that are evenly spaced.
The first line is what the site knows: the time (ms), and the tokens that it has handed out. Then each line is one
command that makes a key as it was, in Latin-1, so that every byte is itself. The namespace is `earlier`, of one shard.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import redis

from presence_core import Presence, SessionFilter, Settings
from presence_core.operations.layout import SCHEMA
from presence_core.operations.maintenance import history

NOW = 2_524_608_000_000
"""2050, so that data that are kept until some time later still exist when the test runs."""

WHY: dict[str, Any] = {"by": "robin", "reason": "Shared account", "message": "Please sign in again.", "ticket": "T-7"}


def live(p: Presence) -> dict[str, str]:
    """Write users in every state that the schema knows; returns the tokens."""
    clock = NOW
    tokens: dict[str, str] = {}

    def pass_by(seconds: float) -> None:
        nonlocal clock
        clock += round(seconds * 1000)
        p._ctx.now = str(clock)

    def login(as_: str, uid: str, **given: Any) -> None:
        tokens[as_] = p.login(uid, **given).token
        pass_by(0.5)

    pass_by(0)
    ada: dict[str, Any] = {"name": "Ada Lovelace", "aliases": ["ada@example.org"], "ip": "192.0.2.7", "app": "shop",
                           "app_version": "2.1", "attributes": {"tenant": "navy"}}  # fmt: skip
    agent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:132.0) Gecko/20100101 Firefox/132.0"
    login("phone", "ada", device="phone", user_agent=agent, **ada)
    login("desk", "ada", device="desk", session_id="own-session-of-ada", **ada)
    p.validate(tokens["phone"], ip="198.51.100.9")
    for number in range(3):
        login(f"grace {number}", "grace", name="Grace Hopper", device=f"desk {number}", ip="2001:db8::1")
    login("left", "emeka:okafor", name="Emeka Okafor", ip="203.0.113.5")
    p.logout("emeka:okafor", tokens["left"].split(".")[1])
    login("kicked", "mallory", name="Mallory", device="phone")
    p.kick("mallory", **WHY)
    login("expired", "quinn", name="Quinn", idle_timeout=1)
    pass_by(5)
    p.sweep()
    login("due", "late", name="Late", idle_timeout=1)  # past its deadline, and not yet swept
    p.block("mallory", **WHY)
    p.block("sam", by="robin", reason="Chargeback", duration=86_400)
    p.denied(by="eve", what="kick", uid="ada", reason="role viewer")
    p.kick_where(SessionFilter(device="desk 1"), expected=1, **WHY)
    job = p.start_kick(SessionFilter(device="desk 2"), expected=1, **WHY)
    p.pause_job(job.id, by="robin")
    for _ in range(3):
        pass_by(10)
        p._run(history.sample(p._ctx, clock))
    p.heartbeats(["ada:own-session-of-ada"])
    return tokens | {"now": str(clock), "job": job.id}


def commands(client: Any) -> list[list[Any]]:
    """The commands that write every key again."""
    found: list[list[Any]] = []
    for key in sorted(client.scan_iter()):
        kind = client.type(key)
        if kind == b"hash":
            found.append([b"HSET", key, *(part for pair in sorted(client.hgetall(key).items()) for part in pair)])
        elif kind == b"set":
            found.append([b"SADD", key, *sorted(client.smembers(key))])
        elif kind == b"string":
            found += written(key, client.get(key) or b"")
        elif kind == b"zset":
            pairs = client.zrange(key, 0, -1, withscores=True)
            found.append([b"ZADD", key, *(part for member, score in pairs for part in (b"%.0f" % score, member))])
        else:
            for at, entry in client.xrange(key):
                found.append([b"XADD", key, at, *(part for pair in entry.items() for part in pair)])
        until, left = client.execute_command("PEXPIRETIME", key), client.ttl(key)
        if until > NOW:
            found.append([b"PEXPIREAT", key, b"%d" % until])
        elif until > 0:  # the command got a duration, and not a time
            found.append([b"EXPIRE", key, b"%d" % (left // 3600 * 3600)])
    return found


def written(key: bytes, value: bytes) -> list[list[Any]]:
    """A text as it is; of one that is nearly all zeros, the positions of the other bytes."""
    if len(value) < 1000:
        return [[b"SET", key, value]]
    parts = [(match.start(), match[0]) for match in re.finditer(rb"[^\0](?:\0{0,60}[^\0])*", value)]
    return [[b"SETRANGE", key, b"%d" % at, part] for at, part in [*parts, (len(value) - 1, value[-1:])]]


def main() -> None:
    url = sys.argv[1]
    settings = Settings(namespace="earlier", idle_timeout=7 * 86_400, absolute_timeout=30 * 86_400, facets=("tenant",))
    with Presence.from_url(url, settings) as p:
        print(json.dumps({"schema": SCHEMA, **live(p)}))
    for words in commands(redis.Redis.from_url(url, protocol=2)):
        print(json.dumps([word.decode("latin-1") for word in words]))


if __name__ == "__main__":
    main()
