"""The identity provider sets the end of a session: nothing moves it, and the cause of the end says so."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from presence_core import Ended, LoginRefused, Session, SessionFilter
from tests.conftest import Bed, every_backend, every_topology
from tests.support.facade import P

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "shared device"}


def _end(p: P, token: str) -> Ended:
    ended = p.validate(token).ended
    assert ended is not None
    return ended


@every_backend
def test_a_session_ends_when_its_provider_says_with_any_timeouts(p: P, raw: Any) -> None:
    now = p.freeze()
    at = datetime.fromtimestamp(now // 1000 + 601, UTC)
    given: dict[str, Any] = {"idle_timeout": 86_400, "absolute_timeout": 30 * 86_400, "expires_at": at}
    login = p.login("ada", session_id="session-1", **given)
    first = login.session
    assert first.idp_expires_at == at
    assert timedelta() <= at - first.expires_at < timedelta(seconds=1), "timeouts are whole seconds"
    assert first == p.get("ada", "session-1") == p.validate(login.token, touch=False).session
    for _ in range(5):
        p.advance(100)
        assert p.heartbeat("ada", "session-1")
        assert p.validate(login.token)
        changes: list[dict[str, Any]] = [{"absolute_timeout": 90 * 86_400}, {"idle_timeout": 90 * 86_400}]
        for change in changes:
            [changed] = p.change_timeouts("ada", "session-1", **change, **BY)
            assert (changed.expires_at, changed.idp_expires_at) == (first.expires_at, at)
    again = p.login("ada", session_id="session-1", expires_at=at + timedelta(days=1))
    assert (again.session.expires_at, again.session.idp_expires_at) == (first.expires_at, at)
    p.set_now(round(first.expires_at.timestamp() * 1000) - 1)
    assert p.validate(again.token)
    p.advance(0.001)
    assert not p.validate(again.token)
    p.sweep()
    ended = _end(p, again.token)
    assert (ended.reason, ended.cause, ended.at, ended.idp_expires_at) == ("expired", "idp", first.expires_at, at)
    assert p.counts().totals["expired"] == 1
    assert p.repair().repaired == 0


@pytest.mark.parametrize("sweeping", [True, False])
def test_the_cause_is_the_timeout_that_comes_first(p: P, sweeping: bool) -> None:
    now = p.freeze() / 1000
    causes = {
        "idle": p.login("ada", idle_timeout=60, absolute_timeout=3600, expires_at=now + 600),
        "absolute": p.login("ada", idle_timeout=60, absolute_timeout=60, expires_at=now + 600),
        "idp": p.login("ada", idle_timeout=600, absolute_timeout=3600, expires_at=now + 60),
    }
    p.advance(700)
    if sweeping:
        p.sweep()
    assert {cause: _end(p, login.token).cause for cause, login in causes.items()} == {cause: cause for cause in causes}


@every_topology
def test_a_shorter_timeout_still_ends_it_earlier(p: P) -> None:
    now = p.freeze() / 1000
    login = p.login("ada", session_id="session-1", absolute_timeout=3600, expires_at=now + 1800)
    [changed] = p.change_timeouts("ada", "session-1", absolute_timeout=600, **BY)
    assert changed.absolute_timeout == 600
    preview = p.preview_timeouts(SessionFilter(uid="ada"), absolute_timeout=7200)
    assert (preview.lengthened, preview.ended) == (1, 0)
    p.advance(600)
    assert not p.validate(login.token)
    assert _end(p, login.token).cause == "absolute"


def test_a_preview_knows_the_end_that_the_provider_has_set(p: P) -> None:
    now = p.freeze() / 1000
    p.login("ada", session_id="session-1", idle_timeout=600, expires_at=now + 600)
    preview = p.preview_timeouts(SessionFilter(uid="ada"), absolute_timeout=7200)
    assert (preview.shortened, preview.lengthened) == (0, 0)


@pytest.mark.parametrize("seconds", [-5, 0, 0.999])
def test_a_login_after_the_end_that_the_provider_set_is_refused(p: P, seconds: float) -> None:
    now = p.freeze() / 1000
    with pytest.raises(LoginRefused) as refused:
        p.login("ada", expires_at=now + seconds)
    assert refused.value.code == "expired"
    assert p.sessions("ada") == []


@every_topology
def test_many_logins_and_imports_take_it(p: P) -> None:
    now = p.freeze() / 1000
    rows: list[dict[str, Any]] = [
        {"uid": "ada", "expires_at": now + 100}, {"uid": "bob"}, {"uid": "eve", "expires_at": now - 1},
    ]  # fmt: skip
    ada, bob, eve = p.login_many(rows)
    assert isinstance(eve, LoginRefused)
    assert not isinstance(ada, LoginRefused)
    assert not isinstance(bob, LoginRefused)
    assert (ada.session.absolute_timeout, bob.session.idp_expires_at) == (100, None)
    imported = {"uid": "fay", "login_at": now - 1000, "last_seen": now - 10, "expires_at": now + 50}
    [fay] = p.login_many([imported], imported=True)
    assert not isinstance(fay, LoginRefused)
    assert fay.session.absolute_timeout == 1050
    p.advance(51)
    assert not p.validate(fay.token)
    assert _end(p, fay.token).cause == "idp"


def test_a_login_without_it_stores_nothing_more(p: P, raw: Any) -> None:
    p.freeze()
    plain, ends = p.login("ada", session_id="session-1"), p.login("ada", session_id="session-2", expires_at=4e9)
    record = p.context.shard("ada").record
    assert set(raw.hkeys(record("ada", "session-1"))) == {b"s", b"c"}
    assert raw.hget(record("ada", "session-2"), "u") == struct.pack(">Q", 4_000_000_000_000)
    assert (plain.session.idp_expires_at, ends.session.absolute_timeout) == (None, 86_400)


def test_stored_bytes_that_are_no_time_stop_nothing(bed: Bed) -> None:
    p = bed.connect()
    now = p.freeze()
    login = p.login("ada", session_id="session-1", expires_at=now / 1000 + 60)
    bed.raw.hset(p.context.shard("ada").record("ada", "session-1"), "u", "spoiled")
    [changed] = p.change_timeouts("ada", "session-1", absolute_timeout=90, **BY)
    assert isinstance(changed, Session)
    assert p.validate(login.token)
    p.advance(90)
    p.sweep()
    assert _end(p, login.token).cause in ("absolute", "idle")
