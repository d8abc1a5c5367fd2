"""Erase a person, export a person, and shorten addresses: every key is searched, byte by byte."""

from __future__ import annotations

import io
import itertools
import json
import threading
import time
import unicodedata
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any

import pytest

from presence_core import AuditFact, Place, SessionFilter, Settings, Unavailable, Worker, cli
from presence_core.client import replica_ack, reshard
from presence_core.operations.bulk_kick import runner
from presence_core.operations.durability.replica_ack import confirm
from presence_core.operations.privacy import erase, rewrite
from presence_core.operations.reshard import coordinator
from presence_core.schema.record import FIELDS
from presence_core.scripts.calls import Op
from presence_core.scripts.privacy import REWRITE_STREAM
from tests.conftest import Bed, every_topology, on
from tests.support.facade import Clock, P, sync_facade
from tests.support.notices import queue_notice
from tests.support.place_file import city, write_place_file
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary, wait_for

UID, NAME, ALIAS = "pat:7f3a-quill", "Zoë Vantongeren", "zv@mail.example"
FOUR, LATEST, SIX = "198.51.100.77", "203.0.113.99", "2001:db8:77:1::beef"
CITY, FAR_CITY = "Quillville", "Farquill"
SAID: dict[str, Any] = {"by": "staff", "reason": f"{NAME} ({UID}) wrote from {FOUR}.", "ticket": "T-9"}
TEST: dict[str, Any] = {"by": "staff", "reason": "test"}
PHONE = "Vantongeren's telephone"
SETTINGS: dict[str, Any] = {"max_sessions": 3, "max_sessions_per_device": 2, "facets": ("mail",), "keep_sign_ins": 90}


@pytest.fixture
def p(bed: Bed, tmp_path: Path) -> Iterator[P]:
    """A client of a server that does not compress DUMP, so that every text is visible in it."""
    where = {"target_nodes": "primaries"} if bed.is_cluster else {}
    bed.raw.config_set("rdbcompression", "no", **where)
    places = write_place_file(tmp_path / "places.mmdb", {f"{FOUR}/32": city("FR", CITY, (45, 5)),
                                                        f"{LATEST}/32": city("JP", FAR_CITY, (35, 139))})  # fmt: skip
    made = bed.connect(**SETTINGS, place_file=str(places))
    made.freeze()
    yield made
    bed.raw.config_set("rdbcompression", "yes", **where)


def _live_a_life(p: P) -> list[str]:
    """Log in a person who leaves a trace in every family of keys, and two other users; returns the person's session
    ids."""
    sids: list[str] = []

    def login(**given: Any) -> str:
        about: dict[str, Any] = {"name": NAME, "aliases": [ALIAS, "other one"], "ip": FOUR, "user_agent": "curl/8",
                                 "device_id": "device-of-pat"}  # fmt: skip
        link = {"iss": "https://idp.example.com", "sub": ALIAS, "sid": f"{ALIAS}-1"}
        made = p.login(UID, **about | given, attributes={"mail": ALIAS}, idp=link)
        p.validate(made.token, ip=LATEST)
        sids.append(made.session.session_id)
        p.advance(0.01)
        return sids[-1]

    for uid in ("bob", "pat:7f3a"):
        p.login(uid, name="Bob Other", aliases=["bob@mail.example"], ip="192.0.2.1", user_agent="curl/8", device="tv")
        p.kick(uid, p.login(uid, ip="192.0.2.2").session.session_id, by="staff", reason="test", message="Bye, Bob.")
        p.block(uid, by="staff", reason="spam", duration=86_400)
    sids.append(p.login(UID, on_behalf_by="staff", reason="test").session.session_id)
    p.logout(UID, sids[-1])
    p.logout(UID, login(ip=SIX))
    p.logout(UID, login(ip=LATEST))
    p.logout(UID, login(ip=FOUR))
    p.kick(UID, login(device=PHONE), **SAID, message=f"Dear {NAME},\nbye.")
    login(idle_timeout=5)
    p.advance(6)
    p.sweep()
    for _ in range(3):
        login(device=PHONE)  # replaced, because of the device limit
    for device in (None, "tv", None):
        login(device=device, device_id=None)  # replaced
    p.block(UID, **SAID, message=f"Dear {NAME}")
    p.unblock(UID, by="staff", reason=f"paid by {ALIAS}")
    p.denied(by="viewer", what="kick", uid=UID, reason=NAME)
    p.denied(by=UID, what="block", uid="bob")
    p.audit_note(by="staff", what="look", uid="bob", reason=f"knows {UID.upper()}, {ALIAS} and session {sids[0]}")
    p.audit_note(by=UID, what="look", outcome=f"saw [{SIX}] and {LATEST}.")
    p.audit_note(by="staff", what="export", facts=[AuditFact("filter", {"filter": f'{{"name_prefix": "{NAME}"}}'})])
    for asked in (SessionFilter(uid=UID, device="none"), SessionFilter(ip=FOUR, device="none"),
                  SessionFilter(text=NAME, device="none")):  # fmt: skip
        p.kick_where(asked, expected=0, **SAID)
    p.kick_where(SessionFilter(device="none"), expected=0, exclude=[f"{UID}:{sids[-1]}", "bob:session-1"], by=UID,
                 reason="test")  # fmt: skip
    p.revoke_before(p.clock.ms / 1000 - 3600, by="staff", reason="test")
    for who in (UID, NAME.upper(), ALIAS):
        p.login_failed(who, why="wrong_password", ip=SIX)
    p.login_failed("bob", why="wrong_password", ip="192.0.2.1")
    p.add_remark(UID, f"{NAME} calls about refunds", by="staff")
    queue_notice(p, p.sessions(UID)[0])
    assert len(p.sessions(UID)) == 3
    p.block(UID, **SAID)
    return sids


