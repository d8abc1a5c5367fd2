"""An action on one user changes no byte of another user's data, for any uid; and namespaces are independent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from presence_core import InvalidArgument, LoginRefused, SessionFilter
from presence_core.keyspace import Shard
from presence_core.operations.maintenance import history
from presence_core.text.search_text import uid_of
from tests.conftest import Bed, on, together
from tests.support.facade import P
from tests.support.soak import size

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
    "save_item": lambda p, uid: p.save_item("watch", uid, "Ann", by="root"),
    "note_viewer": lambda p, uid: p.note_viewer(uid, by="root"),
    "expiry": _expired,
    "reads": lambda p, uid: (p.sessions(uid), p.people(uid), p.is_online(uid), p.ended(uid), p.blocked(uid),
                             p.list_sessions(SessionFilter(text=uid)), p.get(uid, "session-1"), p.export_person(uid),
                             p.list_sessions(SessionFilter(uid=uid)), p.audit(uid=uid)),
    "repair": lambda p, uid: p.repair(),
    "reindex": lambda p, uid: p.reindex(),
    "erase": lambda p, uid: p.erase(uid, **WHY),
}  # fmt: skip


def _prepare(p: P, uids: list[str]) -> None:
    """Give each user two live sessions, ended ones, a name, and a block."""
    p.freeze()
    for uid in uids:
        about: dict[str, Any] = PHONE | {"name": f"Name of {uid}", "attributes": {"tenant": "t"}}
        p.logout(uid, p.login(uid, **about).session.session_id)
        p.kick(uid, p.login(uid, **about).session.session_id, **WHY)
        for sid in ("session-1", "session-2"):
            p.login(uid, session_id=sid, **about)
        p.block(uid, **WHY)
        p.set_staff("root", "admin", by="root")


def _shared(bed: Bed, s: Shard) -> dict[str, Any]:
    """The keys of a shard that have entries of every user, whole."""
    lists: list[tuple[Any, ...]]
    lists = [("zrange", key, 0, -1, False, True) for key in (s.sessions, s.deadlines, s.ended, s.words, s.addresses)]
    lists += [("zrange", key, 0, -1, False, True) for key in (s.users, s.people, s.blocks)]
    lists += [("xrange", s.events), ("xrange", s.audit), ("hgetall", s.closing), ("hgetall", s.staff)]
    return {key: reply for (_, key, *_), reply in zip(lists, together(bed.raw, lists), strict=True)}


def _of_each(bed: Bed, p: P, uids: list[str]) -> dict[str, dict[str, Any]]:
    """Every byte of each user: the keys that contain the uid, and the entries in shared keys."""
    of = {uid: p.context.keys.shard(uid) for uid in uids}
    shared = {s: _shared(bed, s) for s in set(of.values())}
    return {uid: _of(bed, shared[s], s, uid) for uid, s in of.items()}


def _of(bed: Bed, shared: dict[str, Any], s: Shard, uid: str) -> dict[str, Any]:
    mine = uid.encode()

    def is_ref(entry: bytes) -> bool:
        return entry.rpartition(b":")[0] == mine

    refs = [member.decode() for key in (s.sessions, s.ended) for member, _ in shared[key] if is_ref(member)]
    reads = [("dump", key) for key in (*s.of_user(uid), s.user(uid), s.block(uid))]
    reads += [("hgetall", s.record_prefix + ref) for ref in refs]
    found: dict[str, Any] = {key: reply for (_, key), reply in zip(reads, together(bed.raw, reads), strict=True)}
    for key in (s.sessions, s.deadlines, s.ended):
        found[key] = [pair for pair in shared[key] if is_ref(pair[0])]
    for key in (s.users, s.people, s.blocks):
        found[key] = [score for member, score in shared[key] if member == mine]
    found[s.words] = [entry for entry, _ in shared[s.words] if uid_of(entry) == uid]
    found[s.addresses] = [entry for entry, _ in shared[s.addresses] if is_ref(entry[5:])]
    found[s.events] = [entry for _, entry in shared[s.events] if is_ref(entry[b"r"])]
    found[s.audit] = [entry for _, entry in shared[s.audit] if entry.get(b"uid") == mine]
    found[s.closing] = {field: value for field, value in shared[s.closing].items() if is_ref(field)}
    found[s.staff] = shared[s.staff].get(mine)
    return found


@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_an_action_on_one_user_changes_no_data_of_others(bed: Bed) -> None:
    p = bed.connect(**SETTINGS)
    _prepare(p, HOSTILE)
    acting = (
        HOSTILE[: size(2, 4)] if bed.backend.server == "valkey" else HOSTILE[1:2] if bed.is_cluster else HOSTILE[2:4]
    )
    for uid in acting:
        others = [other for other in HOSTILE if other != uid]
        before = _of_each(bed, p, HOSTILE)
        for name, act in ACTS.items():
            try:
                act(p, uid)
            except LoginRefused:
                assert name.startswith("login") or name in ("validate", "rotate", "expiry"), (uid, name)
            if name == "login":
                p.unblock(uid, **WHY)  # from now on their logins are accepted
            after = _of_each(bed, p, HOSTILE)
            for other in others:
                assert after[other] == before[other], f"{name} of {uid!r} has changed {other!r}"
        assert after[uid] != before[uid]
        _prepare(p, [uid])


@on("valkey-sync", "cluster-async")
def test_a_refused_uid_writes_nothing_in_any_call(bed: Bed) -> None:
    p = bed.connect(**SETTINGS)
    _prepare(p, HOSTILE[:3])
    before = bed.dump()
    for uid in REFUSED:
        for name, act in ACTS.items():
            if name in ("repair", "reindex", "validate", "rotate", "expiry", "login over the limit"):
                continue  # calls without a uid, or after a login
            with pytest.raises(InvalidArgument):
                act(p, uid)
    assert bed.dump() == before


def _dump_of(bed: Bed, namespace: str) -> dict[bytes, bytes | None]:
    keys = list(bed.raw.scan_iter(match=f"{{{namespace}[}}:]*", count=5000))
    return dict(zip(keys, together(bed.raw, [("dump", key) for key in keys]), strict=True))


@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_no_action_in_one_namespace_changes_another(bed: Bed) -> None:
    names = [bed.namespace, f"{bed.namespace}-b", f"{bed.namespace}0"]
    uids = HOSTILE[1:2] if bed.is_cluster else HOSTILE[:3]
    for namespace in names:
        p = bed.connect(namespace=namespace, **SETTINGS)
        _prepare(p, uids)
        p.internal.run(history.sample(p.context, p.clock.ms))
        p.login("expires", idle_timeout=1)
    p.advance(5)
    for namespace in names:
        p = bed.connect(namespace=namespace, **SETTINGS)
        others = {name: _dump_of(bed, name) for name in names if name != namespace}
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
        p.internal.run(history.sample(p.context, p.clock.ms))
        assert p.counts().sessions == 0
        assert {name: _dump_of(bed, name) for name in others} == others
        for uid in uids:
            p.unblock(uid, **WHY)
            p.login(uid)  # so that the next action has data to leave unchanged


@on("valkey-sync")
def test_a_token_of_one_namespace_is_invalid_in_another(bed: Bed) -> None:
    first, second = bed.connect(), bed.connect(namespace=f"{bed.namespace}-b")
    token = first.login("ada", session_id="session-1").token
    second.login("ada", session_id="session-1")
    assert first.validate(token)
    assert not second.validate(token)
