"""An identity provider signs users out: the sessions that exist end, and so do those that are on their way."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import InvalidArgument
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

OKTA = "https://acme.okta.example"


def _link(sub: str = "ada", sid: str = "sid-1", iss: str = OKTA) -> dict[str, str]:
    return {"iss": iss, "sub": sub, "sid": sid}


def _logout(p: P, **given: Any) -> int | None:
    options: dict[str, Any] = {"by": "Okta", "issued_at": p.clock.ms / 1000} | given
    return p.provider_logout(OKTA, **options)


@every_backend
def test_a_session_of_the_provider_ends_and_all_of_its_user_do(p: P) -> None:
    p.freeze()
    first = p.login("ada", session_id="session-1", idp=_link())
    others = [p.login("ada", idp=_link(sid=f"sid-{n}")).token for n in (2, 3)]
    apart = [p.login("bob", idp=_link("bob", "sid-9")).token, p.login("ada", idp=_link(iss="https://b.example")).token]
    assert _logout(p, session="sid-1") == 1
    ended = p.validate(first.token).ended
    assert ended is not None
    assert (ended.reason, ended.cause, ended.by, ended.at) == ("logout", "idp_logout", "Okta", p.clock.now)
    assert all(map(p.validate, others))
    assert _logout(p, session="sid-1") == 0
    assert _logout(p, subject="ada") == 2
    assert not any(map(p.validate, others))
    assert all(map(p.validate, apart))
    assert p.counts().totals["logout"] == 3
    assert [(entry.by, entry.uid, entry.outcome) for entry in p.audit()] == [("Okta", "ada", "1 session ended")] * 3
    assert {entry.action for entry in p.audit()} == {"idp_logout"}
    assert [found.session_id for found in p.ended(by="Okta", reason="logout")].count("session-1") == 1
    assert p.repair().repaired == 6, "entries of the index, which no search believes"
    assert p.repair().repaired == 0


@every_topology
def test_a_logout_that_comes_before_the_login_ends_it_when_it_is_written(p: P) -> None:
    p.freeze()
    assert _logout(p, session="sid-1") == _logout(p, subject="ada") == 0
    p.advance(5)
    refused: list[Any] = [
        p.login("bob", idp=_link("bob")),
        p.login("ada", idp=_link(sid="sid-2")),
        *p.login_many([{"uid": "cyd", "idp": _link("cyd")}, {"uid": "cyd", "idp": _link("cyd", "sid-4")}]),
    ]
    assert [bool(p.validate(login.token)) for login in refused] == [False, False, False, True]
    assert [ended.cause for ended in p.ended()] == ["idp_logout"] * 3
    p.advance(6)
    assert p.validate(p.login("ada", idp=_link(sid="sid-5")).token), "the user has signed in again"
    assert not p.validate(p.login("ada", idp=_link()).token), "a session of the provider never comes back"


@every_topology
def test_a_late_logout_of_a_user_spares_the_sessions_that_began_since(p: P) -> None:
    now = p.freeze() / 1000
    old = p.login("ada", idp=_link()).token
    p.advance(60)
    new = p.login("ada", idp=_link(sid="sid-2")).token
    assert _logout(p, subject="ada", issued_at=now + 1) == 1
    assert (bool(p.validate(old)), bool(p.validate(new))) == (False, True)


@every_topology
def test_a_token_counts_once(p: P, raw: Any) -> None:
    p.freeze()
    assert _logout(p, subject="ada", token_id="token-1", token_seconds=60) == 0
    login = p.login("ada", idp=_link()).token
    assert not p.validate(login)
    p.advance(11)
    login = p.login("ada", idp=_link()).token
    assert _logout(p, subject="ada", token_id="token-1") is None
    assert p.validate(login)
    assert p.provider_logout("https://b.example", subject="ada", by="B", issued_at=time.time(), token_id="token-1") == 0
    keys = [key for key in raw.scan_iter("*:logout:*") if f"{{{p.settings.namespace}}}".encode() in key]
    assert len(keys) == 4
    assert all(0 < raw.ttl(key) <= 3600 for key in keys), "each has an end"


@on("valkey-sync", "cluster-sync")
def test_of_a_logout_and_a_login_at_the_same_time_the_logout_wins(bed: Bed) -> None:
    clients = [bed.connect() for _ in range(2)]
    for number in range(60):
        link, begin = _link(f"u{number}", f"sid-{number}"), time.time()

        def sign_in(number: int = number, link: Any = link) -> str:
            return clients[0].login(f"u{number}", idp=link).token

        def sign_out(link: Any = link, begin: float = begin) -> None:
            clients[1].provider_logout(OKTA, session=link["sid"], by="Okta", issued_at=begin)

        with ThreadPoolExecutor(2) as pool:
            made, done = pool.submit(sign_in), pool.submit(sign_out)
            done.result()
            assert not clients[0].validate(made.result()), number


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "idp must have iss, and sub or sid or both"),
        ({"subject": ""}, "idp.sub must be text of 1 to 255 bytes"),
        ({"subject": "a", "issued_at": "now"}, "issued_at must be an aware datetime or Unix seconds"),
        ({"subject": "a", "by": ""}, "by must be text of 1 to 256 bytes"),
        ({"subject": "a", "token_id": ""}, "token_id must be text of 1 to 1024 bytes"),
        ({"subject": "a", "token_seconds": 0}, "token_seconds must be a whole number from 1 to 604800"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(p: P, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        _logout(p, **given)
    assert str(refused.value).startswith(sentence)