def _needles(sids: list[str]) -> list[bytes]:
    texts = [UID, NAME, ALIAS, FOUR, LATEST, SIX, "Vantongeren", "telephone", CITY, FAR_CITY, "zoe vanton", *sids]
    packed = [inet_pton(AF_INET, FOUR), inet_pton(AF_INET, LATEST), inet_pton(AF_INET6, SIX)]
    return [form.encode() for text in texts for form in {text, text.lower(), text.upper()}] + packed


def _traces(bed: Bed, sids: list[str]) -> list[tuple[bytes, bytes]]:
    """The keys that still contain data of this person, in their names or in any byte of their values."""
    return [
        (key, needle)
        for key, value in bed.dump().items()
        for needle in _needles(sids)
        if needle in key or needle in (value or b"")
    ]


def _fields_with_traces(bed: Bed, sids: list[str]) -> set[str]:
    """The fields of session records that contain data of this person."""
    return {
        letter.decode()
        for key in bed.families()["session:"]
        for letter, value in bed.raw.hgetall(key).items()
        if any(needle in value for needle in _needles(sids))
    }


def _of_others(bed: Bed) -> dict[bytes, bytes]:
    return {key: value for key, value in bed.dump().items() if b":bob" in key or key.endswith(b"pat:7f3a")}


@every_topology
def test_an_erased_person_is_in_no_byte_of_any_key(p: P, bed: Bed) -> None:
    sids = _live_a_life(p)
    families = {key.split(b"}:")[1].split(b":")[0] for key, _ in _traces(bed, sids)}
    assert families >= {
        b"sessions", b"deadlines", b"users", b"user", b"session", b"devices", b"ended", b"labels", b"note", b"events",
        b"audit", b"block", b"blocks", b"job", b"denied", b"words", b"addresses", b"facets", b"person",
        b"known", b"place", b"signins", b"on_behalf", b"idp", b"remarks", b"remarked", b"notices",
        b"notice_queue",
    }  # fmt: skip
    full_table = {"C", "A"}  # only where the label table is full
    assert _fields_with_traces(bed, sids) | full_table == {field.letter for field in FIELDS if field.person}
    before, counts = _of_others(bed), p.counts()
    acts = len(p.audit(limit=1000).items)
    ends, others = p.ended("bob").items, p.sessions("bob")

    report = p.erase(UID, by="dpo", reason=f"asked by {NAME}")

    assert _traces(bed, sids) == []
    assert _of_others(bed) == before
    assert (p.ended("bob").items, p.sessions("bob")) == (ends, others)
    assert report.complete
    assert (report.kicked, report.unblocked, report.live) == (3, True, 0)
    assert report.sessions == len(sids)
    assert p.counts().sessions == counts.sessions - 3 == 2
    assert p.people("vanton") == p.people(ALIAS) == []
    assert p.facets("device") == {"tv": 2}
    page = p.audit(limit=1000)
    assert len(page.items) == page.total == acts + 1, "nothing that staff did is lost"
    reported = p.audit(uid=report.pseudonym, limit=1000).items
    actions = {"kick", "block", "unblock", "denied", "forget", "login_on_behalf", "add_remark"}
    assert {entry.action for entry in reported} == actions
    assert reported[0].reason == f"asked by {report.pseudonym}"
    assert all(entry.session_id is None for entry in reported)
    assert [entry.by for entry in p.audit(uid="bob").items].count("staff") >= 3
    assert len(p.jobs().items) == 4, "what is left of each can still be read"
    assert {block.uid for block in p.blocks()} == {"bob", "pat:7f3a"}
    assert p.repair().repaired == 0, "nothing was left untidy"


@pytest.mark.parametrize("name", ["valkey", "redis7"])
def test_an_erased_person_is_in_no_byte_of_the_rewritten_files_of_redis(name: str, tmp_path: Path) -> None:
    binary = (valkey_binary() if name == "valkey" else redis_binary()) or missing(name)
    kept = (*KEEPS_ALL, "--rdbcompression", "no")

    def found(sids: list[str]) -> dict[str, int]:
        """How many of the searched texts are in the snapshot, and how many in the append-only file."""
        files = [path for path in server.directory.rglob("*") if path.suffix in (".rdb", ".aof")]
        held = {"snapshot": b"", "append-only": b""}
        for path in files:
            held["snapshot" if path.name == "dump.rdb" else "append-only"] += path.read_bytes()
        assert all(held.values())
        return {what: sum(needle in said for needle in _needles(sids)) for what, said in held.items()}

    with Server.start(binary, tmp_path, *kept) as server, P.from_url(server.url, Settings(**SETTINGS)) as made:
        p = sync_facade(made, Clock(lambda: round(time.time() * 1000)))
        p.freeze()
        sids = _live_a_life(p)
        server.command("SAVE")
        assert min(found(sids).values()) > len(sids)
        assert p.erase(UID, by="dpo", reason=f"asked by {NAME}").complete
        server.command("SAVE")
        server.command("BGREWRITEAOF")
        wait_for("files without the person", lambda: set(found(sids).values()) == {0})


