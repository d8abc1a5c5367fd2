"""A cluster whose slots move and whose masters die during logins: which errors callers get, and which data remain."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from presence_core import AsyncPresence, OutcomeUnknown, Presence, SessionFilter, Settings, Unavailable
from tests.conftest import Bed, one_mode
from tests.contract.connections.test_shared_connection import kick_among_validations, log_in
from tests.support.expected.agreement import comes_to_agree
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import failure
from tests.support.servers import Cluster, Server, free_port, missing, redis_binary, valkey_binary, wait_for
from tests.support.soak import size

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("traffic-cluster")]

SETTINGS = Settings(namespace="traffic", shards=8, timeout=0.2)


@dataclass
class Visitors:
    """Visitors who log in, send heartbeats, and are kicked, repeatedly; records the result of each call."""

    presence: Presence
    name: str
    may_lose: bool = False  #: a master dies: changes that it confirmed but did not replicate are lost
    live: dict[str, tuple[str, str]] = field(default_factory=dict)  #: uid → session id and token of the latest reply
    unknown: set[str] = field(default_factory=set)  #: users with a call whose outcome is unknown
    refused: set[tuple[str, str]] = field(default_factory=set)  #: logins that did not run
    wrong: list[str] = field(default_factory=list)
    errors: int = 0
    served: int = 0

    def __post_init__(self) -> None:
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Visitors:
        self._thread.start()
        return self

    def __exit__(self, *failed: object) -> None:
        self.over.set()
        self._thread.join()

    def check_results(self, presence: Presence) -> None:
        """Call this when no call is in progress; no server may have died."""
        assert self.wrong == []
        for uid, (sid, token) in self.live.items():
            assert uid in self.unknown or presence.validate(token), (uid, sid)
        for uid, sid in self.refused:
            assert presence.get(uid, sid) is None, "it was said not to have happened"

    def _run(self) -> None:
        rng = random.Random(self.name)
        number = 0
        while not self.over.is_set():
            number += 1
            uid, sid = f"{self.name}-{rng.randrange(40)}", f"{self.name}-session-{number}"
            try:
                self._do(rng.choice("lllhhvk"), uid, sid)
                self.served += 1
            except OutcomeUnknown:
                self.errors += 1
                self.unknown.add(uid)
            except Unavailable:
                self.errors += 1
            except Exception as error:  # any other error is what this test looks for
                self.wrong.append(repr(error))

    def _do(self, what: str, uid: str, sid: str) -> None:
        known = self.live.get(uid)
        if what == "l":
            try:
                self.live[uid] = sid, self.presence.login(uid, session_id=sid, device="phone", name="N").token
            except Unavailable as error:
                if not isinstance(error, OutcomeUnknown):
                    self.refused.add((uid, sid))
                raise
        elif known and what in "hv":
            sid, token = known
            is_live = self.presence.heartbeat(uid, sid) if what == "h" else bool(self.presence.validate(token))
            if not is_live and not self.may_lose and uid not in self.unknown:
                self.wrong.append(f"{uid} is not live any more")
        elif known and what == "k":
            self.presence.kick(uid, by="staff", reason="test")
            del self.live[uid]


def _move(
    cluster: Cluster,
    source: Server,
    target: Server,
    tag: str,
    at_its_end: Callable[[], object] = lambda: None,
    *,
    pause: float = 0,
    half: tuple[Callable[[str], bool], Callable[[], object]] | None = None,
) -> None:
    """Move one slot from node to node, a key at a time, as redis-cli does. ``at_its_end``: called when only the keys
    have moved. ``pause``: seconds after each key, so that other clients meet a slot that is on both nodes. ``half``:
    which keys move first, and what to call then."""
    slot = source.command("CLUSTER", "KEYSLOT", tag)
    ids = {node: node.command("CLUSTER", "MYID") for node in (source, target)}
    target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    moved = 0
    with source.client() as raw:
        if half:
            every = raw.execute_command("CLUSTER GETKEYSINSLOT", slot, 10_000)
            first = [key for key in every if half[0](key)]
            raw.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 2000, "KEYS", *first)
            half[1]()
        while keys := raw.execute_command("CLUSTER GETKEYSINSLOT", slot, 1):
            raw.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 2000, "KEYS", *keys)
            moved += 1
            time.sleep(pause)
    assert moved > 5
    at_its_end()
    for node in (target, source, *(master for master in cluster.masters() if master not in (source, target))):
        node.command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three masters whose slots the tests move; the last test adds a node and stops it."""
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Cluster.start(binary, tmp_path_factory.mktemp("three"), masters=3, replicas=0) as running:
        yield running


