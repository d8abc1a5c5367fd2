"""After a revocation of all sessions, before a sweep: each session has one end, and counts stay exact."""

from __future__ import annotations

import pytest

from tests.conftest import Bed, on
from tests.support.facade import P


@on("valkey-async", "cluster-sync", soak=("valkey", "redis7-sync"))
@pytest.mark.parametrize("then", ["sweep", "kick", "kick all", "login", "look"])
def test_a_session_revoked_before_its_deadline_is_kicked_even_if_swept_after_it(bed: Bed, then: str) -> None:
    p = bed.connect(max_sessions=1)
    p.freeze()
    first = p.login("ada", idle_timeout=10)
    p.advance(1)
    p.revoke_before(by="staff", reason="leaked keys", message="Please sign in again.")
    assert _cause(p, first.token) == "revoked"
    p.advance(20)
    assert _cause(p, first.token) == "revoked"
    if then == "sweep":
        p.sweep()
    elif then == "kick":
        p.kick("ada", first.session.session_id, by="staff", reason="late")
    elif then == "kick all":
        p.kick("ada", by="staff", reason="late")
    elif then == "login":
        p.login("ada")
    else:
        p.sessions("ada")
    p.sweep()
    assert _cause(p, first.token) == "revoked"
    totals = p.counts().totals
    assert (totals["kicked"], totals["expired"]) == (1, 0)


@on("valkey-sync")
def test_a_session_revoked_after_its_deadline_has_expired(p: P) -> None:
    p.freeze()
    first = p.login("ada", idle_timeout=10)
    p.advance(20)
    p.revoke_before(by="staff", reason="leaked keys")
    assert _cause(p, first.token) == "idle"
    p.sweep()
    assert _cause(p, first.token) == "idle"
    assert p.counts().totals["expired"] == 1


@on("valkey-async", "cluster-sync", soak=("valkey", "redis7-sync"))
def test_a_session_both_revoked_and_past_its_deadline_ends_once(p: P) -> None:
    p.freeze()
    p.login_many([{"uid": f"u{number}", "idle_timeout": 10, "device": "phone"} for number in range(30)])
    p.login("late", device="phone")
    p.advance(5)
    p.revoke_before(by="staff", reason="leaked keys")
    p.advance(20)
    assert p.sweep(limit=20).expired == 20
    assert p.sweep().expired == 11
    assert p.counts().totals["kicked"] == 31
    assert len(p.events(limit=1000)) == 62
    assert p.facets("device") == {}


@on("valkey-async", "cluster-sync", soak=("valkey", "redis7-sync"))
def test_counts_are_exact_while_revoked_sessions_are_drained(p: P) -> None:
    p.freeze()
    p.login_many([{"uid": f"u{number}"} for number in range(10)])
    p.advance(1)
    p.revoke_before(by="staff", reason="leaked keys")
    p.login_many([{"uid": f"v{number}", "idle_timeout": 10} for number in range(5)])
    p.login("ada")
    p.advance(20)
    counts = p.counts()
    assert (counts.sessions, counts.draining) == (1, True)
    page = p.list_sessions()
    assert (page.total, page.total_is_exact) == (1, True)
    assert [session.uid for session in p.iter_sessions(page_size=2)] == ["ada"]


def _cause(p: P, token: str) -> str:
    ended = p.validate(token, touch=False).ended
    assert ended is not None
    return ended.cause
