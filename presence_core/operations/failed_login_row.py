"""What is kept of a sign-in that fails: how much, how long, and of typed names a digest. include/failures.lua applies
it."""

from __future__ import annotations

import hmac
import re
import struct
from collections.abc import Iterable
from typing import Final

from presence_core.operations.context import Context
from presence_core.schema.failures import FailedName
from presence_core.settings import DAY, Settings
from presence_core.text.addresses import network_of
from presence_core.text.search_text import fold
from presence_core.text.user_agents import families

HOURS_OF_A_DAY: Final = 6
"""An hour may begin a sixth of the rows of a day."""

LEAST_ROWS: Final = 12
"""Rows that an hour may begin in each list of each shard: enough for the addresses of one person."""

NETWORK_ROWS: Final = 50
"""Rows that a network may begin in an hour."""

NETWORKS: Final = 1_000
"""Networks that have a count of their own in an hour."""

LONGEST_NAME: Final = 1_000
"""Characters of a typed text that count."""

_LIMITS: Final = struct.Struct(">5I")
_EMAIL: Final = re.compile(r"\S+@\S+")
_PHONE: Final = re.compile(r"\+?[\d\s().-]{6,24}")


def kept_seconds(settings: Settings) -> int:
    """How long a failure is kept: no longer than addresses are kept whole after the end of a session, but a day."""
    days = settings.truncate_addresses_after
    return min(settings.keep_failed_logins, 365 * DAY if days is None else max(1, days) * DAY)


def packed_failure(
    ctx: Context, address: bytes, place: bytes, app: str, user_agent: str, kind: FailedName | None = None
) -> bytes:
    """What include/failures.lua notes of a failure. address: as records have it, packed.

    Empty if none is to be noted. Half of the rows are for people, half for typed names. Each shard has its share of the
    limits, and never too little for one person.
    """
    settings, shards = ctx.settings, len(ctx.keys.shards)
    if not settings.keep_failed_logins:
        return b""
    day = max(4 * LEAST_ROWS, settings.max_failed_logins // 2 // shards)
    limits = _LIMITS.pack(
        kept_seconds(settings),
        max(LEAST_ROWS, day // HOURS_OF_A_DAY),
        day,
        max(5, NETWORK_ROWS // shards),
        max(16, NETWORKS // shards),
    )
    os, browser = families(user_agent)
    details = "\n".join((kind or "", app, os[:32], browser[:32])).encode()
    return b"%s%s\n%s\n%s\n%s" % (
        limits, address.hex().encode(), network_of(address).hex().encode(), details, place or b"\n\n\n\n"
    )  # fmt: skip


def digests_of_names(keys: Iterable[bytes], names: Iterable[str]) -> set[str]:
    """The digests by which typed texts are kept, by each of these keys (Cache.device_keys)."""
    folded = {b"failed\0" + fold(name[:LONGEST_NAME]).encode("utf-8", "replace") for name in names}
    return {hmac.digest(key, name, "sha256")[:8].hex() for key in keys for name in folded}


def name_kind(name: str) -> FailedName:
    """What a typed text looks like."""
    return "email" if _EMAIL.fullmatch(name) else "phone" if _PHONE.fullmatch(name) else "name"
