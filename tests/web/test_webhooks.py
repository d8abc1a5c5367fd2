"""Webhooks, to a real receiver: signed, in order, at least once, through failures and restarts."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from presence_core import InvalidArgument, Presence, Settings
from presence_core.web.webhooks import Webhooks, sender
from presence_core.web.webhooks.lanes import parts_of
from presence_core.web.webhooks.position import Delivery, Position
from presence_core.web.webhooks.signing import sign, verify
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT, ends
from tests.support.place_file import write_place_file
from tests.support.programs.webhook_receiver import SECRET, Receiver, until
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary
from tests.support.soak import size
from tests.web.notices.mail_server import LINK

QUICK: dict[str, Any] = {"interval": 0.02, "max_wait": 0.05, "timeout": 2}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.close()


@on("valkey-sync", "cluster-sync")
def test_a_login_on_a_new_device_is_sent_with_what_a_mail_to_the_user_needs(
    p: P, receiver: Receiver, tmp_path: Path
) -> None:
    p.login("ada", device_id="device-phone")
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path / "hooks", kinds=["new_device"], **QUICK):
        p.login("ada", device_id="device-phone")
        new = p.login("ada", device_id="device-laptop", name="Ada", aliases=["ada@example.org"], device="laptop",
                      ip="192.0.2.7", user_agent="curl/8").session  # fmt: skip
        until(lambda: len(receiver.taken) == 1)
    [sent] = receiver.taken
    assert len(sent.pop("id")) == 32
    assert sent == {
        "type": "new_device", "at": new.login_at.isoformat(timespec="milliseconds"),
        "uid": "ada", "session_id": new.session_id,
        "name": "Ada", "aliases": ["ada@example.org"], "device": "laptop", "app": None, "os": None, "browser": "curl",
        "ip": "192.0.2.7", "place": None,
    }  # fmt: skip


@on("valkey-sync")
def test_a_webhook_has_the_link_of_a_notice_also_if_the_session_has_ended(
    p: P, receiver: Receiver, tmp_path: Path
) -> None:
    p.login("ada", device_id="device-phone")
    hooks: dict[str, Any] = {"position": tmp_path / "hooks", "kinds": ["new_device", "kicked"], "notice_link": LINK}
    with Webhooks(p, [receiver.url], SECRET, **hooks, **QUICK):
        new = p.login("ada", device_id="device-laptop").session
        until(lambda: len(receiver.taken) == 1)
        assert p.answer_notice("ada", new.session_id, new.login_at, "not_me", until=time.time() + 60)
        until(lambda: len(receiver.taken) == 2)
    login, kick = receiver.taken
    assert login["link"] == LINK.make("ada", new.session_id, new.login_at)
    assert (kick["type"], kick["by"], "link" in kick) == ("kicked", "ada", False)
    ended = [p.login("ada", device_id=f"device-number-{number}").session for number in (1, 2)]
    for session in ended:
        p.logout("ada", session.session_id)
    with Webhooks(p, [receiver.url], SECRET, **hooks, **QUICK):
        until(lambda: len(receiver.taken) == 4)
    links = [LINK.make("ada", session.session_id, session.login_at) for session in ended]
    assert [hook["link"] for hook in receiver.taken[2:]] == links


@on("valkey-sync", "cluster-sync")
def test_a_distant_login_is_sent_with_both_places_and_times(bed: Bed, receiver: Receiver, tmp_path: Path) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path / "hooks", kinds=["distant"], **QUICK):
        first = p.login("ada", ip="192.0.2.7").session
        far = p.login("ada", ip="203.0.113.7").session
        until(lambda: len(receiver.taken) == 1)
    [sent] = receiver.taken
    assert (sent["type"], sent["uid"], sent["session_id"]) == ("distant", "ada", far.session_id)
    assert (sent["place"]["city"], sent["previous_place"]["city"]) == ("Tokyo", "Lyon")
    assert (sent["at"], sent["previous_login_at"]) == (
        far.login_at.isoformat(timespec="milliseconds"), first.login_at.isoformat(),
    )  # fmt: skip


@on("valkey-sync")
def test_a_move_is_sent_with_what_was_before_and_after(bed: Bed, receiver: Receiver, tmp_path: Path) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path / "hooks", kinds=["moved"], **QUICK):
        login = p.login("ada", name="Ada", ip="192.0.2.7")
        assert p.validate(login.token, ip="203.0.113.7").moved
        until(lambda: len(receiver.taken) == 1)
    [sent] = receiver.taken
    assert (sent["type"], sent["uid"], sent["session_id"]) == ("moved", "ada", login.session.session_id)
    assert (sent["name"], sent["place"]["city"]) == ("Ada", "Lyon")
    before, after = sent["move"]["before"], sent["move"]["after"]
    assert (before["place"]["city"], after["place"]["city"], after["network"]) == ("Lyon", "Tokyo", "AS64510")


@on("valkey-sync")
def test_the_first_use_of_an_old_token_is_sent(bed: Bed, receiver: Receiver, tmp_path: Path) -> None:
    p = bed.connect(rotate_grace=30)
    p.freeze()
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path / "hooks", kinds=["old_token"], **QUICK):
        login = p.login("ada", name="Ada", device="phone")
        p.rotate(login.token)
        p.advance(30)
        for _ in range(2):
            assert not p.validate(login.token)
        until(lambda: len(receiver.taken) == 1)
    [sent] = receiver.taken
    assert (sent["type"], sent["session_id"], sent["name"], sent["device"]) == (
        "old_token", login.session.session_id, "Ada", "phone",
    )  # fmt: skip


@on("valkey-sync")
def test_a_login_that_staff_doubted_before_it_was_sent_is_sent_whole(
    bed: Bed, receiver: Receiver, tmp_path: Path
) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    hooks: dict[str, Any] = {"position": tmp_path / "hooks", "kinds": ["distant"]} | QUICK
    with Webhooks(p, [receiver.url], SECRET, **hooks):
        for ip in ("192.0.2.7", "203.0.113.7"):
            p.login("ada", ip=ip)
        until(lambda: len(receiver.taken) == 1)
    p.login("ada", ip="192.0.2.7", name="Ada")
    p.require_sign_in("ada", by="sam", reason="odd login")
    with Webhooks(p, [receiver.url], SECRET, **hooks):
        until(lambda: len(receiver.taken) == 2)
    sent = receiver.taken[1]
    assert (sent["name"], sent["ip"]) == ("Ada", "192.0.2.7")
    assert (sent["place"]["city"], sent["previous_place"]["city"]) == ("Lyon", "Tokyo")


@on("valkey-sync", "cluster-sync")
def test_kicks_blocks_and_revocations_are_sent_but_not_those_before_the_start(
    p: P, receiver: Receiver, tmp_path: Path
) -> None:
    p.login("old")
    p.kick("old", by="sam", reason="before")
    p.block("old", by="sam", reason="before")
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path / "hooks", **QUICK):
        login = p.login("ada")
        p.kick("ada", by="sam", reason="stolen phone", message="Please sign in again.", ticket="T-1")
        until(lambda: len(receiver.taken) == 1)
        p.block("eve", by="sam", reason="fraud", message="Call us.")
        until(lambda: len(receiver.taken) == 2)
        p.unblock("eve", by="kim", reason="cleared")
        until(lambda: len(receiver.taken) == 3)
        odd = p.login("cyd").session
        p.require_sign_in("cyd", by="sam", reason="odd login", message="Is it you?")
        until(lambda: len(receiver.taken) == 4)
        p.revoke_before(by="sam", reason="keys leaked")
        until(lambda: len(receiver.taken) == 5)
        time.sleep(0.2)
    assert receiver.received() == [("kicked", "ada"), ("blocked", "eve"), ("unblocked", "eve"),
                                   ("sign_in_required", "cyd"), ("revoked", None)]  # fmt: skip
    kicked, blocked, _, demanded, revoked = receiver.taken
    assert (demanded["session_id"], demanded["message"]) == (odd.session_id, "Is it you?")
    assert "odd login" not in str(demanded)
    assert kicked.pop("at").endswith("+00:00")
    assert len(kicked.pop("id")) == 32
    assert kicked == {
        "type": "kicked", "uid": "ada", "session_id": login.session.session_id, "by": "sam", "reason": "stolen phone",
        "ticket": "T-1", "message": "Please sign in again.",
    }  # fmt: skip
    assert (blocked["by"], blocked["reason"], blocked["message"]) == ("sam", "fraud", "Call us.")
    assert "signed out" in revoked["outcome"]
    assert receiver.forged == 0


@on("valkey-sync")
def test_a_failing_receiver_is_retried_in_order_with_the_same_id(
    p: P, receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [500, 404, 302, 503]
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path, in_flight=1, **QUICK) as hooks:
        for who in ("ada", "eve"):
            p.login(who)
            p.kick(who, by="sam", reason="test")
        until(lambda: hooks.delivered == 2)  # counted after the receiver's response has arrived
        assert (hooks.retried, hooks.dropped) == (4, 0)
    assert receiver.received() == [("kicked", "ada"), ("kicked", "eve")]
    assert len({event["id"] for _, event in receiver.tries}) == 2
    assert {path for path, _ in receiver.tries} == {"/hook?key=receivers-own"}, "no redirect is followed"
    assert "to 127.0.0.1 failed" in caplog.text
    assert "receivers-own" not in caplog.text
    assert SECRET not in caplog.text


class _Drip(socketserver.BaseRequestHandler):
    """Answers a byte at a time, without an end."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            for byte in itertools.chain(b"HTTP/1.1 200 OK\r\nX: ", itertools.repeat(ord("y"))):
                self.request.sendall(bytes([byte]))
                time.sleep(0.02)


