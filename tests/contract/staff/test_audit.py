"""The audit: actor, action, target, reason and outcome, one entry per change; a flood of denied attempts is a count."""

from __future__ import annotations

import io
import itertools
import threading
from contextlib import redirect_stdout
from datetime import timedelta
from typing import Any

import pytest

from presence_core import AuditEntry, AuditFact, CorruptData, InvalidArgument, cli
from presence_core.operations.staff import audit as operations
from presence_core.scripts.staff import BLOCK_USER, COUNT_DENIED, RELEASE_BLOCKS, TRIM_AUDIT, UNBLOCK_USER
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.soak import size

GRACE: dict[str, Any] = {"by": "Grace Hopper", "reason": "stolen phone"}


def _summary(entries: Any) -> list[tuple[str | None, str, str | None]]:
    return [(entry.by, entry.action, entry.uid) for entry in entries]


@every_backend
def test_every_staff_action_is_in_the_audit_with_actor_target_reason_and_outcome(p: P) -> None:
    p.freeze()
    for sid in ("session-1", "session-2", "session-3"):
        p.login("ada", session_id=sid)
    p.kick("ada", "session-1", **GRACE, message="Call us.", ticket="T-1")
    p.advance(1)
    p.kick("ada", by="second", reason="all")
    p.advance(1)
    p.kick("ada", by="third", reason="late")
    p.advance(1)
    p.block("ada", by="fourth", reason="hold", message="Held.", ticket="T-2", duration=60)
    p.advance(1)
    p.unblock("ada", by="fifth", reason="paid")
    page = p.audit()
    assert _summary(page) == [
        ("fifth", "unblock", "ada"),
        ("fourth", "block", "ada"),
        ("third", "kick", "ada"),
        ("second", "kick", "ada"),
        ("Grace Hopper", "kick", "ada"),
    ]
    end = p.clock.now + timedelta(seconds=59)
    assert [entry.outcome for entry in page] == [
        "unblocked",
        f"blocked until {end:%Y-%m-%d %H:%M:%S} UTC",
        "no session to end",
        "2 sessions ended",
        "1 session ended",
    ]
    assert page.items[-1] == AuditEntry(
        at=p.clock.now - timedelta(seconds=4), by="Grace Hopper", action="kick", uid="ada", session_id="session-1",
        reason="stolen phone", message="Call us.", ticket="T-1", outcome="1 session ended", count=1,
        facts=(AuditFact("ended", {"count": 1}),),
    )  # fmt: skip
    assert (page.items[1].message, page.items[1].ticket, page.items[1].session_id) == ("Held.", "T-2", None)
    assert (page.total, page.total_is_exact, page.next_cursor, page.as_of) == (5, True, None, p.clock.now)


@every_topology
def test_a_kick_that_blocks_is_one_entry_with_both(p: P) -> None:
    p.freeze()
    p.login("ada")
    p.kick("ada", **GRACE, message="Call us.", ticket="T-1", block_for=60)
    [entry] = p.audit()
    end = p.clock.now + timedelta(seconds=60)
    assert entry.outcome == f"1 session ended, blocked until {end:%Y-%m-%d %H:%M:%S} UTC"
    block = p.blocked("ada")
    assert block is not None
    assert (block.by, block.reason, block.message, block.ticket) == (*GRACE.values(), "Call us.", "T-1")
    assert block.until == end
    assert p.blocks().items == [block]


def test_an_action_without_a_target_names_no_user(p: P, raw: Any) -> None:
    p.counts()
    at = p.freeze()
    stream = p.context.keys.shards[0].audit
    raw.xadd(stream, {"at": at, "by": "s", "what": "revoke_before", "uid": "", "session": "", "until": at})
    raw.xadd(stream, {"at": at, "by": "s", "what": "kick_where", "uid": "", "outcome": "3 of 5 kicked"})
    job, revoked = p.audit()
    assert (job.uid, job.outcome) == (None, "3 of 5 kicked")
    assert (revoked.uid, revoked.session_id, revoked.reason) == (None, None, None)
    assert revoked.outcome == f"all that began before {p.clock.now:%Y-%m-%d %H:%M:%S} UTC signed out"


def test_actions_of_users_are_not_in_the_audit(p: P) -> None:
    p.login("ada", session_id="session-1")
    p.logout("ada", "session-1")
    assert (p.audit().items, p.audit().total) == ([], 0)


