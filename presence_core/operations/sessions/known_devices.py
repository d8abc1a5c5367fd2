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


def digests(ctx: Context, uid: str, device_id: str) -> list[str]:
    """The digests of a user's device by each key, hex; that of today first."""
    about = f"{uid}\0{device_id}".encode()
    return [hmac.digest(key, about, "sha256")[:SIZE].hex() for key in ctx.device_keys]


def need_keys(ctx: Context) -> Op[None]:
    """Make the first key of the namespace, or read the one that another client has made. No round trip afterwards."""
    if not ctx.device_keys:
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
    [(stored,)] = yield [command(key, "HMGET", key, "device_keys")]
    ctx.know_device_keys(b",".join([ctx.new_secret().hex().encode(), *(stored or b"").split(b",")[:1]]))
    yield [command(key, "HSET", key, "device_keys", b",".join(ctx.device_keys))]
    audit = ctx.keys.shards[0].audit
    yield [call_of(WRITE_AUDIT, (audit,), ctx.now, ctx.audit_cap, actor, "rotate_device_key", "", why, "")]