@on("valkey-sync")
def test_a_receiver_that_answers_byte_by_byte_is_timed_out(p: P, tmp_path: Path) -> None:
    p.login("ada")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Drip) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        hooks = Webhooks(p, [url], SECRET, position=tmp_path, **QUICK | {"timeout": 0.2})
        with hooks, ends(within=PATIENT):
            p.kick("ada", by="sam", reason="test")
            until(lambda: hooks.retried == 2, PATIENT / 2)
        assert not any("presence-webhooks" in thread.name for thread in threading.enumerate())
        assert hooks.delivered == 0
        server.shutdown()


@on("valkey-sync")
def test_close_keeps_the_position_until_the_delivery_under_way_has_ended(
    p: P, receiver: Receiver, tmp_path: Path
) -> None:
    first, other = (Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK | {"timeout": 60, "in_flight": 1})
                    for _ in range(2))  # fmt: skip
    p.login_many({"uid": uid} for uid in ("ada", "bob"))
    first.start()
    receiver.ready.clear()
    for uid in ("ada", "bob"):
        p.kick(uid, by="sam", reason="test")
    until(lambda: receiver.asked)
    closing = threading.Thread(target=first.close)
    closing.start()
    with other:
        closing.join(0.5)
        assert closing.is_alive()
        receiver.ready.set()
        closing.join(PATIENT)
        until(lambda: other.delivered == 1)
    assert first.delivered == 1, "a delivery that waits is left to the next sender"
    assert receiver.received() == [("kicked", "ada"), ("kicked", "bob")]