def test_while_slots_move_and_a_master_dies_callers_get_only_true_results(tmp_path: Path) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Cluster.start(binary, tmp_path, masters=3, replicas=1) as cluster,
        Presence.from_url(cluster.url, SETTINGS) as hasty,
        Presence.from_url(cluster.url, replace(SETTINGS, timeout=PATIENT)) as p,
        cluster.client(decode_responses=True) as raw,
    ):
        p.login_many({"uid": f"{name}-{number}", "device": "phone"} for name in "ab" for number in range(40))
        s = p.internal.context.keys.shard("a-1")
        source = cluster.master_of(s.sessions)
        target = next(node for node in cluster.masters() if node is not source)
        with Visitors(hasty, "a") as ann, Visitors(hasty, "b") as ben:
            _move(cluster, source, target, s.tag, pause=0.03)
            wait_for("traffic", lambda: min(ann.served, ben.served) > 100)
        comes_to_agree(p, raw)
        assert ann.errors + ben.errors > 0, "they have met it"
        for person in (ann, ben):
            person.check_results(p)

        lost = cluster.master_of(s.sessions)
        with Visitors(hasty, "c", may_lose=True) as ann, Visitors(hasty, "d", may_lose=True) as ben:
            wait_for("traffic", lambda: ann.served > 50 and ben.served > 50)
            lost.kill()
            cluster.wait_ok()
            served = ann.served, ben.served
            wait_for("callers to recover", lambda: p.login("a-2", device="phone"))
            wait_for("traffic", lambda: ann.served > served[0] + 50 and ben.served > served[1] + 50)
        assert (ann.wrong, ben.wrong) == ([], [])
        assert ann.errors + ben.errors > 0
        p.repair()
        assert comes_to_agree(p, raw) > 0


@one_mode("sync")
def test_a_call_follows_its_keys_to_a_node_without_the_script_and_its_reply_may_be_lost_there(
    anywhere: Bed, cluster: Cluster
) -> None:
    p = anywhere.connect_to(cluster.url, timeout=1)
    p.clock.run_freely()
    p.login("ada")
    block = p.block("ada", by="staff", reason="test")
    p.sweep()  # from now on each shard has its fence
    source = cluster.master_of(p.context.keys.shard("ada").sessions)
    target = next(node for node in cluster.nodes if node is not source)

    def every_key_is_there() -> None:
        target.command("SCRIPT", "FLUSH")
        assert p.blocked("ada") == block
        target.pause()
        error = failure(lambda: p.unblock("ada", by="staff", reason="test"), within=1.8)
        target.resume()
        assert isinstance(error, OutcomeUnknown), "it was sent there, and may run when that node wakes"
        assert error.server == f"127.0.0.1:{target.port}"

    _move(cluster, source, target, p.context.keys.shard("ada").tag, every_key_is_there)
    assert p.blocked("ada") is None
    assert len(p.sessions("ada")) == 1


@one_mode("async")
def test_a_moved_slot_is_looked_up_once_and_followed_when_it_moves_again(anywhere: Bed, cluster: Cluster) -> None:
    p, idle = (anywhere.connect_to(cluster.url, timeout=PATIENT) for _ in range(2))
    p.clock.run_freely()
    for number in range(20):
        p.login("ada", session_id=f"session-{number}")
    block = p.block("ada", by="staff", reason="test")
    p.sweep()  # from now on each shard has its fence
    tag = p.context.keys.shard("ada").tag
    first = cluster.master_of(tag)
    second, third = (node for node in cluster.nodes if node is not first)
    assert idle.blocked("ada") == block

    _move(cluster, first, second, tag)
    assert len(p.sessions("ada")) == 20
    replies_before = _says_moved(first)
    assert all(p.heartbeat("ada", "session-1") for _ in range(3))
    assert _says_moved(first) == replies_before, "the client knows the new node by now"

    def who_knows_the_first_node_only_finds_the_third() -> None:
        assert idle.blocked("ada") == block

    _move(cluster, second, third, tag, who_knows_the_first_node_only_finds_the_third)
    assert len(p.sessions("ada")) == len(idle.sessions("ada")) == 20


def _says_moved(node: Server) -> int:
    """How often the node has replied that another node serves a slot."""
    found = re.search(r"errorstat_MOVED:count=(\d+)", node.command("INFO", "errorstats"))
    return int(found[1]) if found else 0


def _is_of_one_user(key: str) -> bool:
    return key.partition("}:")[2].partition(":")[0] in ("session", "user")