def _acts(p: P, number: int) -> None:
    """Blocks, a second apart, of u0…u4 by s0…s2."""
    for step in range(number):
        p.block(f"u{step % 5}", by=f"s{step % 3}", reason=f"act {step}")
        p.advance(1)


@every_topology
def test_the_audit_is_filtered_by_person_staff_member_and_time(p: P) -> None:
    start = p.freeze() / 1000
    _acts(p, 30)

    def acts(**asked: Any) -> list[int]:
        page = p.audit(limit=1000, **asked)
        assert (page.total, page.total_is_exact, page.next_cursor) == (len(page), True, None)
        return [int((entry.reason or "")[4:]) for entry in page]

    assert acts() == list(range(29, -1, -1))
    assert acts(uid="u3") == [step for step in range(29, -1, -1) if step % 5 == 3]
    assert acts(by="s1") == [step for step in range(29, -1, -1) if step % 3 == 1]
    assert acts(by="s1", uid="u3") == [28, 13]
    assert acts(since=start + 10) == list(range(29, 9, -1))
    assert acts(until=start + 10) == list(range(9, -1, -1)), "until is not in it, since is"
    assert acts(since=p.clock.now - timedelta(seconds=3), by="s2") == [29]
    assert acts(since=start + 10, until=start + 12) == [11, 10]
    assert acts(uid="nobody") == acts(by="s") == acts(since=start + 1000) == []


def test_pages_of_the_audit_together_are_all_of_it(p: P) -> None:
    p.freeze()
    _acts(p, 40)
    p.denied(by="s1", what="kick")
    everything = p.audit(limit=1000).items
    assert len(everything) == 41
    questions: list[dict[str, Any]] = [{}, {"by": "s1"}, {"uid": "u3"}]
    for limit, asked in itertools.product((1, 7, 40, 41), questions):
        seen, cursor = [], None
        while True:
            page = p.audit(limit=limit, cursor=cursor, **asked)
            seen += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page) == limit
            assert page.total_is_exact == (not asked)
        assert seen == [
            entry for entry in everything if all(getattr(entry, name) == value for name, value in asked.items())
        ]
        assert (page.total, page.total_is_exact) == (len(seen), True)


@every_topology
def test_pages_of_the_audit_are_stable_while_entries_are_added(p: P) -> None:
    p.freeze()
    _acts(p, 20)
    for number in range(5):
        p.denied(by=f"d{number}", what="kick")
    wanted = p.audit(limit=1000).items
    seen, cursor = [], None
    for step in itertools.count():
        page = p.audit(limit=4, cursor=cursor)
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
        p.advance(1)  # entries of one millisecond are ordered by a digest of their hour and name
        for number in range(10):  # on every shard, also on those that the pages have not reached
            p.block(f"new-{step}-{number}", by="new", reason="new")
        p.denied(by="new", what=f"kick {step}")
        p.denied(by="d1", what="kick")
    assert [(entry.at, entry.by, entry.reason) for entry in seen] == [
        (entry.at, entry.by, entry.reason) for entry in wanted
    ]


@on("valkey-sync", soak=("redis7-sync", "cluster-sync"))
def test_one_call_reads_a_limited_number_of_entries_and_returns_a_cursor(p: P, raw: Any) -> None:
    now = p.freeze()
    p.block("rare", by="rare", reason="first")
    for shard in (p.context.shard("a"), p.context.shard("b")):
        pipe = raw.pipeline()
        for number in range(3000):
            pipe.xadd(shard.audit, {"at": now + number, "by": "busy", "what": "kick", "uid": "u", "ended": 1})
        pipe.execute()
    found, calls, cursor = [], 0, None
    while True:
        page = p.audit(by="rare", cursor=cursor)
        found += page.items
        calls += 1
        assert page.scanned <= 5000
        cursor = page.next_cursor
        if cursor is None:
            break
        assert (page.items, page.total, page.total_is_exact) == ([], 0, False)
    assert _summary(found) == [("rare", "block", "rare")]
    assert calls == 2
    assert p.audit().total == 6001