@on("valkey-sync")
def test_an_unreachable_receiver_delays_no_other_and_is_given_up(p: P, receiver: Receiver, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:1/hook"
    p.login("ada")
    with Webhooks(p, [gone, receiver.url], SECRET, position=tmp_path, give_up=600, **QUICK) as hooks:
        p.kick("ada", by="sam", reason="test")
        until(lambda: receiver.received() == [("kicked", "ada")])
        assert hooks.dropped == 0
    with Webhooks(p, [gone, receiver.url], SECRET, position=tmp_path, give_up=1, **QUICK) as hooks:
        until(lambda: hooks.dropped == 1)


@pytest.mark.parametrize("in_flight", [8, 3])
@on("valkey-sync", "cluster-sync")
def test_several_deliveries_are_under_way_and_those_of_a_user_keep_their_order(
    p: P, receiver: Receiver, tmp_path: Path, in_flight: int
) -> None:
    random = Random(in_flight)

    def refuse(event: dict[str, Any]) -> bool:
        time.sleep(random.uniform(0, 0.02))
        return random.random() < 0.2

    receiver.refuse = refuse
    hooks = Webhooks(p, [receiver.url], SECRET, position=tmp_path, in_flight=in_flight, **QUICK)
    with hooks:
        pass  # a new position begins now
    kicked: dict[str, list[str]] = {}
    for _ in range(6):
        for uid in (f"u{number}" for number in range(20)):
            kicked.setdefault(uid, []).append(p.login(uid).session.session_id)
            p.kick(uid, by="sam", reason="test")
    with hooks:
        until(lambda: hooks.delivered == 120)
    taken: dict[str, list[str]] = {}
    for event in receiver.taken:
        taken.setdefault(event["uid"], []).append(event["session_id"])
        assert (event["by"], event["reason"]) == ("sam", "test")
    assert taken == kicked
    assert 1 < receiver.most_at_once <= in_flight


@on("valkey-sync")
def test_one_users_failing_delivery_stops_no_other_of_its_batch_and_a_restart_repeats_none(
    p: P, receiver: Receiver, tmp_path: Path
) -> None:
    hooks = Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK)
    uids = [f"u{number:02}" for number in range(30)]
    p.login_many({"uid": uid} for uid in uids)
    receiver.refuse = lambda event: event["uid"] == "u00"
    with hooks:
        pass  # a new position begins now
    for uid in uids:
        p.kick(uid, by="sam", reason="test")
    with hooks:
        until(lambda: len(receiver.taken) >= 10)
    before = len(receiver.taken)
    assert "u00" not in {event["uid"] for event in receiver.taken}
    receiver.refuse = lambda event: False
    with hooks:
        until(lambda: len(receiver.taken) == 30)
        time.sleep(0.2)
    assert before > 0
    assert sorted(uid or "" for _, uid in receiver.received()) == uids
    saved = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert saved.pop("ahead") == []
    next(tmp_path.glob("*.json")).write_text(json.dumps(saved))  # as earlier versions wrote it
    with hooks:
        p.login("last")
        p.kick("last", by="sam", reason="test")
        until(lambda: len(receiver.taken) == 31)