@on("valkey-async", "redis7-sync")
def test_an_erasure_may_be_repeated_and_the_person_may_return(p: P, bed: Bed) -> None:
    sids = _live_a_life(p)
    first = p.erase(UID, by="dpo", reason="asked")
    again = p.erase(UID, by="dpo", reason="asked")
    assert (again.pseudonym, again.kicked, again.sessions, again.rewritten) == (first.pseudonym, 0, 0, 0)
    assert _traces(bed, sids) == []
    back = p.login(UID, name=NAME, ip=FOUR)
    assert p.validate(back.token)
    assert p.sessions(UID)[0].name == NAME
    assert [person.uid for person in p.people("vanton")] == [UID]


class _Killed(Exception):
    pass


def _counted(op: Op[Any], seen: list[int], most: int = 10_000) -> Op[Any]:
    """Run an operation whose process dies after some batches; returns the number of batches sent."""
    replies = None
    try:
        while seen[0] < most:
            batch = op.send(replies)  # type: ignore[arg-type]
            seen[0] += 1
            replies = yield batch
    except StopIteration as end:
        return end.value
    raise _Killed


@on("valkey-sync")
def test_an_erasure_killed_at_any_step_is_completed_by_the_next(
    p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "ENTRIES", 9)
    monkeypatch.setattr(erase, "BATCH", 4)
    monkeypatch.setattr(rewrite, "BATCH", 4)
    _live_a_life(p)
    total = [0]
    p.internal.run(_counted(erase.erase(p.internal.context, UID, "dpo", "asked"), total))
    assert total[0] > 50
    for most in range(2, total[0], 9):
        p.unblock("bob", by="staff", reason="test")
        p.unblock("pat:7f3a", by="staff", reason="test")
        sids = _live_a_life(p)
        with pytest.raises(_Killed):
            p.internal.run(_counted(erase.erase(p.internal.context, UID, "dpo", "asked"), [0], most))
        assert p.erase(UID, by="dpo", reason="asked").complete
        assert _traces(bed, sids) == [], most


def _meddled(op: Op[Any], at: int, act: Callable[[], object]) -> Op[Any]:
    """Run an operation, and call something else before one of its batches."""
    replies = None
    for number in itertools.count():
        try:
            batch = op.send(replies)  # type: ignore[arg-type]
        except StopIteration as end:
            return end.value
        if number == at:
            act()
        replies = yield batch


@pytest.mark.parametrize("how", ["kicked", "replaced", "not let in"])
@on("valkey-sync")
def test_a_person_who_logs_in_and_out_during_the_erasure_leaves_no_trace_or_it_is_reported(
    p: P, bed: Bed, how: str
) -> None:
    other = bed.connect(max_sessions=1)
    sids: list[str] = []
    came: list[int] = []

    def come_and_go() -> None:
        came.append(1)
        if how == "not let in":
            other.block(UID, **TEST)
            other.unblock(UID, **TEST)
            return
        for _ in range(2):
            sids.append(other.login(UID, name=NAME, aliases=[ALIAS], ip=FOUR).session.session_id)
            other.advance(0.01)
        if how == "kicked":
            other.kick(UID, **SAID, message=f"Dear {NAME}")

    said = set()
    missed: list[int] = []
    for at in itertools.count(2):
        p.logout(UID, p.login(UID, name=NAME, aliases=[ALIAS], ip=FOUR).session.session_id)
        p.audit_note(by="staff", what="look", uid=UID)
        report = p.internal.run(_meddled(erase.erase(p.internal.context, UID, "dpo", "asked"), at, come_and_go))
        if len(came) < at - 1:  # it had expired before
            break
        said.add(report.complete)
        if report.complete and _traces(bed, sids):
            missed.append(at)
        assert report.complete or report.live == 1
        assert p.erase(UID, by="dpo", reason="asked").complete
        assert _traces(bed, sids) == [], at
    assert len(came) > 20
    assert min(missed) >= at - 2, "once it has looked for the last time, at events and at the audit: that is a return"
    assert said == ({True, False} if how == "replaced" else {True})


