"""The keys of a namespace after a fixed sequence of calls: their names, types, fields and values."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from presence_core import InvalidArgument, LoginRefused, SessionFilter
from tests.support.facade import P

NAMESPACE: Final = "golden"
SETTINGS: Final[dict[str, Any]] = {
    "namespace": NAMESPACE, "max_sessions": 3, "max_sessions_per_device": 2, "facets": ("plan",), "rotate_grace": 30,
    "keep_sign_ins": 30,
}  # fmt: skip
"""Of the client that makes the calls."""

BEGIN: Final = 4_000_000_000_000  # ahead of the clock of Redis, which removes what is past its time to live
PLACES: Final = {
    b"\xc0\0\x02\x01": b"DE\n64500\nExample Net\n52,13\nBerlin",
    b"\xc0\0\x02\x02": b"AU\n64501\nSample Net\n-34,151\nSydney",
}
CLIENT: Final[dict[str, Any]] = {
    "device": "iPhone", "app": "shop", "app_version": "1.2", "user_agent": "Mozilla/5.0 (X11; Linux) Firefox/140.0",
}  # fmt: skip


def lines(p: P, raw: Any) -> list[str]:
    """Make the calls. A line for each key, and below it one for each field, member or entry; then what a sweep
    changes."""
    play(p)
    before = list(_keys(raw))
    p.advance(1900)
    p.sweep()
    return [*before, "", *difflib.unified_diff(before, list(_keys(raw)), "before", "after the sweep", lineterm="", n=0)]


def play(p: P) -> None:
    """The calls. Ids and secrets that are random otherwise are counted."""
    ids, secrets = itertools.count(1), itertools.count(1)
    p.context.new_id = lambda: f"id{next(ids):020}"
    p.context.new_secret = lambda: next(secrets).to_bytes(32, "big")
    p.context.random = lambda: 0
    p.context.place_of = lambda packed: PLACES.get(packed, b"")
    p.set_now(BEGIN)
    _log_in(p)
    _use(p)
    _end(p)
    _act(p)
    _rotate(p)
    _fail(p)


def _log_in(p: P) -> None:
    for number, device_id in enumerate(("device-1", "device-1", "device-2", "device-1")):
        p.advance(1)
        p.login(
            "ada", name="Ada Lovelace", aliases=["ada@example.com"], ip=f"192.0.2.{1 + number % 2}",
            attributes={"plan": "gold"}, device_id=device_id, methods=["pwd", "otp"], mfa=True,
            session_id=f"ada-session-{number}", **CLIENT,
        )  # fmt: skip
    p.login("ada", on_behalf_by="root@example.com", reason="a test", session_id="behalf-ada-1")
    rows = [
        {"uid": f"user-{n}", "session_id": f"session-{n}", "ip": "192.0.2.1", "name": f"Name {n}"} for n in range(6)
    ]
    p.login_many(rows)
    p.login_many(
        [{"uid": "old", "session_id": "session-old", "login_at": p.clock.now - timedelta(minutes=5)}], imported=True
    )


def _use(p: P) -> None:
    p.advance(60)
    token = p.login("eve", session_id="eve-session", ip="2001:db8::1", idle_timeout=7200, **CLIENT).token
    p.advance(1)
    assert p.validate(token, ip="2001:db8::2")
    assert p.update(token, attributes={"plan": "free", "note": "x"})
    token = p.rotate(token).token
    assert p.require_sign_in("user-0", by="root@example.com", reason="a test", message="Please sign in again.")
    p.change_timeouts("user-0", idle_timeout=600, by="root@example.com", reason="a test")
    p.change_timeouts_where(
        SessionFilter(uid="user-0"), idle_timeout=300, expected=1, by="root@example.com", reason="a test"
    )
    p.reauthenticated(token, methods=["hwk"])
    assert p.heartbeats(["user-1:session-1", "user-2:gone-session"]) == ["user-2:gone-session"]


def _end(p: P) -> None:
    p.advance(1)
    assert p.logout("user-1", "session-1")
    p.kick("user-2", by="root@example.com", reason="a test", ticket="T-1", message="Ended.", block_for=3600)
    p.kick("ada", "ada-session-3", by="root@example.com", reason="a test")
    p.kick_where(SessionFilter(uid="user-3"), by="root@example.com", reason="a test", expected=1)
    p.revoke_before(datetime.fromtimestamp(BEGIN / 1000 - 3600, UTC), by="root@example.com", reason="a test")


def _act(p: P) -> None:
    by: dict[str, Any] = {"by": "root@example.com", "reason": "a test"}
    p.advance(1)
    p.block("mallory", message="Blocked.", **by)
    p.block("user-4", duration=600, **by)
    p.unblock("user-4", **by)
    p.set_staff("root@example.com", "admin", by="root@example.com")
    p.denied(by="viewer@example.com", what="kick", uid="ada", reason="a test")
    for refused in ("mallory", "user-2"):
        try:
            p.login(refused)
        except (LoginRefused, InvalidArgument):
            continue
        raise AssertionError(f"{refused} is blocked")


def _rotate(p: P) -> None:
    old, now = p.login("tabs", session_id="session-of-tabs").token, p.clock.ms
    p.set_now(now - 30_000)
    p.rotate(p.rotate(old).token)
    p.rotate(old)
    p.set_now(now)
    assert not p.validate(old)


def _fail(p: P) -> None:
    """Secrets are counted, so the digest of a typed name is the same each time."""
    for who, is_uid in (("ada", False), ("kim@example.com", False), ("dormant", True)):
        p.login_failed(who, why="wrong_password", is_uid=is_uid, ip="192.0.2.1", app="shop")


def _keys(raw: Any) -> Iterator[str]:
    for key in sorted(raw.scan_iter(match=f"{{{NAMESPACE}*", count=5000)):
        kind = raw.type(key).decode()
        yield f"{_shown(key)} {kind}{' expires' if raw.ttl(key) > 0 else ''}"
        yield from (f"  {line}" for line in sorted(_READ[kind](raw, key)))


def _of_hash(raw: Any, key: bytes) -> Iterator[str]:
    for field, value in raw.hgetall(key).items():
        yield f"{_shown(field)} = {'…' if (key, field) == _OF_THE_CLOCK else _shown(value)}"


_OF_THE_CLOCK: Final = (b"{%s}:layout" % NAMESPACE.encode(), b"born")


def _of_stream(raw: Any, key: bytes) -> Iterator[str]:
    for place, (_, fields) in enumerate(raw.xrange(key)):  # the ids are of the server's clock
        yield f"{place:02} {' '.join(f'{_shown(name)}={_shown(value)}' for name, value in fields.items())}"


_READ: Final[dict[str, Any]] = {
    "hash": _of_hash,
    "zset": lambda raw, key: (f"{at:.0f} {_shown(member)}" for member, at in raw.zrange(key, 0, -1, withscores=True)),
    "set": lambda raw, key: map(_shown, raw.smembers(key)),
    "stream": _of_stream,
    "string": lambda raw, key: [_shown(raw.get(key))],
}  # fmt: skip


def _shown(value: bytes) -> str:
    """Bytes as ASCII text."""
    return repr(value)[2:-1]