def test_a_delivery_about_all_users_is_under_way_alone() -> None:
    bodies: list[dict[str, Any] | None] = [
        {"uid": "a"},
        None,
        {"uid": "b"},
        {"type": "revoked"},
        {"type": "gap"},
        {"uid": "a"},
        None,
    ]
    parts = parts_of([Delivery(body) for body in bodies])
    assert [[delivery.body for delivery in part] for part in parts] == [
        bodies[:3],
        bodies[3:4],
        bodies[4:5],
        bodies[5:],
    ]


@on("valkey-sync", "cluster-sync")
def test_an_event_that_another_program_added_stops_no_webhook(
    p: P, raw: Any, receiver: Receiver, tmp_path: Path
) -> None:
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK):
        p.login("ada")
        for kind in ("kicked", "sign_in_required", "new_device", "distant", "old_token", "gap", "\udcff", ""):
            for ref in ("", "x", ":", "a:b", "a\nb:session-1", b"\xff:session-1", "x" * 300 + ":session-1"):
                name = kind.encode("utf-8", "surrogateescape")
                raw.xadd(p.context.keys.shard("ada").events, {"k": name, "r": ref, "a": "9" * 5000})
        p.kick("ada", by="sam", reason="test")
        until(lambda: ("kicked", "ada") in receiver.received())


@on("valkey-sync")
def test_a_restart_resumes_and_repeats_nothing(p: P, receiver: Receiver, tmp_path: Path) -> None:
    def kick(who: str) -> None:
        p.login(who)
        p.kick(who, by="sam", reason="test")

    with Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK):
        kick("ada")
        p.block("ada", by="sam", reason="test")
        until(lambda: len(receiver.taken) == 2)
    kick("bob")
    p.block("bob", by="sam", reason="test")
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK):
        until(lambda: len(receiver.taken) == 4)
        receiver.answers = [500] * 1000
        kick("cyd")
        until(lambda: len(receiver.tries) > 5)
    receiver.answers = []
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK):
        until(lambda: len(receiver.taken) == 5)
        time.sleep(0.2)
    assert sorted(receiver.received()) == [
        ("blocked", "ada"), ("blocked", "bob"), ("kicked", "ada"), ("kicked", "bob"), ("kicked", "cyd"),
    ]  # fmt: skip


_PROCESS = """
import sys, time
from presence_core import Presence, Settings
from presence_core.web.webhooks import Webhooks, sender

presence = Presence.from_url(sys.argv[1], Settings(sys.argv[2]))
with Webhooks(presence, [sys.argv[3]], sys.argv[4], position=sys.argv[5], interval=0.02, max_wait=0.05, in_flight=1):
    print("ready", flush=True)
    time.sleep(60)
"""