@on("valkey-sync")
def test_a_bulk_kick_keeps_no_uid_in_its_stored_position(p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BATCH", 1)

    def logins() -> None:
        for uid in ("zed", "bob", UID, "eve"):
            p.login(uid, device="tv")
            p.advance(0.01)

    def place(job: str) -> bytes:
        raw = bed.raw.hget(p.context.keys.shards[0].job(job), "cursor") or b""
        return urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))

    logins()
    done = p.kick_where(SessionFilter(device="tv"), expected=4, **TEST).job
    assert done is not None
    assert place(done.id) == b""
    logins()
    waits = p.start_kick(SessionFilter(device="tv"), expected=4, **TEST)
    at_work = runner.Run(p.context, waits.id)
    for _ in range(3):
        p.internal.run(at_work.step())
    p.pause_job(waits.id, by="staff")
    assert UID.encode() in place(waits.id)
    report = p.erase(UID, by="dpo", reason="asked")
    assert report.unfinished == (waits.id,)
    assert UID.encode() in place(waits.id), "it is needed to go on"
    p.cancel_job(waits.id, by="staff")
    assert p.erase(UID, by="dpo", reason="asked").complete
    assert place(waits.id) == b""
    assert p.job(waits.id)


@on("valkey-sync")
def test_a_name_is_found_in_any_spelling_and_half_of_it_in_texts_about_the_person(p: P, bed: Bed) -> None:
    p.login(UID, name=NAME, aliases=["张 伟"])
    for written in ("Zoe Vantongeren", "ZOË  VANTONGEREN", unicodedata.normalize("NFD", NAME)):
        p.audit_note(by="staff", what="look", uid="bob", reason=f"knows {written}.")
        p.kick_where(SessionFilter(text=written, device="none"), expected=0, **TEST)
    p.block(UID, by="staff", reason="Ms Vantongeren: 请给张 伟打电话")
    assert p.erase(UID, by="dpo", reason="asked").complete
    reported = "".join(entry.reason or "" for entry in p.audit(limit=100).items).casefold()
    asked = "".join(str(job.filter.text) for job in p.jobs()).casefold()
    for half in ("zoe", "zoë", unicodedata.normalize("NFD", "zoë"), "vantongeren", "伟"):
        assert half not in reported + asked, half
    assert "请给forgotten:" in reported


@on("valkey-sync")
def test_the_same_words_in_texts_about_others_stay_as_they_were(p: P) -> None:
    for uid, name in (("u-17", "May Lee"), ("bob", "Bob Other")):
        p.login(uid, name=name)
        p.kick(uid, **TEST, message="You may sign in again.")
    assert p.erase("u-17", by="dpo", reason="asked").complete
    assert p.ended("bob").items[0].message == "You may sign in again."


@on("valkey-sync")
def test_a_uid_that_is_a_small_number_removes_no_number_from_texts_about_others(p: P) -> None:
    p.login("44", name="Ann Other")
    said = "44 of 1,044 sessions, by 44 from 10.0.0.44, ticket T-44"
    p.audit_note(by="staff", what="look", uid="bob", reason=said, outcome=said)
    p.audit_note(by="staff", what="look", uid="44", reason="44 called from 10.0.0.44: 1,044 times")
    asked = SessionFilter(app="web", app_version="2026.44", ip="10.0.0.44", uid="44-b", attributes={"floor": "44"})
    waits = p.start_kick(asked, expected=0, **TEST)
    report = p.erase("44", by="dpo", reason="asked")
    assert report.complete, "that is running, and names another user"
    [other] = p.audit(uid="bob").items
    assert (other.reason, other.outcome) == (said, said)
    assert p.audit(uid=report.pseudonym).items[-1].reason == (f"{report.pseudonym} called from 10.0.0.44: 1,044 times")
    after = p.cancel_job(waits.id, by="staff").filter
    assert {name: getattr(after, name) for name in asked.given} == {name: getattr(asked, name) for name in asked.given}


@on("valkey-sync")
def test_saved_items_whose_names_differ_only_in_the_case_of_the_erased_name_are_all_kept(p: P) -> None:
    p.login(UID, name=NAME)
    for number, name in enumerate((NAME, NAME.upper(), NAME.lower())):
        p.save_item("view", name, f"q={number}", by="dana")
    pseudonym = p.erase(UID, by="dpo", reason="asked").pseudonym
    kept = {item.name: item.text for item in p.saved_items("view", owner="dana")}
    assert sorted(kept) == [pseudonym, f"{pseudonym} (2)", f"{pseudonym} (3)"]
    assert sorted(kept.values()) == ["q=0", "q=1", "q=2"]


@on("valkey-sync")
def test_a_text_shared_with_the_ended_session_of_another_user_stays(p: P) -> None:
    for uid in (UID, "bob"):
        p.kick(uid, p.login(uid, device="slate", user_agent=f"curl/{uid}").session.session_id, **TEST)
    assert p.erase(UID, by="dpo", reason="asked").complete
    [ended] = p.ended("bob").items
    assert (ended.device, ended.user_agent) == ("slate", "curl/bob")


@on("valkey-sync")
def test_denied_attempts_against_a_person_erased_twice_in_an_hour_are_counted_together(p: P) -> None:
    for times in (1, 2):
        for _ in range(times):
            p.advance(1)
            p.denied(by=UID, what="kick", uid="bob", reason="role viewer")
        report = p.erase(UID, by="dpo", reason="asked")
    [tried] = [entry for entry in p.audit(by=report.pseudonym) if entry.action == "denied"]
    assert tried.count == 3