@pytest.mark.parametrize("left", ["records", "lists"])
@one_mode("sync")
def test_while_a_slot_is_on_two_nodes_every_read_tells_the_truth_or_fails(
    anywhere: Bed, cluster: Cluster, left: str
) -> None:
    settings: dict[str, Any] = {"namespace": f"two-{left}", "shards": 1}
    p = anywhere.connect_to(cluster.url, timeout=PATIENT, **settings)
    hasty = anywhere.connect_to(cluster.url, timeout=0.2, heal=False, **settings)
    p.set_now(round(time.time() * 1000))
    uids = [f"u{number}" for number in range(20)]
    for uid in (*uids, "bob"):
        p.login(uid, session_id="session-1", name=f"Name {uid}", device="phone", ip="192.0.2.1")
    p.logout("bob", "session-1")
    p.login("ada", session_id="session-1", idle_timeout=60)
    p.sweep()  # from now on each shard has its fence
    p.advance(100)  # the session of ada waits for a sweep
    s = p.context.keys.shard("ada")
    source = cluster.master_of(s.sessions)
    target = next(node for node in cluster.nodes if node is not source)
    with source.client() as raw:
        raw.hset(s.closing, "kicked:session-1", "")  # as while a sweep settles a kick

    phone = SessionFilter(device="phone")
    reads: dict[str, tuple[Callable[[], object], object]] = {
        "online_among": (lambda: hasty.online_among(uids[:1]), {uids[0]}),
        "online_users": (lambda: len(hasty.online_users()), 20),
        "count_users": (lambda: hasty.count_users(), 20),
        "list": (lambda: len(hasty.list_sessions(limit=100)), 20),
        "list by device": (lambda: len(hasty.list_sessions(phone, limit=100)), 20),
        "list by text": (lambda: len(hasty.list_sessions(SessionFilter(text="name"), limit=100)), 20),
        "list by words": (lambda: len(hasty.list_sessions(SessionFilter(text="name u3"))), 1),
        "count": (lambda: hasty.count_sessions(phone), 20),
        "preview": (lambda: hasty.preview_kick(phone).total, 20),
        "sessions": (lambda: len(hasty.sessions(uids[0])), 1),
        "get": (lambda: hasty.get(uids[0], "session-1") is not None, True),
        "names_of": (lambda: len(hasty.names_of(uids)), 20),
    }
    wrong: dict[str, object] = {}

    def read_all() -> None:
        for name, (read, expected) in reads.items():
            try:
                found = read()
            except Unavailable as error:
                found = expected if error.code in ("TRYAGAIN", "ASK") else error
            if found != expected:
                wrong[name] = found

    _move(cluster, source, target, s.tag, half=(lambda key: _is_of_one_user(key) == (left == "lists"), read_all))
    assert wrong == {}
    wait_for("the new layout", lambda: [hasty.get(uid, "session-1") for uid in uids])  # 0.2 s may not be enough
    for name, (read, expected) in reads.items():
        assert read() == expected, name


def test_a_kick_among_hundreds_of_validations_counts_while_slots_move(cluster: Cluster) -> None:
    """256 validations of an event loop share a connection to each node, while their slots go to another."""
    settings = Settings(namespace="crowd", shards=4, timeout=PATIENT)
    stopping = threading.Event()
    moves = []

    def move(tags: list[str]) -> None:
        while not stopping.is_set():
            for tag in tags:
                source = cluster.master_of(tag)
                target = next(node for node in cluster.masters() if node is not source)
                _move(cluster, source, target, tag)
                moves.append(tag)

    async def main() -> None:
        async with (
            AsyncPresence.from_url(cluster.url, settings) as presence,
            AsyncPresence.from_url(cluster.url, settings) as other,
        ):
            await log_in(presence, 40)
            tags = [shard.tag for shard in presence.internal.context.keys.shards]
            task = asyncio.ensure_future(asyncio.to_thread(move, tags))
            try:
                await kick_among_validations(presence, other, size(3, 20))
            finally:
                stopping.set()
                await task

    asyncio.run(main())
    assert moves


@one_mode("sync")
def test_a_node_that_just_joined_and_gets_its_first_slot_is_found(
    anywhere: Bed, cluster: Cluster, tmp_path: Path
) -> None:
    p = anywhere.connect_to(cluster.url, timeout=PATIENT)
    p.clock.run_freely()
    hasty = anywhere.connect_to(cluster.url, timeout=0.5)
    p.login("ada", session_id="session-1")
    p.sweep()
    hasty.sessions("ada")
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--cluster-announce-ip", "127.0.0.1")
    with Server.start(cluster.nodes[0].binary, tmp_path, *options, port=True) as joined:
        cluster.nodes.append(joined)
        cluster.nodes[0].command("CLUSTER", "MEET", "127.0.0.1", str(joined.port), options[3])
        wait_for("a node that all know", lambda: all(
            "cluster_known_nodes:4" in node.command("CLUSTER", "INFO")
            and "cluster_state:ok" in node.command("CLUSTER", "INFO")
            and "handshake" not in node.command("CLUSTER", "NODES") for node in cluster.nodes
        ))  # fmt: skip
        tag = p.context.keys.shard("ada").tag

        def callers_wait_or_hear_a_sentence() -> None:
            # Each call fails. On a busy machine, one may spend its time on connecting before it hears why.
            wait_for("the reason", lambda: failure(lambda: hasty.sessions("ada")).code == "ASK")

        _move(cluster, cluster.master_of(tag), joined, tag, callers_wait_or_hear_a_sentence)
        for client in (p, hasty):
            assert len(client.sessions("ada")) == 1
        assert cluster.master_of(tag) is joined