@on("valkey-sync")
def test_a_killed_process_loses_nothing(p: P, bed: Bed, receiver: Receiver, tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", _PROCESS, bed.url, bed.namespace, receiver.url, SECRET, str(tmp_path)]
    parts = size(2, 3)
    kicked = [f"u{number:02}" for number in range(parts * 10)]
    standing_by = Webhooks(p, [receiver.url], SECRET, position=tmp_path, in_flight=1, **QUICK)

    def reached(count: int) -> bool:
        return len(receiver.taken) >= count

    p.login_many({"uid": uid} for uid in kicked)
    for part in range(parts):
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            for uid in kicked[part * 10 : part * 10 + 10]:
                p.kick(uid, by="sam", reason="test")
            until(partial(reached, part * 10 + 3))
            if part == parts - 1:
                standing_by.start()
            os.kill(process.pid, signal.SIGKILL)
    with standing_by:
        until(lambda: {uid for _, uid in receiver.received()} == set(kicked))
    firsts = list(dict.fromkeys(uid for _, uid in receiver.received()))
    assert firsts == kicked, "in order; a repeated event has the same id"
    assert len({event["id"] for event in receiver.taken}) == len(kicked)


@on("valkey-sync")
def test_of_two_processes_one_sends_and_the_other_takes_over(p: P, receiver: Receiver, tmp_path: Path) -> None:
    first, other = (Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK) for _ in range(2))
    p.login_many({"uid": uid} for uid in ("ada", "bob", "cyd"))
    with first, other:
        p.kick("ada", by="sam", reason="test")
        until(lambda: first.delivered == 1)
        first.close()
        p.kick("bob", by="sam", reason="test")
        until(lambda: other.delivered == 1)
        first.start()  # now it is the standby
        p.kick("cyd", by="sam", reason="test")
        until(lambda: other.delivered == 2)
    assert receiver.received() == [("kicked", "ada"), ("kicked", "bob"), ("kicked", "cyd")]
    next(tmp_path.glob("*.json")).write_text("{}")
    for again in (first, other):
        with pytest.raises(RuntimeError, match="not a position"):
            again.start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@on("valkey-sync")
def test_a_forked_child_delays_no_webhook(p: P, receiver: Receiver, tmp_path: Path) -> None:
    first, other = (Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK) for _ in range(2))
    ended, end = os.pipe()
    with first:
        child = os.fork()
        if not child:
            os.close(end)
            os.read(ended, 1)  # lives until the test ends
            os._exit(0)
    try:
        with other:
            p.login("ada")
            p.kick("ada", by="sam", reason="test")
            until(lambda: other.delivered == 1)
    finally:
        os.close(end)
        os.waitpid(child, 0)
        os.close(ended)


@on("valkey-sync")
def test_events_lost_to_the_cap_are_sent_as_a_gap(bed: Bed, receiver: Receiver, tmp_path: Path) -> None:
    p = bed.connect(max_events=100)
    p.login("ada")
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK):
        pass
    p.kick("ada", by="sam", reason="test")
    p.login_many({"uid": f"u{number}"} for number in range(2000))
    with Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK):
        until(lambda: receiver.received() == [("gap", None)])


def test_webhooks_wait_while_redis_is_down(receiver: Receiver, tmp_path: Path) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Server.start(binary, tmp_path / "redis", *KEEPS_ALL, port=True) as server,
        Presence.from_url(server.url, Settings(timeout=0.2)) as hasty,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as p,
        Webhooks(hasty, [receiver.url], SECRET, position=tmp_path / "hooks", **QUICK),
    ):
        p.login("ada")
        server.kill()
        time.sleep(0.3)
        server.restart()
        p.kick("ada", by="sam", reason="test")
        until(lambda: receiver.received() == [("kicked", "ada")])


@on("valkey-sync")
def test_a_quiet_site_reads_no_more_of_the_past_than_needed(p: P, receiver: Receiver, tmp_path: Path) -> None:
    p.login("ada")
    hooks = Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK)
    with hooks:
        begin = hooks._positions[receiver.url].audited
        p.login("bob")
        until(lambda: hooks._positions[receiver.url].audited > begin)


@on("valkey-sync")
def test_a_clock_set_back_delays_no_webhook(p: P, receiver: Receiver, tmp_path: Path) -> None:
    start = p.freeze()
    hooks = Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK)
    position = hooks._positions[receiver.url]
    with hooks:
        p.block("ada", by="sam", reason="long before")
        until(lambda: len(receiver.taken) == 1)
        p.advance(600)
        p.block("bob", by="sam", reason="just before")
        until(lambda: len(receiver.taken) == 2 and position.audited > (start + 500_000) / 1000)
        p.set_now(start - 600_000)
        p.block("eve", by="sam", reason="set back")
        until(lambda: len(receiver.taken) >= 3)
        p.advance(1)
        p.block("eve", by="sam", reason="and on")
        until(lambda: len(receiver.taken) >= 4)
        p.login("kim")
        p.kick("kim", by="sam", reason="last")  # each read takes the audit first
        until(lambda: ("kicked", "kim") in receiver.received())
    assert receiver.received() == [("blocked", who) for who in ("ada", "bob", "eve", "eve")] + [("kicked", "kim")]