@on("valkey-sync")
def test_a_held_change_of_an_erased_person_is_dropped(bed: Bed) -> None:
    p = bed.connect(confirm_replicas=1, confirm_timeout=20, confirm_hold=0)
    for uid in (UID, "bob"):
        p.login(uid)
        p.kick(uid, **TEST)
        p.block(uid, **TEST)
    assert p.unconfirmed() == 4
    p.erase(UID, by="dpo", reason="asked")
    assert p.unconfirmed() == 3, "what bob has, and that the person was erased"


def _broken(*given: object) -> Op[Any]:
    yield []
    raise Unavailable("It is away.")


@on("valkey-sync")
def test_held_changes_of_a_person_stay_held_where_the_erasure_fails(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_ack, "ROUND_SECONDS", 1000)
    p = bed.connect(confirm_replicas=1, confirm_timeout=20, confirm_hold=600)
    p.login(UID)
    p.kick(UID, block_for=600, **TEST)
    held = dict(p.internal.context.held)
    assert len(held) == 2
    with monkeypatch.context() as patch:
        patch.setattr(erase, "_erase_round", _broken)
        with pytest.raises(Unavailable):
            p.erase(UID, **TEST)
    assert p.internal.context.held == held
    p.erase(UID, **TEST)
    assert list(p.internal.context.held) == [("erased", UID)]


def _go_back_to(bed: Bed, before: dict[bytes, bytes]) -> None:
    """The data are those of a replica that has not heard of the latest changes."""
    bed.raw.delete(*bed.dump())
    for key, value in before.items():
        bed.raw.restore(key, 0, value)


@on("valkey-sync")
def test_an_erasure_that_a_round_could_not_repeat_is_repeated_by_the_next(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_ack, "ROUND_SECONDS", 1000)
    p = bed.connect(confirm_replicas=1, confirm_timeout=20, confirm_hold=600)
    token = p.login(UID, name=NAME).token
    before = bed.dump()
    p.erase(UID, **TEST)
    _go_back_to(bed, before)
    with monkeypatch.context() as patch:
        patch.setattr(erase, "_erase_round", _broken)
        with pytest.raises(Unavailable):
            p.internal.run(confirm(p.internal.context))
    assert not p.validate(token), "the round has ended the session and failed later"
    p.internal.run(confirm(p.internal.context))
    assert p.names_of([UID]) == {}
    assert p.ended(UID).items == []


@pytest.mark.parametrize("left", ["a block", "an offline person", "a device"])
@on("valkey-sync")
def test_an_erasure_that_a_failover_lost_is_repeated_for_a_person_without_sessions(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    monkeypatch.setattr(replica_ack, "ROUND_SECONDS", 1000)
    p = bed.connect(confirm_replicas=1, confirm_timeout=20, confirm_hold=600, keep_logout=0)
    if left == "a block":
        p.block(UID, **TEST)
    else:
        p.logout(UID, p.login(UID, name=NAME, device_id="device-12345").session.session_id)
    p.internal.context.held.clear()
    if left == "a device":
        bed.raw.zrem(p.internal.context.shard(UID).people, UID)
    before = bed.dump()
    p.erase(UID, **TEST)
    after = bed.dump().keys()
    _go_back_to(bed, before)
    p.confirm()
    assert bed.dump().keys() == after
    p.block(UID, **TEST)
    p.confirm()
    assert p.blocked(UID), "the new block is later than the erasure"


@on("valkey-sync", "cluster-sync")
def test_during_a_reshard_no_person_is_reported_as_erased(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old keys still exist, and no search would look at them."""
    p = bed.connect()
    p.login(UID, name=NAME)
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)

    def die(*_: object) -> Op[int]:
        raise _Killed

    monkeypatch.setattr(coordinator, "remove", die)
    with pytest.raises(_Killed):
        p.reshard(8)
    with pytest.raises(Unavailable, match="presence reshard has finished"):
        p.erase(UID, by="dpo", reason="asked")
    assert p.sessions(UID)
    monkeypatch.undo()
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)
    p.reshard(8)
    assert p.erase(UID, by="dpo", reason="asked").complete
    assert not [key for key, value in bed.dump().items() if UID.encode() in key + (value or b"")]


@on("valkey-sync", "cluster-sync")
def test_other_users_log_in_and_out_during_an_erasure(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the clock of Redis; the streams are copied again while they grow."""
    monkeypatch.setattr(rewrite, "ENTRIES", 100)
    p, other = bed.connect(), bed.connect()
    people = [f"u{number}" for number in range(40)]
    p.login_many({"uid": uid, "name": f"N {uid}", "ip": FOUR, "device": "tv"} for uid in people[:20] for _ in range(40))
    for uid in people:
        p.audit_note(by="staff", what="look", uid=uid)
    started, done = threading.Event(), threading.Event()

    def traffic() -> None:
        number = 0
        while not done.is_set():
            uid = f"v{number}"
            other.login(uid)
            other.kick(uid, by="staff", reason="traffic")
            number += 1
            started.set()
        counted.append(number)

    counted: list[int] = []
    thread = threading.Thread(target=traffic)
    thread.start()
    started.wait()
    try:
        reports = [p.erase(uid, by="dpo", reason="asked") for uid in people[:8]]
    finally:
        done.set()
        thread.join()
    assert all(report.complete and report.kicked == 40 for report in reports)
    [number] = counted
    audit = [entry for shard in p.context.keys.shards for _, entry in bed.raw.xrange(shard.audit)]
    events = [event for shard in p.context.keys.shards for _, event in bed.raw.xrange(shard.events)]
    assert sum(entry[b"uid"].startswith(b"v") for entry in audit) == number, (
        "no entry of another's is lost, none is twice"
    )
    assert sum(event[b"r"].startswith(b"v") for event in events) == 2 * number
    assert len({event[b"r"].partition(b":")[0] for event in events} & {uid.encode() for uid in people}) == 12
    assert p.counts().sessions == 12 * 40
    assert "retold:" not in bed.families()


@on("valkey-sync", "redis7-sync")
def test_changes_between_the_last_read_and_the_last_write_are_erased_too(
    p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrite, "ENTRIES", 2)
    for _ in range(2):
        p.audit_note(by="staff", what="look")
    s = p.context.keys.shards[0]
    op = rewrite._copy_stream(p.context, s, s.audit, lambda _: None)
    calls, looked = next(op), True  # returns at once
    reported = None
    try:
        while True:
            if calls[0].script is REWRITE_STREAM and not looked:
                p.audit_note(by="staff", what="late")
            bed.raw.script_load(REWRITE_STREAM.text)
            replies = [bed.raw.execute_command(*call.words) for call in calls]
            looked = bool(replies[0])
            calls = op.send(replies)
    except StopIteration as done:
        reported = done.value
    assert reported == 0, "no other erasure came before: nothing to begin again"
    assert bed.raw.xlen(s.audit) == 3
    assert "retold:" not in bed.families()


@on("valkey-sync")
def test_several_people_are_erased_at_the_same_time(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "ENTRIES", 20)
    p = bed.connect()
    people = [f"u{number}" for number in range(8)]
    for uid in people * 10:
        p.login(uid)
        p.audit_note(by="staff", what="look", uid=uid)
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda uid: p.erase(uid, by="dpo", reason="asked"), people[:4]))
    assert all(report.complete for report in reports)
    [audit], [events] = bed.families()["audit"], bed.families()["events"]
    acts = [entry[b"uid"].decode() for _, entry in bed.raw.xrange(audit)]
    assert {uid: acts.count(uid) for uid in people} == {uid: 10 * (uid in people[4:]) for uid in people}
    assert sorted(acts.count(report.pseudonym) for report in reports) == [11] * 4
    assert {event[b"r"].partition(b":")[0].decode() for _, event in bed.raw.xrange(events)} == set(people[4:])


