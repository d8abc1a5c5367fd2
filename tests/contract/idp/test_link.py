"""The link of a session to its identity provider: stored, found, indexed in the same step, and removed."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import InvalidArgument, LoginRefused, SessionFilter
from presence_core.models import plain
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

OKTA, ENTRA = "https://acme.okta.example", "https://login.entra.example/common/v2.0"
ADA = {"iss": OKTA, "sub": "00u1ada", "sid": "session-of-ada-1"}
WHY: dict[str, Any] = {"by": "Grace Hopper", "reason": "test"}


def _found(p: P, **wanted: Any) -> list[str]:
    page = p.list_sessions(SessionFilter(**wanted))
    assert page.total_is_exact or page.next_cursor
    return sorted(session.ref for session in page)


def _entries(p: P, raw: Any) -> list[bytes]:
    return sorted(entry for shard in p.context.keys.shards for entry in raw.zrange(shard.idp, 0, -1))


@every_backend
def test_sessions_are_found_by_the_providers_session_and_by_its_user(p: P) -> None:
    login = p.login("ada", session_id="session-1", idp=ADA)
    p.login("ada", session_id="session-2", idp=ADA | {"sid": "session-of-ada-2"})
    p.login("ada", session_id="session-3")
    p.login("bob", session_id="session-1", idp={"iss": ENTRA, "sub": ADA["sub"], "sid": ADA["sid"]})
    p.login("cyd", session_id="session-1", idp={"iss": OKTA, "sid": ADA["sid"]})
    p.login("eve", session_id="session-1", idp={"iss": OKTA, "sub": "00u1eve"})
    assert login.session.idp == ADA
    assert login.session == p.get("ada", "session-1") == p.validate(login.token, touch=False).session
    assert _found(p, idp_issuer=OKTA, idp_session=ADA["sid"]) == ["ada:session-1", "cyd:session-1"]
    assert _found(p, idp_issuer=OKTA, idp_subject=ADA["sub"]) == ["ada:session-1", "ada:session-2"]
    assert _found(p, idp_issuer=OKTA, idp_subject=ADA["sub"], idp_session=ADA["sid"]) == ["ada:session-1"]
    assert _found(p, idp_issuer=ENTRA) == ["bob:session-1"]
    assert len(_found(p, without=SessionFilter(idp_issuer=OKTA))) == 2
    by_index = p.explain(SessionFilter(idp_issuer=OKTA, idp_session=ADA["sid"]))
    assert (by_index.index, by_index.rows) == ("idp", 2)


@every_topology
def test_a_link_is_one_with_the_login_and_a_second_login_replaces_it(p: P, raw: Any) -> None:
    p.login("ada", session_id="session-1", idp=ADA)
    assert len(_entries(p, raw)) == 2
    assert p.login("ada", session_id="session-1", idp=ADA | {"sid": "other"}).session.idp == ADA | {"sid": "other"}
    assert _found(p, idp_issuer=OKTA, idp_session=ADA["sid"]) == []
    assert _found(p, idp_issuer=OKTA, idp_session="other") == ["ada:session-1"]
    assert p.login("ada", session_id="session-1").session.idp is None
    assert _found(p, idp_issuer=OKTA) == []
    p.kick("ada", **WHY)
    p.reindex()
    assert _entries(p, raw) == []


@every_topology
def test_a_rebuild_adds_what_is_missing_and_removes_what_has_ended(p: P, raw: Any) -> None:
    for number in range(40):
        p.login(f"u{number}", idp=ADA | {"sub": f"sub-{number}", "sid": f"sid-{number}"})
    whole = _entries(p, raw)
    assert len(whole) == 80
    for shard in p.context.keys.shards:
        raw.unlink(shard.idp)
    p.reindex()
    assert _entries(p, raw) == whole
    for number in range(20):
        p.kick(f"u{number}", **WHY)
    assert _found(p, idp_issuer=OKTA, idp_session="sid-3") == [], "no reader finds what has ended"
    assert p.reindex().repaired == 40
    assert len(_entries(p, raw)) == 40
    assert [ended.idp for ended in p.ended("u3")] == [ADA | {"sub": "sub-3", "sid": "sid-3"}]


@on("valkey-sync", "cluster-sync")
def test_without_the_index_sessions_are_found_by_a_scan(bed: Bed) -> None:
    p = bed.connect(indexes=("uid",))
    p.login("ada", session_id="session-1", idp=ADA)
    assert _entries(p, bed.raw) == []
    assert _found(p, idp_issuer=OKTA, idp_session=ADA["sid"]) == ["ada:session-1"]
    assert p.explain(SessionFilter(idp_issuer=OKTA, idp_session=ADA["sid"])).index == "list"


@every_topology
def test_a_login_of_an_import_and_one_of_many_have_it_too(p: P) -> None:
    rows: list[dict[str, Any]] = [{"uid": f"u{number}", "idp": ADA} for number in range(5)]
    assert not any(isinstance(answer, LoginRefused) for answer in p.login_many(rows))
    assert len(_found(p, idp_issuer=OKTA, idp_subject=ADA["sub"])) == 5


@every_topology
def test_erasing_a_person_removes_the_link_and_an_export_has_it(p: P, raw: Any) -> None:
    p.login("ada", session_id="session-1", idp=ADA)
    p.login("ada", session_id="session-2", idp=ADA)
    p.login("bob", session_id="session-1", idp=ADA | {"sub": "00u1bob", "sid": "session-of-bob"})
    p.kick("ada", "session-2", by="Grace Hopper", reason=f"the provider says {ADA['sub']} is away")
    exported = p.export_person("ada")
    assert [found["idp"] for found in exported["sessions"] + exported["ended"]] == [ADA, ADA]
    p.erase("ada", by="Grace Hopper", reason="asked for it")
    assert len(_entries(p, raw)) == 2, "those of bob"
    assert ADA["sub"] not in repr(plain(p.audit().items))
    assert _found(p, idp_issuer=OKTA) == ["bob:session-1"]


def test_a_session_on_behalf_of_a_user_has_no_link(p: P) -> None:
    with pytest.raises(InvalidArgument, match="idp must not be given with on_behalf_by"):
        p.login("ada", idp=ADA, on_behalf_by="sam", reason="test")


def test_stored_bytes_that_are_no_link_are_none(bed: Bed) -> None:
    p = bed.connect()
    for number, spoiled in enumerate((b"", b"\n\n", b"\xff", b"a\nb", b"a\nb\nc\nd\ne")):
        login = p.login("ada", session_id=f"session-{number}", idp=ADA)
        bed.raw.hset(p.context.shard("ada").record("ada", f"session-{number}"), "l", spoiled)
        assert p.validate(login.token)
    p.reindex()
    assert len(p.sessions("ada")) == 5
