"""What is done to one user touches no byte of another's, whatever they are called; and no namespace is another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from presence_core import InvalidArgument, LoginRefused, SessionFilter
from presence_core.filters import uid_of
from presence_core.operations import history
from tests.conftest import Bed, on
from tests.facade import P

HOSTILE = ["a", "a:b", "*", "{x}", "a*", "[a-z]", "a:session-1", "user:a", "session:a", "a\\", "ended", "}:sessions"]
REFUSED = ["a\0b", "x" * 10_240, "", "\ud800"]
PHONE: dict[str, Any] = {"device": "phone", "ip": "192.0.2.1", "idle_timeout": 86_400, "absolute_timeout": 86_400}
SETTINGS: dict[str, Any] = {"max_sessions": 3, "max_sessions_per_device": 2, "facets": ("tenant",)}

Act = Callable[[P, str], object]


def _by_token(what: str, **given: Any) -> Act:
    def act(p: P, uid: str) -> object:
        return getattr(p, what)(p.login(uid, **PHONE).token, **given)

    return act


def _replaced(p: P, uid: str) -> None:
    for _ in range(4):
        p.login(uid, device="phone")


def _expired(p: P, uid: str) -> None:
    p.login(uid, idle_timeout=1)
    p.advance(2)
    p.sweep()


WHY: dict[str, Any] = {"by": "staff", "reason": "test"}
ACTS: dict[str, Act] = {
    "login": lambda p, uid: p.login(uid, name="Ann", aliases=["x@y.example"], attributes={"tenant": "t"}, **PHONE),
    "login again": lambda p, uid: p.login(uid, session_id="session-1", name="Other", device="tv"),
    "login_many": lambda p, uid: p.login_many([{"uid": uid}, {"uid": uid, "name": "Ann"}]),
    "login over the limit": _replaced,
    "validate": _by_token("validate", ip="192.0.2.9"),
    "validate_session": lambda p, uid: p.validate_session(uid, "session-1", ip="192.0.2.9"),
    "rotate": _by_token("rotate"),
    "heartbeats": lambda p, uid: p.heartbeats([f"{uid}:session-1", f"{uid}:session-2"]),
    "logout": lambda p, uid: p.logout(uid, "session-1"),
    "kick": lambda p, uid: p.kick(uid, "session-2", **WHY, message="bye"),
    "kick all but one": lambda p, uid: p.kick(uid, **WHY, keep=["session-2"]),
    "kick all": lambda p, uid: p.kick(uid, **WHY, block_for=60),
    "block": lambda p, uid: p.block(uid, **WHY, duration=60),
    "denied": lambda p, uid: p.denied(by="eve", what="kick", uid=uid),
    "audit_note": lambda p, uid: p.audit_note(by="eve", what="look", uid=uid),
    "unblock": lambda p, uid: p.unblock(uid, **WHY),
    "kick_where": lambda p, uid: p.kick_where(SessionFilter(uid=uid), expected=9, **WHY),
    "set_staff": lambda p, uid: p.set_staff(uid, "viewer", by="root"),
    "remove_staff": lambda p, uid: p.remove_staff(uid, by="root"),
    "expiry": _expired,
    "reads": lambda p, uid: (p.sessions(uid), p.people(uid), p.is_online(uid), p.ended(uid), p.blocked(uid),
                             p.list_sessions(SessionFilter(text=uid)), p.get(uid, "session-1"), p.export_person(uid),
                             p.list_sessions(SessionFilter(uid=uid)), p.audit(uid=uid)),
    "repair": lambda p, uid: p.repair(),
    "reindex": lambda p, uid: p.reindex(),
    "forget": lambda p, uid: p.forget(uid, **WHY),
}  # fmt: skip


def _prepare(p: P, uids: list[str]) -> None:
    """Everybody has two live sessions, ended ones, a name, and a block."""
    p.freeze()
    for uid in uids:
        about: dict[str, Any] = PHONE | {"name": f"Name of {uid}", "attributes": {"tenant": "t"}}
        p.logout(uid, p.login(uid, **about).session.session_id)
        p.kick(uid, p.login(uid, **about).session.session_id, **WHY)
        for sid in ("session-1", "session-2"):
            p.login(uid, session_id=sid, **about)
        p.block(uid, **WHY)
        p.set_staff("root", "admin", by="root")


def _of(bed: Bed, p: P, uid: str) -> dict[str, Any]:
    """Every byte that is this user's: the keys that carry the name, and the entries in what all share."""
    s, raw, mine = p.context.keys.shard(uid), bed.raw, uid.encode()

    def is_ref(entry: bytes) -> bool:
        return entry.rpartition(b":")[0] == mine

    found: dict[str, Any] = {key: raw.dump(key) for key in (*s.of_user(uid), s.user(uid), s.block(uid))}
    for ref in (one for key in (s.sessions, s.ended) for one in raw.zrange(key, 0, -1) if is_ref(one)):
        key = s.record_prefix + ref.decode()
        found[key] = raw.hgetall(key)
    for key in (s.sessions, s.deadlines, s.ended):
        found[key] = [pair for pair in raw.zrange(key, 0, -1, withscores=True) if is_ref(pair[0])]
    for key in (s.users, s.people, s.blocks):
        found[key] = raw.zscore(key, uid)
    found[s.words] = [entry for entry in raw.zrange(s.words, 0, -1) if uid_of(entry) == uid]
    found[s.addresses] = [entry for entry in raw.zrange(s.addresses, 0, -1) if is_ref(entry[5:])]
    found[s.events] = [entry for _, entry in raw.xrange(s.events) if is_ref(entry[b"r"])]
    found[s.audit] = [entry for _, entry in raw.xrange(s.audit) if entry.get(b"uid") == mine]
    found[s.closing] = {field: value for field, value in raw.hgetall(s.closing).items() if is_ref(field)}
    found[s.staff] = raw.hget(s.staff, uid)
    return found


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_what_is_done_to_one_user_touches_no_other(bed: Bed) -> None:
    p = bed.connect(**SETTINGS)
    _prepare(p, HOSTILE)
    acting = HOSTILE[:4] if bed.backend.server == "valkey" else HOSTILE[1:2] if bed.is_cluster else HOSTILE[2:4]
    for uid in acting:
        others = [one for one in HOSTILE if one != uid]
        before = {one: _of(bed, p, one) for one in others}
        mine = _of(bed, p, uid)
        for name, act in ACTS.items():
            try:
                act(p, uid)
            except LoginRefused:
                assert name.startswith("login") or name in ("validate", "rotate", "expiry"), (uid, name)
            if name == "login":
                p.unblock(uid, **WHY)  # from here on they get in
            for one in others:
                assert _of(bed, p, one) == before[one], f"{name} of {uid!r} has changed {one!r}"
        assert _of(bed, p, uid) != mine
        _prepare(p, [uid])