@every_topology
def test_the_audit_is_limited_by_age(bed: Bed, raw: Any) -> None:
    day = 86_400
    p = bed.connect(keep_audit=10 * day)
    now = p.freeze()
    p.counts()
    shard = p.context.shard("ada")
    for number in range(250):
        at = now - 10 * day * 1000 - 1000 * (250 - number)
        raw.xadd(shard.audit, {"at": at, "by": f"s{number}", "what": "kick", "uid": "ada"}, id=f"{at}-0")
    p.block("ada", by="late", reason="late")
    p.advance(-100)
    _trim(p)
    page = p.audit(limit=1000)
    assert [entry.by for entry in page] == ["late", *(f"s{number}" for number in range(249, 149, -1))]
    assert (page.total, page.total_is_exact) == (101, True)
    p.advance(100)
    _trim(p)
    assert _summary(p.audit(limit=1000)) == [("late", "block", "ada")]
    assert p.audit().total == 1


def _trim(p: P) -> None:
    """The part of the sweep that removes old entries."""

    def op() -> Any:
        yield operations.trim_audit(p.context)

    p.internal.run(op())


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_the_audit_is_limited_in_number(bed: Bed) -> None:
    p = bed.connect(max_audit=100)
    for number in range(400):
        p.unblock(f"u{number}", by="s", reason="r")
    assert 100 <= p.audit().total < 300
    assert p.audit().items[0].uid == "u399"


