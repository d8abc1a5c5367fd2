"""Conditions for every key once no call is in progress, no matter how many servers have died."""

from __future__ import annotations

import time
from typing import Any

from presence_core import Presence


def agrees(presence: Presence, raw: Any) -> int:
    """Every session is in all of its lists and no list has other entries; returns the number of sessions."""
    total = half = 0
    for s in presence.internal.context.keys.shards:
        refs = set(raw.zrange(s.sessions, 0, -1))
        assert refs == set(raw.zrange(s.deadlines, 0, -1))
        users: dict[str, set[str]] = {}
        for ref in refs:
            uid, _, sid = ref.rpartition(":")
            users.setdefault(uid, set()).add(sid)
            record = s.record(uid, sid)
            assert raw.hexists(record, "c")
            assert not raw.hexists(record, "e")
        assert set(raw.zrange(s.users, 0, -1)) == users.keys()
        assert all(raw.smembers(s.user(uid)) == sids for uid, sids in users.items())
        total += len(refs)
        half += raw.hlen(s.closing)  # ended, and the repeated call was refused before it removed them from the facets
    assert presence.counts().sessions == total
    assert presence.facets("device") == {"phone": total + half}
    if half:
        presence.sweep()
        assert presence.facets("device") == {"phone": total}
    return total


def comes_to_agree(presence: Presence, raw: Any) -> int:
    """The same, after a busy server has run the calls that its callers had given up."""
    until = time.monotonic() + 20
    while True:
        try:
            return agrees(presence, raw)
        except AssertionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
