"""Reshard, key by key: each documented family is copied, or documented as not copied."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from presence_core import SessionFilter
from presence_core.client import reshard
from presence_core.keyspace import Keyspace
from presence_core.operations.reshard import coordinator
from presence_core.operations.search.rebuild import reindex
from presence_core.operations.sessions import end
from presence_core.scripts.calls import Call
from tests.conftest import Bed, family, on, together
from tests.support.facade import P
from tests.support.notices import queue_notice
from tests.support.place_file import write_place_file
from tests.support.servers import wait_for

KEY_TABLE = (Path(__file__).parents[3] / "docs" / "keys.md").read_text("utf-8")
SAID: dict[str, Any] = {"by": "staff", "reason": "why", "message": "Bye."}

AS_THEY_ARE = {
    "user:",
    "session:",
    "devices:",
    "known:",
    "place:",
    "signins:",
    "failed:",
    "ended:",
    "person:",
    "block:",
    "note:",
    "job:",
    "jobs",
    "running",
    "saved",
    "remarks:",
    "notices:",
    "approvals",
    "staff",
}
DIVIDED = {
    "sessions",
    "deadlines",
    "ended",
    "users",
    "people",
    "blocks",
    "closing",
    "failed",
    "labels",
    "audit",
    "on_behalf",
    "remarked",
    "notice_queue",
}
SUMMED = {"totals", "meta"}
EVERYWHERE = {"block_rules"}
OF_A_SHARD = (b"retold", b"confirmed", b"indexes", b"no_address", b"no_address_at")
"""Fields of meta that are not copied."""
REBUILT = {"words", "addresses", "facets", "ids", "idp"}
STAYS_BEHIND = {"rotated:", "events", "retold:", "recount", "counted", "moved", "failed_names", "failed_names:",
                "failed_from"}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)


def _documented() -> set[str]:
    """The families of a shard in the table of keys."""
    cells = re.findall(r"^\| (`T:[^|]*) \|", KEY_TABLE, re.MULTILINE)
    names = re.findall(r"`T:([^`<]*)", " ".join(cells))
    return set(names)


def _leave_a_trace_everywhere(p: P, bed: Bed) -> None:
    p.freeze()
    rows = [{"uid": f"u{n % 12}", "name": f"N {n}", "device": f"d{n % 3}", "user_agent": f"curl/{n % 2}", "ip": "::1"}
            for n in range(30)]  # fmt: skip
    p.login_many([*rows, *({"uid": f"b{n}", "device": "bulk"} for n in range(4))])
    for ip in ("198.51.100.7", "203.0.113.7"):
        p.login("u6", device="d0", device_id="device-of-u6", ip=ip)
    p.advance(0.01)
    p.kick("u1", **SAID)
    p.logout("u2", p.sessions("u2")[0].session_id)
    p.block("u3", **SAID, duration=3600)
    for uid in ("u3", "u4"):
        p.add_remark(uid, "a remark", by="staff")
    for who in ("u3", "u6", "a typed name"):
        p.login_failed(who, why="wrong_password", ip="198.51.100.7")
    for uid in ("u3", "u6", "b1"):
        queue_notice(p, p.sessions(uid)[0])
    p.add_block_rule(network="192.0.2.0/24", **SAID, expected=0)
    p.kick_where(SessionFilter(device="bulk"), **SAID, expected=4)
    p.rotate(p.login("late", device="bulk").token)
    p.login("u7", on_behalf_by="staff", reason="why")
    p.login("u8", idp={"iss": "https://idp.example.com", "sub": "1", "sid": "2"})
    p.advance(0.01)
    waits = p.start_kick(SessionFilter(device="bulk"), **SAID, expected=1)
    p.set_staff("boss@example.org", "admin", by="setup")
    p.save_item("watch", "u1", "Name 1", by="boss@example.org")
    p.ask_approval(filter=SessionFilter(device="bulk"), **SAID, sessions=1)
    p.erase("u4", by="dpo", reason="asked")
    p.revoke_before(p.clock.ms / 1000 - 100, **SAID)
    p.sweep()
    _die_half_way_through_a_kick(p, "u5")
    p.pause_job(waits.id, by="staff")
    shard = p.context.keys.shards[0]
    bed.raw.xadd(shard.retold("token"), {"k": "login"})  # an erasure that died
    bed.raw.zadd(shard.recount, {"-": 1})
    bed.raw.sadd(shard.counted, "u1:session")


def _die_half_way_through_a_kick(p: P, uid: str) -> None:
    op = end.kick(p.context, uid, None, by="staff", reason="half")
    members: list[Any] = [[] for _ in next(op)]  # as if the session had begun since
    p.internal.run(_relay(op.send(members)))


def _relay(calls: list[Call]) -> Any:
    return (yield calls)


def _by_family(bed: Bed, shards: int) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for key in bed.raw.scan_iter(match=f"{{{bed.namespace}:{shards}:*", count=5000):
        found.setdefault(family(key), []).append(key)
    return found


def _value(bed: Bed, key: bytes) -> Any:
    raw = bed.raw
    reads = {
        b"hash": raw.hgetall,
        b"set": raw.smembers,
        b"string": raw.get,
        b"zset": lambda key: raw.zrange(key, 0, -1, withscores=True),
    }
    return reads[raw.type(key)](key)


def _as_they_are(bed: Bed, found: dict[str, list[bytes]]) -> dict[bytes, tuple[Any, int]]:
    keys = {key for name in AS_THEY_ARE for key in found.get(name, [])}
    return {key.partition(b"}")[2]: (_value(bed, key), bed.raw.pexpiretime(key)) for key in keys}


def _divided(bed: Bed, found: dict[str, list[bytes]]) -> dict[str, list[Any]]:
    """All entries of the lists of all shards."""
    out: dict[str, list[Any]] = {}
    for name in DIVIDED:
        keys = found.get(name, [])
        if name in ("closing", "labels"):
            every = list({item for key in keys for item in bed.raw.hgetall(key).items()})  # shards may share a text
        elif name == "audit":
            every = [fields for key in keys for _, fields in bed.raw.xrange(key)]
        else:
            every = [item for key in keys for item in _value(bed, key)]
        out[name] = sorted(every, key=repr)
    return out


def _of_the_namespace(bed: Bed) -> dict[bytes, bytes]:
    """The data that belong to no shard."""
    keys = bed.raw.scan_iter(match=f"{{{bed.namespace}}}:*", count=5000)
    keys = [key for key in keys if family(key) not in ("layout", "moving")]
    return dict(zip(keys, together(bed.raw, [("dump", key) for key in keys]), strict=True))


def _all_of(bed: Bed, shards: int) -> dict[str, Any]:
    """The copied data, without the parts that depend on the number of shards."""
    found = _by_family(bed, shards)
    metas = [bed.raw.hgetall(key) for key in found["meta"]]
    one_of_them = {k: v for k, v in metas[0].items() if k not in OF_A_SHARD}
    assert all(one_of_them.items() <= meta.items() for meta in metas)
    assert len(metas) == shards
    return {
        "as they are": _as_they_are(bed, found),
        "divided": _divided(bed, found),
        "expires": {name: {bed.raw.pexpiretime(key) for key in found.get(name, [])} for name in DIVIDED},
        "totals": [bed.raw.hgetall(key) for key in found["totals"]],
        "meta": one_of_them,
        "outside the shards": _of_the_namespace(bed),
        "pseudonyms": bed.raw.hget(f"{{{bed.namespace}}}:layout", "pseudonyms"),
    }


@on("valkey-sync", "redis7-sync")
def test_every_family_of_keys_is_copied_from_one_shard_to_four_and_back_or_documented_as_not_copied(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert _documented() == AS_THEY_ARE | DIVIDED | SUMMED | EVERYWHERE | REBUILT | STAYS_BEHIND
    places = str(write_place_file(tmp_path / "places.mmdb"))
    p = bed.connect(shards=1, max_sessions_per_device=3, rotate_grace=30, truncate_addresses_after=0,
                    place_file=places, keep_sign_ins=90)  # fmt: skip
    _leave_a_trace_everywhere(p, bed)
    there = _by_family(bed, 1)
    assert there.keys() == _documented() - {"running"}, "there is something of everything"
    before, goals = _all_of(bed, 1), (4, 1)
    copies: list[dict[str, Any]] = []

    def look(*words: Any, **options: Any) -> Any:
        copies.append(_all_of(bed, goals[len(copies)]))
        return reindex(*words, **options)  # which also completes half-ended sessions

    monkeypatch.setattr(coordinator, "reindex", look)
    p.reshard(4)
    assert copies == [before]
    assert _by_family(bed, 1).keys() == {"moved"}
    assert _by_family(bed, 4).keys() == _documented() - STAYS_BEHIND - {"running", "closing"}
    assert p.facets("device") == Counter(session.device for session in p.iter_sessions() if session.device)
    assert p.facets("country")
    assert p.facets("country") == Counter(s.place.country for s in p.iter_sessions() if s.place)
    assert p.ended("u5").total == 3
    before = _all_of(bed, 4)
    p.reshard(1)
    assert copies[1] == before
    assert _by_family(bed, 4).keys() == {"moved"}
    assert p.repair().repaired == 0


@on("valkey-sync", "cluster-sync")
@pytest.mark.parametrize("record_ttl", [True, False])
def test_sessions_on_behalf_of_users_of_several_shards_stay_listed_as_long_as_they_live(
    bed: Bed, record_ttl: bool
) -> None:
    p = bed.connect(shards=4, record_ttl=record_ttl)
    now = p.freeze()
    p.counts()  # it now knows the shards
    in_order = sorted((f"u{n}" for n in range(8)), key=lambda uid: p.context.shard(uid).index)
    for place, uid in enumerate(in_order):  # those of the last shard end first
        p.login(uid, on_behalf_by="staff", reason="why", absolute_timeout=3000 - 100 * place)
    p.reshard(1)
    assert len(p.list_sessions(order="last_seen")) == 8
    latest = now + 3_000_000 if record_ttl else -1
    assert bed.raw.pexpiretime(p.context.keys.shards[0].on_behalf) == latest


@on("valkey-sync")
def test_a_person_is_erased_in_the_new_shards_as_in_the_old(bed: Bed) -> None:
    p = bed.connect(shards=1)
    for uid in ("quill", "other"):
        p.login(uid, name=f"{uid}'s name", ip="192.0.2.1", user_agent=f"{uid}/1")
        p.kick(uid, p.login(uid).session.session_id, by="staff", reason=f"{uid} asked")
    was = p.erase("quill", by="dpo", reason="asked").pseudonym
    p.login("quill", name="quill's name")
    p.reshard(4)
    report = p.erase("quill", by="dpo", reason="asked")
    assert (report.complete, report.pseudonym) == (True, was)
    p.erase("other", by="dpo", reason="asked")
    left = [key for key, value in bed.dump().items() for word in (b"quill", b"other") if word in key + value]
    assert not left
    assert [entry.action for entry in p.audit(uid=was).items] == ["forget", "forget", "kick"]


@on("valkey")
def test_an_unconfirmed_kick_is_applied_again_in_the_new_shards(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("presence_core.client.replica_ack.ROUND_SECONDS", 0.1)
    p, other = bed.connect(shards=1, confirm_replicas=1, confirm_timeout=20, confirm_hold=0), bed.connect()
    p.freeze()
    other.counts()
    p.login("ada", session_id="session-1")
    assert p.kick("ada", **SAID).confirmed is False
    other.reshard(4)
    record = Keyspace(bed.namespace, 4).shard("ada").record("ada", "session-1")
    assert bed.raw.delete(record) == 1
    assert other.login("ada", session_id="session-1").token, "as a failover brings back who was kicked"
    wait_for("the kick to be applied again", lambda: not other.sessions("ada"))
    assert p.unconfirmed() == 1
