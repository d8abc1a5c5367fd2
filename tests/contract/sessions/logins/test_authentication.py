"""When and how a visitor authenticated; a session that must sign in again opens nothing until its visitor has."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presence_core import Ended, InvalidArgument, Login, LoginRefused, Session, SessionFilter, SignInResult
from presence_core.client import reshard
from presence_core.keyspace import digest
from presence_core.web.jwt import RevocationCache
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "odd login, call of Monday", "ticket": "T-4711"}
CODES = ("sign_in_required", "authentication_too_old")


def _code(p: P, token: str, **options: Any) -> str:
    code: str = p.validate(token, **options).code
    return code


def _session(p: P, token: str, **options: Any) -> Session:
    session = p.validate(token, **options).session
    assert session is not None
    return session


def _ended(p: P, token: str) -> Ended:
    ended = p.validate(token).ended
    assert ended is not None
    return ended


def _record(p: P, raw: Any, session_id: str) -> dict[bytes, bytes]:
    record: dict[bytes, bytes] = raw.hgetall(p.context.shard("ada").record("ada", session_id))
    return record


# -- when and how -----------------------------------------------------------------------------------------------------


@every_backend
def test_a_login_without_methods_has_authenticated_at_its_login_and_stores_nothing_more(p: P, raw: Any) -> None:
    login = p.login("ada")
    session = p.get("ada", login.session.session_id)
    assert session == login.session == p.validate(login.token, touch=False).session
    assert (session.authenticated_at, session.methods, session.mfa) == (session.login_at, (), False)
    assert session.sign_in_required_at is None
    assert not {b"h", b"q"} & set(_record(p, raw, session.session_id))


@pytest.mark.parametrize(
    ("methods", "mfa", "stored", "is_strong"),
    [
        (("pwd",), None, ("pwd",), False),
        (("pwd", "otp"), None, ("pwd", "otp"), True),
        (["mfa"], None, ("mfa",), True),
        (lambda: iter(("pwd", "pwd")), None, ("pwd",), False),
        (("pwd", "otp"), False, ("pwd", "otp"), False),
        ((), True, (), True),
        (("a" * 16, *(f"m-{n}_xx" for n in range(5)), "abc", "abc"), True, None, True),
    ],
)
def test_the_methods_of_a_login_are_read_everywhere(
    p: P, raw: Any, methods: Any, mfa: bool | None, stored: tuple[str, ...] | None, is_strong: bool
) -> None:
    stored = tuple(dict.fromkeys(methods)) if stored is None else stored
    login = p.login("ada", methods=methods() if callable(methods) else methods, mfa=mfa)
    sid = login.session.session_id
    for session in (login.session, *p.sessions("ada"), _session(p, login.token), *p.list_sessions()):
        assert (session.methods, session.mfa, session.authenticated_at) == (stored, is_strong, session.login_at)
    assert max(map(len, _record(p, raw, sid).values())) <= 64
    p.kick("ada", sid, **BY)
    for ended in (_ended(p, login.token), *p.ended("ada")):
        assert (ended.methods, ended.mfa, ended.authenticated_at) == (stored, is_strong, ended.login_at)


@every_backend
def test_a_repeated_login_is_no_new_authentication(p: P) -> None:
    p.freeze()
    first = p.login("ada", session_id="session-of-ada", methods=["pwd"])
    p.advance(100)
    second = p.login("ada", session_id="session-of-ada", methods=["pwd", "otp"])
    assert second.session == p.get("ada", "session-of-ada")
    assert (second.session.methods, second.session.authenticated_at) == (("pwd",), first.session.login_at)
    p.require_sign_in("ada", **BY)
    third = p.login("ada", session_id="session-of-ada")
    assert third.session.sign_in_required_at is not None
    assert _code(p, third.token) == "sign_in_required"


def test_imported_logins_authenticated_when_they_began(p: P) -> None:
    p.freeze()
    now = p.login("bob").session.login_at
    row = {"uid": "ada", "login_at": now - timedelta(hours=1), "last_seen": now, "methods": ["pwd"]}
    [login] = p.login_many([row], imported=True)
    assert isinstance(login, Login)
    assert login.session.authenticated_at == now - timedelta(hours=1)
    assert _code(p, login.token, max_age=3600) == "live"
    p.advance(1)
    assert _code(p, login.token, max_age=3600) == "authentication_too_old"


# -- too old ----------------------------------------------------------------------------------------------------------


@every_topology
def test_an_authentication_older_than_max_age_is_refused_and_the_session_stays_live(p: P) -> None:
    p.freeze()
    login = p.login("ada", device="phone")
    sid = login.session.session_id
    p.advance(300)
    assert p.validate(login.token, max_age=300)
    p.advance(0.001)
    before = p.get("ada", sid)
    for refused in (p.validate(login.token, max_age=300), p.validate_session("ada", sid, max_age=300)):
        assert not refused
        assert (refused.session, refused.ended, refused.message) == (None, None, None)
        assert (refused.code, refused.refused) == ("authentication_too_old", before)
    assert p.get("ada", sid) == before, "a request that is refused does not count as seen"
    assert p.validate(login.token).code == "live"
    assert _code(p, "malformed", max_age=300) == "unknown"
    p.kick("ada", sid, **BY)
    assert _code(p, login.token, max_age=1) == "ended"


# -- a new authentication ---------------------------------------------------------------------------------------------


@every_topology
def test_after_a_new_authentication_the_old_token_opens_nothing(p: P) -> None:
    p.freeze()
    old = p.login("ada", name="Ada", device="phone", attributes={"plan": "pro"}, methods=["pwd"], idle_timeout=900)
    p.advance(301)
    new = p.reauthenticated(old.token, methods=["hwk", "pin"])
    session = new.session
    assert (session.methods, session.mfa) == (("hwk", "pin"), True)
    assert session.authenticated_at == old.session.login_at + timedelta(seconds=301)
    changed = ("authenticated_at", "methods", "mfa")
    kept = [name for name in type(session).__dataclass_fields__ if name not in changed]
    assert [getattr(session, name) for name in kept] == [getattr(old.session, name) for name in kept]
    assert session == p.get("ada", session.session_id)
    assert _code(p, old.token) == "unknown"
    for change in (p.rotate, p.reauthenticated):
        with pytest.raises(LoginRefused) as refused:
            change(old.token)
        assert refused.value.code == "ended"
    assert _session(p, new.token, max_age=1).authenticated_at == session.authenticated_at
    assert _code(p, p.rotate(new.token).token, max_age=1) == "live", "a new secret alone changes no authentication"


def test_a_new_authentication_without_methods_is_noted(p: P) -> None:
    p.freeze()
    old = p.login("ada", methods=["pwd", "otp"])
    p.advance(10)
    session = p.reauthenticated(old.token).session
    assert (session.methods, session.mfa) == ((), False)
    assert session.authenticated_at > session.login_at


@every_backend
def test_a_site_with_ids_of_its_own_notes_a_new_authentication_by_id(p: P) -> None:
    p.freeze()
    login = p.login("ada", session_id="session-of-ada")
    p.advance(301)
    assert p.validate_session("ada", "session-of-ada", max_age=300).code == "authentication_too_old"
    p.require_sign_in("ada", **BY)
    assert p.validate_session("ada", "session-of-ada").code == "sign_in_required"
    session = p.reauthenticated_session("ada", "session-of-ada", methods=["pwd"])
    assert session == p.get("ada", "session-of-ada")
    assert p.validate_session("ada", "session-of-ada", max_age=1)
    assert p.validate(login.token, max_age=1), "there is no secret of ours to replace"
    p.logout("ada", "session-of-ada")
    with pytest.raises(LoginRefused, match="no live session with this id") as refused:
        p.reauthenticated_session("ada", "session-of-ada")
    assert refused.value.code == "ended"


# -- a required sign-in -----------------------------------------------------------------------------------------------


@every_topology
def test_a_session_that_must_sign_in_again_is_refused_until_its_visitor_has(p: P) -> None:
    p.freeze()
    login, other = p.login("ada", device="phone"), p.login("bob")
    sid = login.session.session_id
    p.advance(5)
    result = p.require_sign_in("ada", **BY, message="Please confirm that it is you.")
    assert isinstance(result, SignInResult)
    assert result
    assert result.sessions == p.sessions("ada") == p.list_sessions(SessionFilter(uid="ada")).items
    assert result.sessions[0].sign_in_required_at == login.session.login_at + timedelta(seconds=5)
    assert p.counts().sessions == 2
    p.advance(5)
    for refused in (p.validate(login.token), p.validate_session("ada", sid), p.validate(login.token, max_age=1)):
        assert not refused
        assert (refused.code, refused.session, refused.ended) == ("sign_in_required", None, None)
        assert (refused.refused, refused.message) == (result.sessions[0], "Please confirm that it is you.")
        assert "Grace" not in repr(refused)
    for updated in (p.update(login.token, attributes={"a": 1}),
                    p.update_session("ada", sid, attributes={"a": 1})):  # fmt: skip
        assert updated.code == "sign_in_required"
    with pytest.raises(LoginRefused, match="A new sign-in is required") as refused_rotation:
        p.rotate(login.token)
    assert refused_rotation.value.code == "sign_in_required"
    assert _code(p, "malformed") == "unknown"
    assert p.validate(other.token)
    new = p.reauthenticated(login.token, methods=["pwd"])
    assert new.session.sign_in_required_at is None
    assert _session(p, new.token).attributes == {}
    assert _code(p, login.token) == "unknown"


@every_backend
def test_neither_heartbeats_nor_requests_extend_a_session_that_must_sign_in_again(p: P) -> None:
    p.freeze()
    login = p.login("ada", idle_timeout=60)
    ref, expires_at = login.session.ref, login.session.expires_at
    p.require_sign_in("ada", **BY)
    p.advance(59)
    assert p.heartbeat("ada", login.session.session_id), "it is still listed"
    assert p.heartbeats([ref]) == []
    assert not p.validate(login.token, ip="192.0.2.9")
    [session] = p.sessions("ada")
    assert (session.expires_at, session.last_seen, session.last_ip) == (expires_at, login.session.login_at, None)
    p.advance(1)
    assert p.heartbeats([ref]) == [ref]
    assert _ended(p, login.token).reason == "expired"


@every_topology
def test_a_new_authentication_on_one_device_leaves_the_demand_on_the_others(p: P) -> None:
    phone, desk = p.login("ada", device="phone"), p.login("ada", device="desk")
    p.require_sign_in("ada", **BY)
    later = p.login("ada", device="tablet")
    assert p.validate(p.reauthenticated(phone.token).token)
    assert p.validate(later.token), "it began after the demand"
    assert _code(p, desk.token) == "sign_in_required"


@every_backend
def test_staff_name_one_session_or_all_but_some(p: P) -> None:
    logins = [p.login("ada") for _ in range(4)]
    ids = [login.session.session_id for login in logins]
    assert [s.session_id for s in p.require_sign_in("ada", ids[0], **BY).sessions] == [ids[0]]
    assert [_code(p, login.token) for login in logins] == ["sign_in_required", "live", "live", "live"]
    result = p.require_sign_in("ada", **BY, keep=[ids[1], "no-session-of-hers"])
    assert {s.session_id for s in result.sessions} == {ids[0], ids[2], ids[3]}
    assert [_code(p, login.token) for login in logins] == [CODES[0], "live", CODES[0], CODES[0]]
    assert not p.require_sign_in("ada", "no-such-session", **BY)
    assert not p.require_sign_in("nobody", **BY)
    p.logout("ada", ids[3])
    assert ids[3] not in {s.session_id for s in p.require_sign_in("ada", **BY).sessions}
    with pytest.raises(InvalidArgument, match="keep cannot be combined with session_id"):
        p.require_sign_in("ada", ids[0], **BY, keep=[ids[1]])


@every_backend
def test_a_demand_that_came_after_the_sign_in_began_stays(p: P) -> None:
    p.freeze()
    login = p.login("ada")
    p.advance(10)
    began = login.session.login_at + timedelta(seconds=10)
    p.advance(1)
    p.require_sign_in("ada", **BY)
    p.advance(1)
    kept = p.reauthenticated(login.token, methods=["pwd"], began=began)
    assert kept.session.sign_in_required_at == began + timedelta(seconds=1)
    assert kept.session.authenticated_at == began + timedelta(seconds=2)
    assert _code(p, kept.token) == "sign_in_required"
    same = p.reauthenticated(kept.token, began=(began + timedelta(seconds=1)).timestamp())
    assert _code(p, same.token) == "sign_in_required", "in the same millisecond it may have come after"
    done = p.reauthenticated(same.token, began=began + timedelta(seconds=1, milliseconds=1))
    assert p.validate(done.token)
    p.require_sign_in("ada", **BY)
    assert p.validate(p.reauthenticated(done.token).token), "without began it is now"


@every_backend
def test_a_demand_ends_with_its_session(p: P) -> None:
    login = p.login("ada", session_id="session-of-ada")
    p.require_sign_in("ada", **BY)
    p.kick("ada", "session-of-ada", **BY, message="Bye.")
    assert (_code(p, login.token), _ended(p, login.token).message) == ("ended", "Bye.")
    with pytest.raises(LoginRefused):
        p.reauthenticated(login.token)
    p.login("bob")
    p.require_sign_in("bob", **BY)
    p.revoke_before(**{name: BY[name] for name in ("by", "reason")})
    assert not p.require_sign_in("bob", **BY)


@every_backend
def test_a_demand_is_audited_and_reported_once_per_session(p: P) -> None:
    logins = [p.login("ada") for _ in range(2)]
    first_id = logins[0].session.session_id
    cursor = p.events_end()
    p.require_sign_in("ada", **BY, message="Please sign in.")
    p.require_sign_in("ada", first_id, **BY)
    p.reauthenticated(logins[0].token)
    p.rotate(p.reauthenticated(p.login("bob").token).token)
    of_ada = [(event.kind, event.session_id) for event in p.events(after=cursor) if event.uid == "ada"]
    assert set(of_ada[:2]) == {("sign_in_required", login.session.session_id) for login in logins}
    assert of_ada[2:] == [("sign_in_required", first_id), ("reauthenticated", first_id)]
    assert [event.kind for event in p.events(after=cursor) if event.uid == "bob"] == ["login"]
    second, first = p.audit(uid="ada").items
    assert (first.action, first.by, first.reason, first.ticket) == ("require_sign_in", *BY.values())
    assert (first.message, first.session_id, first.outcome) == ("Please sign in.", None, "2 sessions to sign in again")
    assert (second.message, second.session_id, second.outcome) == (None, first_id, "1 session to sign in again")
    p.require_sign_in("nobody", **BY)
    assert p.audit(uid="nobody").items[0].outcome == "no session to sign in again"


def test_the_message_lives_as_long_as_the_longest_session(bed: Bed, raw: Any) -> None:
    p = bed.connect(keep_kicked=60)
    p.login("ada", idle_timeout=400_000, absolute_timeout=400_000)
    p.require_sign_in("ada", **BY, message="Please sign in.")
    note = p.context.shard("ada").note(digest("Please sign in."))
    assert 400_000 < raw.ttl(note) <= 400_000 + 86_400


def test_a_user_with_a_thousand_sessions_must_sign_in_everywhere(p: P) -> None:
    tokens = [p.login("ada").token for _ in range(10)]
    p.login_many({"uid": "ada"} for _ in range(990))
    assert len(p.require_sign_in("ada", **BY).sessions) == 1000
    assert {_code(p, token) for token in tokens} == {"sign_in_required"}


@on("valkey-sync", "redis7-sync")
def test_the_blocks_of_the_page_run_as_they_are_printed(p: P) -> None:
    page = Path(__file__).parents[4] / "docs/use/fresh_authentication.md"
    names: dict[str, Any] = {"presence": p}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        exec(compile(block, page.name, "exec"), names)
    assert names["rules"].fresh == {"/pay": 300, "/account/email": 120}
    assert names["validation"].code == "sign_in_required"
    assert p.validate(names["login"].token, max_age=60)


# -- privacy and reshard -----------------------------------------------------------------------------------------------


def test_an_erased_person_leaves_no_demand_and_no_message(p: P, raw: Any) -> None:
    p.login("ada", name="Ada Lovelace", methods=["pwd"])
    p.require_sign_in("ada", by="sam", reason="odd login of Ada Lovelace", message="Is it you, Ada Lovelace?")
    note = p.context.shard("ada").note(digest("Is it you, Ada Lovelace?"))
    assert raw.exists(note)
    p.erase("ada", by="sam", reason="asked")
    assert b"Lovelace" not in (raw.get(note) or b"")
    assert not any("Lovelace" in str(entry) for entry in p.audit())
    assert p.sessions("ada") == []


@on("valkey-sync", "redis7-sync")
def test_a_demand_is_carried_to_another_number_of_shards(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)
    p = bed.connect(shards=2)
    tokens = {uid: p.login(uid, methods=["pwd"]).token for uid in ("ada", "bob", "cyd", "dan")}
    for uid in ("ada", "bob", "cyd"):
        p.require_sign_in(uid, by="sam", reason="odd", message="Is it you?")
    p.reshard(3)
    for uid in ("ada", "bob", "cyd"):
        refused = p.validate(tokens[uid])
        assert (refused.code, refused.message) == ("sign_in_required", "Is it you?")
    assert _session(p, tokens["dan"]).methods == ("pwd",)
    assert p.validate(p.reauthenticated(tokens["ada"]).token)
    with RevocationCache(p) as cache:
        assert cache.is_revoked(p.sessions("bob")[0].session_id, "bob"), "its events stayed behind"
