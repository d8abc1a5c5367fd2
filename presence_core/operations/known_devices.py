"""The devices that a user has logged in on: digests, so that people who share a browser are not linked."""

from __future__ import annotations

import hmac
from typing import Final

from presence_core import validation as check
from presence_core.keyspace import layout_key
from presence_core.operations.context import Context
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command
from presence_core.scripts.staff import WRITE_AUDIT

SIZE: Final = 16
"""Bytes of a digest."""

OVERLAP: Final = 60_000
"""For so long after a rotation, ms, logins note devices by the key before (include/login/odd_login.lua): other
clients may have that one alone. They read the new one within a few seconds."""


def digests(ctx: Context, uid: str, device_id: str) -> list[str]:
    """The digests of a user's device by each key, hex; that of today first."""
    about = f"{uid}\0{device_id}".encode()
    return [hmac.digest(key, about, "sha256")[:SIZE].hex() for key in ctx.cache.device_keys]


def need_keys(ctx: Context) -> Op[None]:
    """Make the first key of the namespace, or read the one that another client has made. No round trip afterwards."""
    if not ctx.cache.device_keys:
        key = layout_key(ctx.settings.namespace)
        yield [command(key, "HSETNX", key, "device_keys", ctx.new_secret().hex())]
        [(stored,)] = yield [command(key, "HMGET", key, "device_keys")]
        ctx.know_device_keys(stored)


@checked_first
def rotate_device_key(ctx: Context, by: object, reason: object) -> Op[None]:
    actor, why = check.actor(by), check.prose("reason", reason)
    yield CHECKED
    yield from need_keys(ctx)
    key = layout_key(ctx.settings.namespace)
    (seconds, _), (stored,) = yield [command(key, "TIME"), command(key, "HMGET", key, "device_keys")]
    now = int(ctx.now or 1000 * int(seconds))
    ctx.know_device_keys(stored)
    if now < ctx.cache.device_key_at + OVERLAP:  # a second one now would drop the key that all devices are noted by
        return
    changed = b"%s,%s,%d" % (ctx.new_secret().hex().encode(), ctx.cache.device_keys[0], now)
    audit = ctx.keys.shards[0].audit  # first: after the change, a repeated call would not write it
    yield [
        call_of(WRITE_AUDIT, (audit,), given_now=ctx.now, audit_cap=ctx.audit_cap, by=actor,
                action="rotate_device_key", uid="", reason=why, outcome="", facts="", filter="")
    ]  # fmt: skip
    yield [command(key, "HSET", key, "device_keys", changed)]
    ctx.know_device_keys(changed)
