"""What each ``presence mirror`` says about itself, for the dashboard and for the one that is started after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from presence_core.models import MirrorStatus, text
from presence_core.models.mirror import read_status
from presence_core.operations.context import Context
from presence_core.scripts.calls import Op, command, pairs


def report(ctx: Context, name: str, values: Mapping[str, Any]) -> Op[int]:
    """Store what the mirror of this name says. Returns the time of Redis, ms. Two round trips."""
    key = ctx.keys.common.mirror
    [time] = yield [command(key, "TIME")]
    now = _ms(time)
    yield [command(key, "HSET", key, name, json.dumps({**values, "at": now}))]
    return now


def key_ids(ctx: Context) -> Op[dict[str, str]]:
    """By the name of each mirror, which digest key made the ids of its sessions."""
    key = ctx.keys.common.mirror
    [stored] = yield [command(key, "HGETALL", key)]
    found = {}
    for name, raw in pairs(stored):
        try:
            found[text(name)] = str(json.loads(raw)["key"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def mirrors(ctx: Context) -> Op[list[MirrorStatus]]:
    key = ctx.keys.common.mirror
    stored, time = yield [command(key, "HGETALL", key), command(key, "TIME")]
    found = (read_status(name, raw, _ms(time)) for name, raw in sorted(pairs(stored)))
    return [status for status in found if status is not None]


def _ms(time: Any) -> int:
    seconds, micros = time
    return int(seconds) * 1000 + int(micros) // 1000