def test_a_signature_depends_on_body_secret_and_time() -> None:
    body = b'{"a":1}'
    header = sign(SECRET, body, at=1000)
    assert verify(SECRET, header, body, now=1200)
    assert verify([SECRET + "!", SECRET], header, body, now=1000)
    assert verify(SECRET, sign([SECRET + "!", SECRET], body, at=1000), body, now=1000)
    assert not verify(SECRET, header, body, now=1301)
    assert not verify(SECRET, header, body, now=699)
    assert not verify(SECRET, header, body + b" ", now=1000)
    assert not verify(SECRET + "!", header, body, now=1000)
    assert not verify(SECRET, header.replace("t=1000", "t=1001"), body, now=1000)
    for nonsense in (None, "", "t=1000", "v1=", "t=x,v1=y", "t=1000,v1=é", "t=²,v1=a", header.replace("v1", "v2")):
        assert not verify(SECRET, nonsense, body, now=1000)


_URLS = "urls must be a list of 1 to 100 URLs: http or https, in ASCII, without user and password."
_KINDS = (
    "kinds must be some of kicked, blocked, unblocked, revoked, sign_in_required, new_device, distant, after_failures, "
    "moved, old_token, gap."
)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"urls": "http://x"}, _URLS),
        ({"urls": ["ftp://x"]}, _URLS),
        ({"urls": ["http://"]}, _URLS),
        *(
            ({"urls": [url]}, _URLS)
            for url in (
                "https://key:hunter2@x/hook",
                "https://hunter2@x/hook",
                "https://@x/hook",
                "https://x/größe",
                "https://größe/",
                "https://x/a b",
                "https://x/\n",
            )
        ),
        ({"secret": "short"}, "secret must be text of at least 16 bytes, or a list of up to 4 such texts."),
        ({"secret": []}, "secret must be text of at least 16 bytes, or a list of up to 4 such texts."),
        ({"position": ""}, "position must be a directory."),
        (
            {"kinds": ["login"]},
            _KINDS,
        ),
        ({"urls": [["http://x"]]}, _URLS),
        (
            {"kinds": [["kicked"]]},
            _KINDS,
        ),
        (
            {"kinds": "kicked"},
            _KINDS,
        ),
        *(({"in_flight": number}, "in_flight must be a whole number from 1 to 64.") for number in (0, 65, 1.5, None)),
        ({"timeout": 0}, "timeout must be 0.05 to 60 seconds."),
        ({"give_up": 0}, "give_up must be 1 to 604800 seconds."),
        ({"presence": None}, "presence must be a Presence."),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with Presence.from_url("redis://127.0.0.1:1") as presence:
        given: dict[str, Any] = {
            "presence": presence,
            "urls": ["https://x.example/hook"],
            "secret": SECRET,
            "position": "hooks",
        }
        with pytest.raises(InvalidArgument) as caught:
            Webhooks(**(given | arguments))
        assert str(caught.value) == sentence


def test_a_position_that_cannot_be_written_leaves_no_other_file(tmp_path: Path) -> None:
    """It is retried every few seconds as long as a disk is full."""
    position = Position(tmp_path, "http://receiver.example/")
    position._path.mkdir()  # nor can a full disk replace it
    for _ in range(3):
        with pytest.raises(OSError, match="directory"):
            position.save()
    assert list(tmp_path.iterdir()) == [position._path]


@on("valkey-sync")
def test_while_the_position_cannot_be_saved_no_delivery_goes_on_behind_the_next_batch(
    p: P, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = [f"u{number:02}" for number in range(40)]
    p.login_many({"uid": uid} for uid in uids)
    hooks = Webhooks(p, [receiver.url], SECRET, position=tmp_path, **QUICK)
    with hooks:
        pass
    for uid in uids:
        p.kick(uid, by="sam", reason="test")

    def refuse(event: dict[str, Any]) -> bool:
        time.sleep(0.02)
        return False

    receiver.refuse = refuse
    left: list[list[str]] = []

    def report(*_: Any, **__: Any) -> None:
        left.append([thread.name for thread in threading.enumerate() if "-webhooks-0-" in thread.name])

    def save(position: Position) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Position, "save", save)
        patch.setattr(sender.log, "exception", report)
        with hooks:
            until(lambda: left)
    assert left[0] == []
    with hooks:
        until(lambda: {uid for _, uid in receiver.received()} == set(uids))