@on("valkey-sync")
def test_a_connection_that_uses_resp3_can_erase_and_export_too(p: P, bed: Bed) -> None:
    newer = bed.connect_to(f"{bed.url}?protocol=3", **SETTINGS)
    sids = _live_a_life(p)
    assert len(newer.export_person(UID)["ended"]) == len(sids) - 3
    assert newer.erase(UID, by="dpo", reason="asked").sessions == len(sids)
    assert _traces(bed, sids) == []


@on("valkey-sync", "redis7-sync")
def test_readers_of_events_and_audit_continue_where_they_were(p: P) -> None:
    for number in range(6):
        p.login(UID if number % 2 else f"u{number}")
    first = p.events(limit=2)
    page = p.audit(limit=1)
    for number in range(3):
        p.audit_note(by="staff", what=f"act {number}")
    page = p.audit(limit=1)
    p.erase(UID, by="dpo", reason="asked")
    rest = p.events(after=first[-1].cursor)
    assert [event.uid for event in rest] == ["u2", "u4"]
    p.login("late")
    assert [event.uid for event in p.events(after=rest[-1].cursor)] == ["late"]
    assert [entry.action for entry in p.audit(cursor=page.next_cursor)] == ["act 1", "act 0"]


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_a_running_bulk_kick_is_not_changed_and_is_reported(p: P) -> None:
    p.login(UID)
    p.advance(0.01)
    job = p.start_kick(SessionFilter(uid=UID), by="staff", reason="test", expected=1)
    report = p.erase(UID, by="dpo", reason="asked")
    assert report.unfinished == (job.id,)
    assert not report.complete
    p.cancel_job(job.id, by="staff")
    report = p.erase(UID, by="dpo", reason="asked")
    assert report.complete
    after = p.job(job.id)
    assert after is not None
    assert after.filter.uid == report.pseudonym


def test_a_filter_that_excludes_a_person_does_not_name_them_after_an_erasure(p: P) -> None:
    p.login(UID, name=NAME, ip=FOUR)
    p.advance(0.01)
    jobs = [
        p.start_kick(SessionFilter(device="none", without=inner), by="staff", reason="test", expected=0)
        for inner in (SessionFilter(uid=UID), SessionFilter(text=NAME), SessionFilter(ip=FOUR, mfa=True))
    ]
    for job in jobs:
        p.cancel_job(job.id, by="staff")
    report = p.erase(UID, by="dpo", reason="asked")
    assert report.complete
    after = [known.filter.without for job in jobs if (known := p.job(job.id))]
    assert [inner.given for inner in after if inner] == [("uid",), ("text",), ("ip", "mfa")]
    assert after[0] == SessionFilter(uid=report.pseudonym)
    assert not any(inner and term in inner.to_json() for inner in after for term in (UID, NAME, FOUR))