@on("valkey-sync", "cluster-async")
def test_a_uid_that_is_refused_writes_nothing_whatever_is_asked(bed: Bed) -> None:
    p = bed.connect(**SETTINGS)
    _prepare(p, HOSTILE[:3])
    before = bed.dump()
    for uid in REFUSED:
        for name, act in ACTS.items():
            if name in ("repair", "reindex", "validate", "rotate", "expiry", "login over the limit"):
                continue  # which are told no uid, or come behind a login
            with pytest.raises(InvalidArgument):
                act(p, uid)
    assert bed.dump() == before


def _dump_of(bed: Bed, namespace: str) -> dict[bytes, bytes | None]:
    keys = bed.raw.scan_iter(match=f"{{{namespace}[}}:]*", count=5000)
    return {key: bed.raw.dump(key) for key in keys}


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_no_act_in_one_namespace_touches_another(bed: Bed) -> None:
    names = [bed.namespace, f"{bed.namespace}-b", f"{bed.namespace}0"]
    uids = HOSTILE[1:2] if bed.is_cluster else HOSTILE[:3]
    for namespace in names:
        p = bed.connect(namespace=namespace, **SETTINGS)
        _prepare(p, uids)
        p._run(history.sample(p.context, p.clock.ms))
        p.login("expires", idle_timeout=1)
    p.advance(5)
    for namespace in names:
        p = bed.connect(namespace=namespace, **SETTINGS)
        others = {one: _dump_of(bed, one) for one in names if one != namespace}
        assert all(len(dump) > 10 for dump in others.values())
        for uid in uids:
            for act in ACTS.values():
                try:
                    act(p, uid)
                except LoginRefused:
                    pass
        p.revoke_before(by="staff", reason="test")
        p.sweep()
        p.repair()
        p._run(history.sample(p.context, p.clock.ms))
        assert p.counts().sessions == 0
        assert {one: _dump_of(bed, one) for one in others} == others
        for uid in uids:
            p.unblock(uid, **WHY)
            p.login(uid)  # so that the next has something to leave alone


@on("valkey-sync")
def test_a_token_of_one_namespace_opens_nothing_in_another(bed: Bed) -> None:
    one, two = bed.connect(), bed.connect(namespace=f"{bed.namespace}-b")
    token = one.login("ada", session_id="session-1").token
    two.login("ada", session_id="session-1")
    assert one.validate(token)
    assert not two.validate(token)
