"""A user ends their other sessions from one of them: reason "logout", cause "self"."""

from __future__ import annotations

import pytest

from presence_core import InvalidArgument
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P


@every_backend
def test_a_user_ends_their_other_sessions_and_stays_signed_in(p: P) -> None:
    p.freeze()
    desk = p.login("ada", session_id="session-desk", device="desk")
    others = [p.login("ada", session_id=f"session-{number}", device="phone") for number in range(3)]
    bob = p.login("bob")
    p.advance(2)
    ended = p.logout_others("ada", "session-desk")
    assert sorted(session.session_id for session in ended) == ["session-0", "session-1", "session-2"]
    assert p.validate(desk.token)
    assert p.validate(bob.token)
    for other in others:
        seen = p.validate(other.token)
        assert not seen
        assert seen.ended is not None
        end = seen.ended
        assert (end.reason, end.cause, end.by, end.note, end.message) == ("logout", "self", "ada", None, None)
        assert (end.at, end.device) == (p.clock.now, "phone")
    assert {end.cause for end in p.ended("ada")} == {"self"}
    assert [event.kind for event in p.events()][-3:] == ["logout"] * 3
    assert p.counts().totals["logout"] == 3
    assert p.audit().items == [], "staff have done nothing"
    assert p.logout_others("ada", "session-desk") == []


@on("valkey-sync", "redis7-async")
def test_a_user_ends_one_other_session(p: P) -> None:
    desk, phone, tablet = (p.login("ada", session_id=f"session-{name}") for name in ("desk", "phone", "tablet"))
    p.login("bob", session_id="session-bob")
    assert [session.session_id for session in p.logout_others("ada", "session-desk", "session-phone")] == [
        "session-phone"
    ]
    assert [bool(p.validate(login.token)) for login in (desk, phone, tablet)] == [True, False, True]
    [end] = p.ended("ada")
    assert (end.reason, end.cause, end.by) == ("logout", "self", "ada")
    for gone in ("session-phone", "session-bob", "no-such-session"):
        assert p.logout_others("ada", "session-desk", gone) == []
    assert p.is_online("bob")
    [end] = p.ended("ada")
    assert end.session_id == "session-phone", "it ended once"


@on("valkey-sync")
def test_a_session_past_its_deadline_has_expired(p: P) -> None:
    p.login("ada", session_id="session-desk")
    p.login("ada", session_id="session-old", idle_timeout=1)
    p.advance(5)
    assert p.logout_others("ada", "session-desk") == []
    assert [(end.reason, end.cause) for end in p.ended("ada")] == [("expired", "idle")]


@on("valkey-sync")
def test_the_session_that_stays_cannot_be_the_other(bed: Bed) -> None:
    with pytest.raises(InvalidArgument, match="other must not be the session that stays"):
        bed.connect().logout_others("ada", "session-desk", "session-desk")
