"""Kicks that replicas must confirm: a missing confirmation is reported, and the kick is applied again until
confirmed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import pytest

from presence_core import AsyncPresence, SessionFilter, Settings, Unavailable, cli
from presence_core.operations.durability import replica_ack
from presence_core.scripts.sessions import READ_SESSIONS
from presence_core.web.service.app import create_app
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import SYNC_AT_ONCE, Server, in_sync, missing, redis_binary, valkey_binary, wait_for

pytestmark = pytest.mark.xdist_group("confirm")

SAID: dict[str, Any] = {"by": "staff", "reason": "test"}


@dataclass(frozen=True)
class Chain:
    """A master, its replica, and the replica's replica."""

    master: Server
    replica: Server
    third: Server


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Chain]]:
    """One trio for each mode: Valkey for sync, Redis for async. Their WAIT counts reads differently."""
    with ExitStack() as running:

        @cache
        def start(mode: str) -> Chain:
            binary = (valkey_binary, redis_binary)[mode == "async"]() or missing("a server of the kind wanted here")
            servers: list[Server] = []
            for name in ("master", "replica", "third"):
                follow = ["--replicaof", "127.0.0.1", str(servers[-1].port)] if servers else []
                directory = tmp_path_factory.mktemp(name)
                servers.append(Server.start(binary, directory, *SYNC_AT_ONCE, *follow, port=True))
                running.callback(servers[-1].kill)  # a master that is asked to stop waits for its replicas
            wait_for("replicas in sync", lambda: all(map(in_sync, servers[1:])))
            return Chain(*servers)

        yield start


