"""Who may call the HTTP service. A key is 256 random bits, so its plain SHA-256 is as good a lock as a slow one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from presence_core.errors import InvalidArgument
from presence_core.models import ApiKey, moment
from presence_core.operations.context import Context, pairs
from presence_core.scripts import Call, Op, command

SCOPES: Final = ("record", "read", "kick")

MOST: Final = 100
"""Keys of a namespace: each request is compared with all of them."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def add_key(ctx: Context, name: object, scopes: object, digest: str) -> Op[ApiKey]:
    """Let whoever holds the key of this digest call the service. The clock is Redis's."""
    known = _name(name)
    if isinstance(scopes, str | bytes) or not isinstance(scopes, Iterable):
        raise InvalidArgument("scopes", "must be a list of scopes")
    wanted = set(scopes)
    if not wanted or not wanted <= set(SCOPES):
        raise InvalidArgument("scopes", f"must be some of {', '.join(SCOPES)}")

    def steps() -> Op[ApiKey]:
        key = ctx.keys.common.api_keys
        (seconds, _), many = yield [command(key, "TIME"), command(key, "HLEN", key)]
        if many >= MOST:
            raise InvalidArgument("name", f"must not be one more than {MOST}: remove a key first")
        made = ApiKey(known, tuple(one for one in SCOPES if one in wanted), moment(int(seconds) * 1000), digest)
        raw = json.dumps({"digest": digest, "scopes": made.scopes, "created": int(seconds) * 1000})
        [is_new] = yield [Call(key, ("HSETNX", key, known, raw), False)]
        if not is_new:
            raise InvalidArgument("name", "must be new: there is a key of this name")
        return made

    return steps()


def keys(ctx: Context) -> Op[list[ApiKey]]:
    """All keys by name."""
    key = ctx.keys.common.api_keys
    [reply] = yield [command(key, "HGETALL", key)]
    found = (ApiKey.from_reply(name, raw) for name, raw in pairs(reply))
    return sorted((one for one in found if one), key=lambda one: one.name)


def remove_key(ctx: Context, name: object) -> Op[bool]:
    """Close a key. False: there was none of this name."""
    known = _name(name)

    def steps() -> Op[bool]:
        key = ctx.keys.common.api_keys
        [gone] = yield [command(key, "HDEL", key, known)]
        return bool(gone)

    return steps()


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgument("name", "must be 1 to 64 characters of A-Z, a-z, 0-9, ., _, @ and -")
    return value
