"""API keys of the HTTP service. A key is 256 random bits, so its plain SHA-256 is as safe to store as a slow hash."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from presence_core.errors import InvalidArgument
from presence_core.models import ApiKey, moment
from presence_core.operations.context import Context
from presence_core.scripts.calls import CHECKED, Op, checked_first, command, pairs

SCOPES: Final = ("record", "read", "failures", "kick", "admin")

MAX_KEYS: Final = 100
"""Keys of a namespace: the service compares each request with all of them."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@checked_first
def add_key(ctx: Context, name: object, scopes: object, digest: str) -> Op[ApiKey]:
    """Store a key by its digest. The creation time is Redis's."""
    known = _name(name)
    if isinstance(scopes, str | bytes) or not isinstance(scopes, Iterable):
        raise InvalidArgument("scopes", "must be a list of scopes", "wrong_type")
    wanted = set(scopes)
    if not wanted or not wanted <= set(SCOPES):
        raise InvalidArgument("scopes", f"must be some of {', '.join(SCOPES)}", "not_a_choice")
    yield CHECKED
    key = ctx.keys.common.api_keys
    (seconds, _), stored = yield [command(key, "TIME"), command(key, "HLEN", key)]
    if stored >= MAX_KEYS:
        raise InvalidArgument(
            "name", f"cannot be added: the limit of {MAX_KEYS} API keys is reached, remove one first", "list_full"
        )
    created, granted = int(seconds) * 1000, tuple(scope for scope in SCOPES if scope in wanted)
    raw = json.dumps({"digest": digest, "scopes": granted, "created": created})
    [is_new] = yield [command(key, "HSETNX", key, known, raw, repeatable=False)]
    if not is_new:
        raise InvalidArgument("name", "must be new: a key has this name", "exists")
    return ApiKey(known, granted, moment(created), digest)


def keys(ctx: Context) -> Op[list[ApiKey]]:
    key = ctx.keys.common.api_keys
    [reply] = yield [command(key, "HGETALL", key)]
    found = (ApiKey.from_reply(name, raw) for name, raw in pairs(reply))
    return sorted((api_key for api_key in found if api_key), key=lambda api_key: api_key.name)


@checked_first
def remove_key(ctx: Context, name: object) -> Op[bool]:
    known = _name(name)
    yield CHECKED
    key = ctx.keys.common.api_keys
    # Sent again, it would deny that there was a key.
    [removed] = yield [command(key, "HDEL", key, known, repeatable=False)]
    return bool(removed)


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgument("name", "must be 1 to 64 characters of A-Z, a-z, 0-9, ., _, @ and -", "malformed")
    return value