def test_a_line_break_in_a_text_of_staff_makes_no_second_entry(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    forged = "ok\n2026-01-01 00:00:00  Grace Hopper  kick  eve\x20\n\n* what kick by Grace"
    p.block("ada", by="s", reason=forged, message=forged)
    p.denied(by="s", what="kick", uid="a:b", reason=forged)
    page = p.audit()
    assert page.total == len(page) == 2
    assert {entry.reason for entry in page} == {forged}
    assert {entry.by for entry in page} == {"s"}
    for name, value in (("by", "s\nt"), ("uid", "a\nb"), ("what", "kick\n1\n2"), ("by", "a\rb"), ("what", "\x1b[2J")):
        with pytest.raises(ValueError, match=rf"^{name} must be text of .*, without control characters\.$"):
            p.denied(**{"by": "s", "what": "kick"} | {name: value})


def test_a_note_of_facts_says_them_in_english_and_as_codes(p: P) -> None:
    facts = AuditFact("sessions_exported", {"count": 1234}), AuditFact("filter", {"filter": 'device "é"'})
    p.audit_note(by="grace", what="export", facts=facts)
    [entry] = p.audit()
    assert (entry.outcome, entry.facts) == ('1,234 sessions exported, filter device "é"', facts)
    refused: dict[str, list[Any]] = {
        "must be a list of AuditFact": ["ended"],
        "must have known codes, each with the values of its sentence": [AuditFact("ended")],
        "must be at most 2,000 characters as JSON": [AuditFact("filter", {"filter": "x" * 2_000})],
    }
    for sentence, given in refused.items():
        with pytest.raises(InvalidArgument, match=f"^facts {sentence}"):
            p.audit_note(by="grace", what="export", facts=given)
    with pytest.raises(InvalidArgument, match="known codes"):
        p.audit_note(by="grace", what="export", facts=[AuditFact("unheard of")])
    assert p.audit().total == 1


@pytest.mark.parametrize(
    "damage", [b"[[", b"{}", b'[["ended",{}]]', b'[["ended",{"count":"x"}]]', b'[["ended",3]]', b"\xff"]
)
def test_damaged_facts_are_no_facts(p: P, raw: Any, damage: bytes) -> None:
    p.counts()
    raw.xadd(p.context.keys.shards[0].audit, {"at": "1", "by": "s", "what": "kick", "uid": "ada", "facts": damage})
    [entry] = p.audit()
    assert (entry.outcome, entry.facts) == ("", ())


def test_an_action_without_effect_is_recorded_with_its_outcome(p: P) -> None:
    p.freeze()
    p.audit_note(by="grace", what="export", outcome="3 sessions exported")
    p.advance(1)  # two shards of a cluster have no common order within a millisecond
    p.audit_note(by="grace", what="export", uid="ada", reason="court order")
    about_ada, all_of_them = p.audit(by="grace")
    assert (all_of_them.action, all_of_them.outcome, all_of_them.uid) == ("export", "3 sessions exported", None)
    assert (about_ada.uid, about_ada.reason, about_ada.outcome) == ("ada", "court order", "")
    assert [entry.reason for entry in p.audit(uid="ada")] == ["court order"]
    for name, value in (("by", ""), ("what", ""), ("what", "x" * 65), ("outcome", "x" * 501), ("reason", "\x00")):
        with pytest.raises(ValueError, match=rf"^{name} must be text"):
            p.audit_note(**{"by": "grace", "what": "export"} | {name: value})  # type: ignore[arg-type]
    assert p.audit().total == 2


# -- denied attempts --------------------------------------------------------------------------------------------------


@every_topology
def test_denied_attempts_are_counted_by_actor_action_and_hour(p: P) -> None:
    hour = 3600_000
    p.set_now(p.clock.ms // hour * hour + hour)
    begin = p.clock.now
    for number in range(5):
        p.denied(by="bob", what="kick", uid=f"u{number}", reason=f"viewer {number}")
        p.advance(60)
    p.denied(by="bob", what="block")
    p.denied(by="eve", what="kick")
    p.advance(3600)
    p.denied(by="bob", what="kick")
    page = p.audit()
    assert [(entry.by, entry.action, entry.count, entry.uid, entry.reason) for entry in page if entry.by == "bob"] == [
        ("bob", "denied", 1, None, None),
        ("bob", "denied", 1, None, None),
        ("bob", "denied", 5, "u4", "viewer 4"),
    ]
    [many] = [entry for entry in page if entry.count == 5]
    last = begin + timedelta(minutes=4)
    assert many.at == begin
    assert many.outcome == f"kick refused 5 times, last at {last:%Y-%m-%d %H:%M:%S} UTC"
    assert sorted(entry.outcome for entry in page if entry.count == 1) == [
        "block refused once",
        *["kick refused once"] * 2,
    ]
    assert (page.total, page.total_is_exact) == (4, True)
    assert len(p.audit(by="bob")) == 3
    assert [entry.count for entry in p.audit(uid="u4")] == [5]
    assert [entry.count for entry in p.audit(since=last, by="bob")] == [1, 1, 5], "it went on after that"
    assert [entry.count for entry in p.audit(until=begin + timedelta(seconds=1))] == [5]


@on("valkey-sync", "cluster-sync", soak=("redis7-sync",))
def test_a_flood_of_denied_attempts_leaves_a_handful_of_entries(bed: Bed, raw: Any) -> None:
    clients, attempts = [bed.connect() for _ in range(10)], size(200, 1000)
    clients[0].freeze()

    def flood(client: P, number: int) -> None:
        for step in range(attempts):
            client.denied(by=f"mallory {number % 2}", what="kick", uid=f"u{step}")

    threads = [threading.Thread(target=flood, args=(client, number)) for number, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p = clients[0]
    counts = {entry.by: entry.count for entry in p.audit()}
    assert counts == {"mallory 0": 5 * attempts, "mallory 1": 5 * attempts}
    assert len(p.audit()) == 2
    [key] = bed.families()["denied"]
    assert raw.hlen(key) == 2
    assert raw.memory_usage(key) < 2000


@on("valkey-sync", "redis7-sync")
def test_a_flood_under_many_names_shares_an_entry_and_loses_no_count(p: P, bed: Bed, raw: Any) -> None:
    p.freeze()
    for number in range(500):
        p.denied(by=f"mallory {number}", what="kick")
    page = p.audit(limit=1000)
    assert len(page) == 201
    assert sum(entry.count for entry in page) == 500
    [others] = p.audit(by="(others)").items
    assert others.count == 300
    p.denied(by="mallory 3", what="kick")
    assert p.audit(by="mallory 3").items[0].count == 2, "who has a row goes on in it"


@on("valkey-sync", soak=("redis7-sync",))
def test_floods_of_many_hours_remove_the_oldest_first(p: P, bed: Bed, raw: Any) -> None:
    p.freeze()
    for hour in range(8):
        for number in range(190):
            p.denied(by=f"mallory {number}", what=f"kick {hour}")
        p.advance(3600)
    [key] = bed.families()["denied"]
    assert raw.hlen(key) <= 1000
    kept = {entry.outcome for entry in p.audit(limit=1000)}
    assert "kick 7 refused once" in kept
    assert "kick 0 refused once" not in kept


def test_denied_attempts_expire(bed: Bed, raw: Any) -> None:
    p = bed.connect(keep_audit=86_400)
    p.freeze()
    p.denied(by="bob", what="kick")
    p.advance(26 * 3600)
    p.denied(by="eve", what="kick")
    assert _summary(p.audit()) == [("eve", "denied", None)]
    [key] = bed.families()["denied"]
    assert 86_000 < raw.ttl(key) <= 86_400, "without further denials, the rest expires"


# -- what is not ours -------------------------------------------------------------------------------------------------


@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_foreign_value_under_an_audit_key_is_named(p: P, bed: Bed, raw: Any) -> None:
    p.denied(by="bob", what="kick")
    [table] = bed.families()["denied"]
    p.block("ada", by="s", reason="r")
    stream = p.context.shard("ada").audit
    cases: list[tuple[str, list[Any]]] = [
        (stream, [p.audit, lambda: _trim(p)]),
        (table.decode(), [p.audit, lambda: p.denied(by="bob", what="kick")]),
    ]
    for key, calls in cases:
        kept = raw.dump(key)
        raw.delete(key)
        raw.set(key, "foreign")
        for call in calls:
            with pytest.raises(CorruptData) as caught:
                call()
            assert key in str(caught.value)
            assert "nother program uses this namespace" in str(caught.value)
        assert raw.get(key) == b"foreign"
        raw.delete(key)
        raw.restore(key, 0, kept)
    assert len(p.audit()) == 2


def test_damaged_bytes_break_no_read_of_the_audit(p: P, bed: Bed, raw: Any) -> None:
    p.freeze()
    p.block("ada", by="s", reason="r")
    p.denied(by="bob", what="kick")
    stream = p.context.shard("ada").audit
    raw.xadd(stream, {b"\xff": b"\xff"})
    raw.xadd(stream, {b"what": b"\xff", b"at": b"\xff", b"ended": b"x", b"until": b"\xff", b"was": b"\xff"})
    [table] = bed.families()["denied"]
    for field, value in ((b"\xff", b"\xff"), (b"", b""), (b"1\n2\n3", b"x\ny\nz\n\n"), (b"5", b"1\n1\n1\na\nb")):
        raw.hset(table, field, value)
    assert len(p.audit()) == 4
    assert {entry.action for entry in p.audit()} >= {"block", "denied", "unknown"}
    p.denied(by="eve", what="kick")
    assert len([entry for entry in p.audit() if entry.action == "denied"]) == 2


def test_staff_actions_are_recorded_even_when_memory_is_full() -> None:
    for script in (
        BLOCK_USER,
        UNBLOCK_USER,
        RELEASE_BLOCKS,
        COUNT_DENIED,
        TRIM_AUDIT,
    ):
        assert script.text.startswith("#!lua flags=allow-oom")


# -- the command ------------------------------------------------------------------------------------------------------


def _run(url: str, namespace: str, *words: str) -> tuple[int, str]:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("PRESENCE_REDIS_URL", url)
        patch.setenv("PRESENCE_NAMESPACE", namespace)
        code = cli.main(words)
    return code, out.getvalue()


@on("valkey-sync")
def test_the_command_blocks_unblocks_and_shows_the_audit(bed: Bed) -> None:
    def run(*words: str) -> tuple[int, str]:
        return _run(bed.url, bed.namespace, *words)

    assert run("blocks") == (0, "No user is blocked.\n")
    assert run("audit") == (0, "There are no audit entries.\n")
    assert run("ended") == (0, "There are no records of ended sessions.\n")
    code, said = run("block", "ada", "--reason", "two\nlines", "--by", "Grace", "--for", "3600")
    assert code == 0
    assert said.startswith("ada may not log in until 2")
    code, said = run("blocks")
    assert code == 0
    assert "two\\u{a}lines" in said
    assert said.splitlines()[-1] == "1 of 1"
    assert run("unblock", "ada", "--reason", "paid", "--by", "Grace") == (0, "ada may log in again.\n")
    assert run("unblock", "ada", "--reason", "paid")[0] == 1
    p = bed.connect()
    p.login("ada", session_id="session-1")
    p.kick("ada", by="Grace", reason="stolen")
    code, said = run("ended", "ada", "--reason", "kicked", "--since", "2020-01-01", "--limit", "1")
    assert code == 0
    assert "stolen" in said
    assert said.splitlines()[-1] == "1 of 1"
    code, said = run("audit", "--by", "Grace", "--user", "ada")
    assert len(said.splitlines()) == 5
    code, said = run("audit", "--json", "--limit", "1")
    assert '"action": "kick"' in said
    assert run("ended", "--reason", "bored")[0] == 2
