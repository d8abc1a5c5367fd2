"""Requests of a site: may this one pass, and was this session seen."""

from __future__ import annotations

import contextlib
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from presence_core import settings as check
from presence_core.errors import InvalidArgument, LoginRefused, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import NO_LABELS, Block, Ended, Login, Session, Validation
from presence_core.operations.context import DIRTY, ENDED, LIVE, Context, label_texts, read_notes, with_end
from presence_core.operations.holding import answered, asking, hold_secret, rotation
from presence_core.operations.upkeep import heal, heal_all
from presence_core.scripts import BLOCKED, HEARTBEAT, VALIDATE, Op, run

BATCH = 200
"""Refs in one heartbeat script: 2 to 6 ms of the server's time at a million sessions."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_SECRET = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")  # 256 bits in their one spelling
_DECOY = ("malformed", "malformed-token-0000", sha256(b"").digest()[:16])


def make_token(uid: str, session_id: str, secret: bytes) -> str:
    """b64url(uid) . session_id . secret"""
    return f"{_b64(uid.encode())}.{session_id}.{_b64(secret)}"


def secret_digest(secret: bytes) -> bytes:
    """The first 128 bits of the secret's SHA-256: all that is ever stored of it."""
    return sha256(secret).digest()[:16]


def _b64(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def _unb64(text: str) -> bytes:
    return a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), strict_mode=True)


def _parse_token(token: object) -> tuple[str, str, bytes]:
    """uid, session id, digest. A malformed token becomes one that nobody holds, so that it costs the same look-up."""
    if not isinstance(token, str) or len(token) > 1024:
        return _DECOY
    try:
        owner, session_id, secret = token.split(".")
        uid = check.uid(_unb64(owner).decode())
        check.session_id(session_id)
        if not _SECRET.fullmatch(secret) or _b64(uid.encode()) != owner:
            return _DECOY
        return uid, session_id, secret_digest(_unb64(secret))
    except ValueError:
        return _DECOY


def validate(ctx: Context, token: object, touch: bool, ip: object) -> Op[Validation]:
    if token is None:
        raise InvalidArgument("token", "must be text")
    return _validate(ctx, *_parse_token(token), touch, check.address(ip))


def validate_session(ctx: Context, uid: object, session_id: object, touch: bool, ip: object) -> Op[Validation]:
    return _validate(ctx, check.uid(uid), check.session_id(session_id), b"", touch, check.address(ip))


def _validate(ctx: Context, uid: str, sid: str, digest: bytes, touch: bool, ip: bytes) -> Op[Validation]:
    s = ctx.shard(uid)
    keys = (s.sessions, s.deadlines, s.users, s.closing, s.meta, f"{s.record_prefix}{uid}:{sid}")
    [reply] = yield [run(VALIDATE, keys, ctx.now, uid, sid, digest, "1" if touch else "0", ip)]
    state = reply[0]
    if state == LIVE:
        row, labels = reply[1], (yield from label_texts(ctx, [(s, reply[1])]))[s]
        return Validation(True, lambda: Session.from_reply(uid, sid, row, labels))
    if state == ENDED:
        row, labels = with_end(reply[1], reply[2]), (yield from label_texts(ctx, [(s, reply[1])]))[s]
        kicked = row[8] == b"kicked"
        look = [run(BLOCKED, (s.block(uid),), ctx.now, "lenient")] if kicked else []
        notes, blocks = yield from read_notes(s, [row], *look)
        if len(reply) > 3:  # what its holder is told is final
            yield from heal(ctx, s, [(uid, sid)])
        block = next((Block.from_reply(uid, held).public for [(state, held)] in blocks if state == 1), None)
        return Validation(False, lambda: replace(Ended.from_reply(uid, sid, row, labels, notes), block=block))
    if state == DIRTY:
        yield from heal(ctx, s, [(uid, sid)])
    return Validation(False, None)


def rotate(ctx: Context, token: object) -> Op[Login]:
    uid, sid, digest = _parse_token(token)
    secret = ctx.new_secret()

    def steps() -> Op[Login]:
        s, new = ctx.shard(uid), secret_digest(secret)
        reply, *more = yield [rotation(ctx, s, uid, sid, digest, new), *asking(ctx, [s])]
        if len(reply) > 2:
            yield from heal(ctx, s, [(uid, sid)])
        if reply[0] != LIVE:
            raise LoginRefused("ended", "This token opens no live session: it has ended, or its secret was changed.")
        hold_secret(ctx, answered(ctx, [s], more), uid, sid, digest, new)
        labels = NO_LABELS
        with contextlib.suppress(Unavailable):  # the old secret is gone: nothing may keep the new one from its holder
            labels = (yield from label_texts(ctx, [(s, reply[1])]))[s]
        return Login(lambda: Session.from_reply(uid, sid, reply[1], labels), make_token(uid, sid, secret), [])

    return steps()


def heartbeat(ctx: Context, uid: object, session_id: object) -> Op[bool]:
    pair = check.uid(uid), check.session_id(session_id)

    def steps() -> Op[bool]:
        gone = yield from _heartbeats(ctx, [pair])
        return not gone

    return steps()


def heartbeats(ctx: Context, refs: Iterable[object]) -> Op[list[str]]:
    if isinstance(refs, str | bytes) or not isinstance(refs, Iterable):
        raise InvalidArgument("refs", "must be a list of refs")
    return _heartbeats(ctx, [check.ref(ref) for ref in refs])


def _heartbeats(ctx: Context, pairs: list[tuple[str, str]]) -> Op[list[str]]:
    groups: dict[Shard, list[tuple[str, str]]] = {}
    for pair in pairs:
        groups.setdefault(ctx.shard(pair[0]), []).append(pair)
    parts = [
        (shard, group[first : first + BATCH])
        for shard, group in groups.items()
        for first in range(0, len(group), BATCH)
    ]
    calls = []
    for s, part in parts:
        args: list[Any] = [ctx.now]
        keys = [s.sessions, s.deadlines, s.users, s.meta]
        prefix = s.record_prefix
        for uid, sid in part:
            keys.append(f"{prefix}{uid}:{sid}")
            args += (uid, sid)
        calls.append(run(HEARTBEAT, keys, *args))
    if not calls:
        return []
    replies = yield calls
    gone = [(s, part[abs(at) - 1], at) for (s, part), places in zip(parts, replies, strict=True) for at in places]
    yield from heal_all(ctx, ((s, pair) for s, pair, at in gone if at < 0))
    return [f"{uid}:{sid}" for _, (uid, sid), _ in gone]