@every_topology
def test_an_erased_person_leaves_no_failed_sign_in_under_any_of_their_names(p: P, bed: Bed) -> None:
    _live_a_life(p)
    assert len(p.failed_logins(UID)) == 3
    p.erase(UID, by="staff", reason="asked")
    for who in (UID, NAME, ALIAS):
        assert p.failed_logins(who).items == []
    assert [failure.uid for failure in p.failed_logins()] == ["bob"]
    assert bed.families().get("failed_names:", []) == []


@on("valkey-sync")
def test_a_sign_in_that_fails_during_the_erasure_leaves_no_entry_that_names_the_person(p: P, bed: Bed) -> None:
    came: list[int] = []

    def fail() -> None:
        came.append(1)
        for who in (UID, ALIAS):
            p.login_failed(who, why="wrong_password", ip=f"192.0.{len(came)}.2")  # a network begins few rows

    for at in itertools.count():
        p.login(UID, name=NAME, aliases=[ALIAS], ip=FOUR)
        for who in (UID, ALIAS):
            p.login_failed(who, why="locked", ip=f"198.51.{len(came)}.2")
        assert p.internal.run(_meddled(erase.erase(p.context, UID, "dpo", "asked"), at, fail)).complete
        if len(came) == at:  # it had ended before
            break
        assert [key for key, value in bed.dump().items() if UID.encode() in key + value] == [], at
        assert bed.families().get("failed_names", []) == [], at
    assert len(came) > 20


@on("valkey-sync")
def test_an_erased_person_leaves_no_digest_of_a_name_in_the_list_either_whose_rows_have_expired(p: P, bed: Bed) -> None:
    p.login(UID, aliases=[ALIAS])
    p.login_failed(ALIAS, why="wrong_password")
    bed.raw.delete(*bed.families()["failed_names:"])
    p.erase(UID, by="dpo", reason="asked")
    assert bed.families().get("failed_names", []) == []


def test_an_erasure_knows_the_key_of_the_digests_that_another_client_has_just_made(p: P, bed: Bed) -> None:
    other = bed.connect()
    p.login(UID, aliases=[ALIAS])
    p.login_failed(ALIAS, why="wrong_password")
    other.rotate_device_key(by="sue", reason="test")
    other.login_failed(ALIAS, why="wrong_password")
    p.erase(UID, by="dpo", reason="asked")
    assert bed.families().get("failed_names", []) == []


def test_an_export_has_all_data_of_one_person_and_none_of_others(p: P) -> None:
    sids = _live_a_life(p)
    out = json.loads(json.dumps(p.export_person(UID)))
    assert {session["session_id"] for session in out["sessions"] + out["ended"]} == set(sids)
    assert {ended["reason"] for ended in out["ended"]} == {"logout", "kicked", "expired", "replaced"}
    assert out["sessions"][0]["last_ip"] == LATEST
    assert out["block"]["ticket"] == "T-9"
    actions = {"kick", "block", "unblock", "denied", "login_on_behalf", "add_remark"}
    assert {entry["action"] for entry in out["audit"]} == actions
    assert [remark["text"] for remark in out["remarks"]] == [f"{NAME} calls about refunds"]
    assert [(notice["kinds"], notice["state"]) for notice in out["notices"]] == [(["new_device"], "waiting")]
    assert [event["kind"] for event in out["events"]].count("login") == len(sids)
    assert len(out["sign_ins"]) == len(sids) - 1, "without the login on behalf of them"
    assert {CITY, FAR_CITY} < {(sign_in["place"] or {}).get("city") for sign_in in out["sign_ins"]}
    assert out["person"]["online"]
    assert [failure["why"] for failure in out["failed_logins"]] == ["wrong_password"] * 3
    assert out["cut"] == []
    assert "bob" not in json.dumps({**out, "audit": []})
    unknown = p.export_person("unknown")
    assert unknown["sessions"] == unknown["ended"] == unknown["events"] == []