@pytest.fixture
def chain(anywhere: Bed, chains: Callable[[str], Chain], monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.setattr("presence_core.client.replica_ack.ROUND_SECONDS", 0.1)
    return chains(anywhere.backend.mode)


def _connect(bed: Bed, server: Server, confirm_timeout: int = 100) -> P:
    p = bed.connect_to(
        server.url, timeout=PATIENT, confirm_replicas=1, confirm_timeout=confirm_timeout, confirm_hold=0, keep_logout=0
    )
    p.clock.run_freely()
    return p


def test_an_unconfirmed_kick_is_reported_and_held_until_a_replica_has_it(anywhere: Bed, chain: Chain) -> None:
    p, patient = _connect(anywhere, chain.master), _connect(anywhere, chain.master, 10_000)
    p.login_many({"uid": uid} for uid in ("ada", "bob", "bob", "eve", "kim", "lee"))
    sure = patient.kick("ada", **SAID)
    assert (sure.count, sure.confirmed) == (1, True)
    assert patient.kick("ada", p.ended("ada").items[0].session_id, **SAID).confirmed
    assert patient.block("ada", **SAID).confirmed
    assert patient.kick_where(SessionFilter(uid="lee"), by="staff", reason="test", expected=1).confirmed
    patient.revoke_before(1.0, **SAID)
    assert p.unconfirmed() == 0

    chain.replica.pause()
    [bob, _] = p.sessions("bob")
    kick = p.kick("bob", bob.session_id, block_for=600, by="staff", reason="test")
    assert (kick.count, kick.confirmed) == (1, False)
    assert p.kick("bob", **SAID).confirmed is False
    assert p.block("kim", **SAID).confirmed is False
    assert p.kick_where(SessionFilter(uid="eve"), by="staff", reason="test", expected=1).confirmed is False
    p.revoke_before(2.0, **SAID)
    assert p.unconfirmed() == 6, "three sessions, two blocks, a watermark"
    assert p.confirm() == 6
    assert anywhere.connect_to(chain.master.url).unblock("kim", **SAID)
    audit = p.audit(limit=100)
    chain.replica.resume()
    wait_for("the replica to confirm all", lambda: p.unconfirmed() == 0)
    assert p.audit(limit=100).items == audit.items, "nothing was lost, so nothing was done again"
    assert p.blocked("kim") is None, "staff have lifted it"


def test_kicks_lost_in_a_failover_are_applied_again_but_not_to_later_logins(  # the last replica of a chain
    anywhere: Bed, chain: Chain
) -> None:
    p = _connect(anywhere, chain.master)
    ada, eve = p.login("ada"), p.login("eve", session_id="session-1")
    p.login("kim")
    p.unblock("kim", **SAID)
    with chain.master.client() as raw:
        assert raw.execute_command("WAIT", 1, 5000) == 1
        assert raw.execute_command("INFO", "replication")
    wait_for("the replica to have it all", lambda: _connect(anywhere, chain.replica).counts().sessions == 3)

    chain.replica.command("REPLICAOF", "NO", "ONE")  # the network is cut: later writes will be lost
    for uid in ("ada", "eve"):
        assert p.kick(uid, **SAID).confirmed is False
    for uid in ("kim", "lee"):
        assert p.block(uid, duration=600, **SAID).confirmed is False
    chain.master.kill()
    direct = _connect(anywhere, chain.replica)
    assert direct.validate(ada.token), "it lives again"
    assert not direct.blocked("kim")
    assert direct.logout("eve", "session-1")
    later = direct.login("eve", session_id="session-1")

    chain.replica.command("CONFIG", "SET", "port", chain.master.port or 0)  # the promoted replica takes the address
    wait_for("all to be confirmed there", lambda: p.unconfirmed() == 0)
    assert not p.validate(ada.token)
    assert not p.validate(eve.token)
    assert p.validate(later.token), "it began later"
    for uid in ("kim", "lee"):
        block = p.blocked(uid)
        assert block is not None
        assert block.until is not None
    assert [entry.action for entry in p.audit(uid="ada")] == ["kick"]
    assert p.ended("ada").items[0].note == "test"


@on("cluster-sync", "cluster-async")
def test_a_cluster_is_asked_once_per_node_and_answers_within_the_time_limit(bed: Bed) -> None:
    p = bed.connect(timeout=5, confirm_replicas=1, confirm_timeout=300, confirm_hold=0)
    p.login_many({"uid": f"u{number}"} for number in range(12))
    assert p.kick("u1", **SAID).confirmed is False
    assert p.revoke_before(**SAID) == 11  # 64 shards: waiting for one after the other would exceed any time limit
    assert p.unconfirmed() == 2
    assert p.counts().sessions == 0


@on("valkey-async")
def test_a_closed_client_does_nothing_more_even_in_the_http_service(bed: Bed) -> None:
    settings = Settings(
        namespace=bed.namespace, timeout=PATIENT, confirm_replicas=1, confirm_timeout=10, confirm_hold=0
    )

    async def run() -> None:
        me = asyncio.current_task()
        presence = AsyncPresence.from_url(bed.url, settings)
        await presence.login_many([{"uid": "ada"}, {"uid": "bob"}])
        near = httpx.ASGITransport(create_app(presence, keys=None), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=near, base_url="http://localhost") as site:
            answer = await site.post("/v1/kicks", json={"uid": "ada", "reason": "test"})
        assert answer.json()["confirmed"] is False
        await presence.close()
        assert asyncio.all_tasks() == {me}
        with pytest.raises(Unavailable, match=r"^This client is closed\."):
            await presence.kick("bob", **SAID)
        assert asyncio.all_tasks() == {me}

    asyncio.run(run())


@on("valkey-sync")
def test_a_kick_is_held_where_no_thread_can_be_started(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    p = bed.connect(confirm_replicas=1, confirm_timeout=10)
    p.login("ada")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert p.kick("ada", **SAID).kicked
        assert p.held() == 1
        p.close(wait=0.2)
    assert p.held() == 0


@on("valkey-sync")
def test_a_kick_that_comes_while_the_thread_of_held_changes_ends_gets_another_thread(bed: Bed) -> None:
    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "presence-replica-acks"}

    class Emptied(dict[Any, Any]):
        """Held changes of which the last one goes before the thread looks, and the next kick comes right behind."""

        is_next_kicked = False

        def __bool__(self) -> bool:
            if threading.current_thread() in own and not self.is_next_kicked:
                self.is_next_kicked = True
                self.clear()
                with ThreadPoolExecutor(1) as pool:
                    assert pool.submit(p.kick, "bob", **SAID).result().kicked
                return False
            return len(self) > 0

    p = bed.connect(confirm_replicas=1, confirm_timeout=10)
    p.login_many([{"uid": "ada"}, {"uid": "bob"}])
    others = threads()
    assert p.kick("ada", **SAID).kicked
    own = threads() - others
    p.context.held = Emptied(p.context.held)
    for thread in own:
        thread.join(PATIENT)
    assert p.held() == 1
    assert threads() - others - own, "nothing else would check the second kick after a failover"
    p.context.held.clear()


@on("valkey-sync")
def test_the_command_reports_an_unconfirmed_kick_and_succeeds(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bed.connect().login_many([{"uid": "ada"}, {"uid": "bob"}])
    environ = {"REDIS_URL": bed.url, "NAMESPACE": bed.namespace, "CONFIRM_REPLICAS": "1", "CONFIRM_TIMEOUT": "10"}
    environ["CONFIRM_HOLD"] = "0"
    for name, value in environ.items():
        monkeypatch.setenv(f"PRESENCE_{name}", value)
    said = "No replica has confirmed this change. If Redis fails over now, check the result and repeat the command."
    for words in (["kick", "ada"], ["block", "ada"], ["revoke-before", "--before", "now", "--yes"]):
        assert cli.main([*words, "--reason", "test"]) == 0
        assert said in capsys.readouterr().out.splitlines()


@on("valkey-sync", "redis7-async")
def test_an_end_repeated_after_noreplicas_is_held_even_if_it_was_made_before(bed: Bed) -> None:
    p = bed.connect(confirm_replicas=1, confirm_timeout=10)
    uids = ("one", "all", "out")
    sids = {uid: p.login(uid).session.session_id for uid in uids}
    earlier = bed.connect()  # as if its replies were lost
    for uid in uids:
        earlier.kick(uid, **SAID)

    def after_refusal(call: Callable[[], object]) -> int:
        """How many changes are held of a call whose first try finds too few replicas."""
        p.context.held.clear()
        bed.raw.config_set("min-replicas-to-write", 1)
        try:
            with ThreadPoolExecutor(1) as pool:
                calling = pool.submit(call)
                wait_for("a refusal", lambda: bed.raw.info("errorstats").get("errorstat_NOREPLICAS"))
                bed.raw.config_set("min-replicas-to-write", 0)
                calling.result()
        finally:
            bed.raw.config_set("min-replicas-to-write", 0)
            bed.raw.config_resetstat()
        return p.held()

    assert after_refusal(lambda: p.kick("one", sids["one"], **SAID)) == 1
    assert after_refusal(lambda: p.kick("all", **SAID)) == 1
    assert after_refusal(lambda: p.logout("out", sids["out"])) == 1
    p.context.held.clear()


@on("valkey-sync")
def test_a_round_leaves_a_session_alone_that_began_in_the_millisecond_of_a_kick(bed: Bed) -> None:
    p = bed.connect(confirm_replicas=1, confirm_timeout=1)
    p.freeze()
    p.login("ada")
    p.advance(0.001)
    assert p.kick("ada", **SAID).kicked
    later = p.login("ada")
    p.internal.run(replica_ack.confirm(p.context))
    assert p.validate(later.token)
    p.context.held.clear()


@on("valkey-sync")
def test_a_block_that_staff_have_removed_is_not_set_again_however_long_the_audit_has_become(bed: Bed) -> None:
    p = bed.connect(confirm_replicas=1, confirm_timeout=1)
    p.block("kim", **SAID)
    assert bed.connect().unblock("kim", **SAID)
    with bed.raw.pipeline(transaction=False) as pipeline:
        for _ in range(1001):  # more than the script looks through
            pipeline.xadd(p.context.shard("kim").audit, {"at": "1", "by": "lee", "what": "export", "uid": ""})
        pipeline.execute()
    p.internal.run(replica_ack.confirm(p.context))
    assert p.blocked("kim") is None
    p.context.held.clear()


@on("valkey-sync")
def test_a_round_tries_an_unreachable_server_twice_and_leaves_the_rest_to_the_next_round(bed: Bed) -> None:
    p = bed.connect(confirm_replicas=1, confirm_timeout=1, confirm_hold=0)
    p.login_many({"uid": f"u{number}", "device": "phone"} for number in range(301))
    assert p.kick_where(SessionFilter(device="phone"), by="staff", reason="test", expected=301).confirmed is False
    round_, tried = replica_ack.confirm(p.context), 0
    calls = next(round_)
    with contextlib.suppress(Unavailable):
        while True:
            tried += any(call.script is READ_SESSIONS for call in calls)
            calls = round_.throw(Unavailable("away"))
    assert tried == 2, "of four batches"
    assert p.unconfirmed() == 301