# -- the command ------------------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_the_command_asks_for_the_uid_and_erases(
    p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    sids = _live_a_life(p)

    def said(*words: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = cli.main(words)
        caught = capsys.readouterr()
        return code, caught.out, caught.err

    code, out, _ = said("export-person", UID, "--by", "dpo")
    assert code == 0
    assert {ended["session_id"] for ended in json.loads(out)["ended"]} < set(sids)
    assert p.audit(by="dpo").items[0].action == "export_person"
    for typed in ("", "yes\n", "3\n"):
        code, out, err = said("erase", UID, "--by", "dpo", "--reason", "asked", typed=typed)
        assert (code, out) == (1, "")
        assert "3 live sessions" in err
        assert err.endswith("Nothing was done.\n")
    assert len(p.sessions(UID)) == 3
    code, out, _ = said("erase", UID, "--by", "dpo", "--reason", "asked", typed=f"{UID}\n")
    assert code == 0
    assert f"Erased {len(sids)} sessions (live: 3)." in out
    assert _traces(bed, sids) == []
    code, out, _ = said("erase", UID, "--by", "dpo", "--reason", "asked", "--yes", "--json")
    assert (code, json.loads(out)["sessions"]) == (0, 0)
    assert said("export-person", "nobody", "--by", "dpo")[0] == 1
    for words in (["erase", ""], ["erase", "ada", "--reason", " "], ["export-person", ""]):
        rest = [] if "--reason" in words or words[0] == "export-person" else ["--reason", "x"]
        code, out, err = said(*words, *rest)
        assert (code, out) == (2, "")
        assert "must be text" in err


# -- addresses lose their end ------------------------------------------------------------------------------------------


@every_topology
def test_the_worker_shortens_addresses_of_ended_sessions_after_the_configured_days(bed: Bed) -> None:
    p = bed.connect(truncate_addresses_after=3, idle_timeout=30 * 86_400, absolute_timeout=30 * 86_400,
                    keep_logout=30 * 86_400)  # fmt: skip
    p.freeze()
    for address in (FOUR, SIX):
        made = p.login("ada", ip=address)
        p.validate(made.token, ip=LATEST)
        p.logout("ada", made.session.session_id)
    live = p.login("ada", ip=FOUR)
    p.advance(2.9 * 86_400)
    late = p.login("bob", ip=FOUR).session
    p.logout("bob", late.session_id)
    worker = Worker(p if bed.backend.mode == "sync" else _sync(bed, p))
    for _ in range(2):
        _truncate(worker)
    assert {ended.ip for ended in p.ended("ada")} == {FOUR, SIX}
    p.advance(0.2 * 86_400)
    worker._presence.internal.context.now = p.context.now
    _truncate(worker)
    assert {(ended.ip, ended.last_ip) for ended in p.ended("ada")} == {
        ("198.51.100.0", "203.0.113.0"), ("2001:db8:77::", "203.0.113.0"),
    }  # fmt: skip
    assert p.ended("bob").items[0].ip == FOUR, "not yet"
    assert p.get("ada", live.session.session_id) is not None
    assert p.sessions("ada")[0].ip == FOUR, "a live session keeps its address"
    p.advance(3 * 86_400)
    worker._presence.internal.context.now = p.context.now
    _truncate(worker)
    assert p.ended("bob").items[0].ip == "198.51.100.0"


def _truncate(worker: Worker) -> None:
    """Run to the end: a run that is interrupted goes on later, up to the time at which it began."""
    while worker._truncation.run():
        pass


def _sync(bed: Bed, p: P) -> P:
    made = P.from_url(bed.url, p.settings)
    bed._open.append(made.close)
    made.internal.context.now = p.context.now
    made.counts()
    assert isinstance(made, P)
    return made


@on("valkey-sync", "redis7-sync")
def test_many_sessions_that_ended_in_one_millisecond_are_all_shortened(bed: Bed) -> None:
    p = bed.connect(truncate_addresses_after=0)
    p.freeze()
    p.login_many({"uid": f"u{number}", "ip": FOUR, "idle_timeout": 10} for number in range(950))
    p.advance(20)
    p.sweep()
    worker = Worker(p)
    _truncate(worker)
    assert {ended.ip for ended in p.ended(limit=1000)} == {"198.51.100.0"}


@on("valkey-sync", "redis7-sync")
def test_with_the_addresses_go_city_and_coordinates_and_country_and_network_stay(bed: Bed, tmp_path: Path) -> None:
    networks = {f"{FOUR}/32": city("FR", CITY, (45, 5), 64500, "Net"), f"{LATEST}/32": city("JP", FAR_CITY, (35, 139))}
    p = bed.connect(truncate_addresses_after=1, place_file=str(write_place_file(tmp_path / "places.mmdb", networks)))
    p.freeze()
    near = p.login("ada", ip=FOUR).session
    p.advance(60)
    p.logout("ada", near.session_id)
    p.advance(1)
    p.logout("ada", p.login("ada", ip=LATEST).session.session_id)
    moving = p.login("eve", ip=FOUR)
    p.advance(60)
    assert p.validate(moving.token, ip=LATEST).moved
    p.logout("eve", moving.session.session_id)
    p.advance(86_500)
    worker = Worker(p)
    _truncate(worker)
    [moved] = p.ended("eve")
    assert moved.move is not None
    assert moved.last_place == moved.move.after.place == Place(country="JP")
    assert moved.move.before.place == moved.place == Place(country="FR", network="Net", asn=64500)
    far, before = p.ended("ada").items
    assert far.distant
    assert far.place == Place(country="JP")
    assert far.previous_place == Place(country="FR", asn=64500)
    assert far.previous_login_at == before.login_at == near.login_at
    assert before.place == Place(country="FR", network="Net", asn=64500)
    stored = b"".join(
        value or b"" for key, value in bed.dump().items() if b":place:" not in key
    )  # has a TTL of its own
    assert not any(name.encode() in stored for name in (CITY, FAR_CITY))
    written = p.ended("ada").items
    _truncate(worker)
    assert p.ended("ada").items == written
