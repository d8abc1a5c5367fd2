"""The findings of `health` about servers, data and the worker: healthy ones, and ones with problems."""

from __future__ import annotations

import dataclasses
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from presence_core import Health, Presence, Settings, Unavailable, Worker
from presence_core.cli.commands.health import health_lines
from presence_core.keyspace import slot
from presence_core.models import LEVELS
from presence_core.models.health import SentinelHealth, Spread
from presence_core.operations.context import Context
from presence_core.operations.maintenance import health as asking
from presence_core.operations.maintenance.health import COMMANDS
from presence_core.scripts import EVERY
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.faults.proxy import Proxy
from tests.support.servers import HOST

OPERATIONS = Path(asking.__file__).parents[1]
DOCUMENT = Path(__file__).parents[3] / "docs/run/acl.md"


def levels(health: Health, subject: str) -> list[str]:
    return [finding.level for finding in health.findings if finding.subject == subject]


def said(health: Health, subject: str) -> str:
    """Sentences and advice about one subject."""
    return " ".join(
        f"{finding.text} {finding.advice or ''}" for finding in health.findings if finding.subject == subject
    )


@contextmanager
def configured(raw: Any, **values: str) -> Iterator[None]:
    """The shared server with other settings, restored afterwards."""
    names = {name: name.replace("_", "-") for name in values}
    before = {name: raw.config_get(given)[given] for name, given in names.items()}
    try:
        for name, value in values.items():
            raw.config_set(names[name], value)
        yield
    finally:
        for name, value in before.items():
            raw.config_set(names[name], value)


# -- what is -----------------------------------------------------------------------------------------------------------


@every_backend
def test_a_fresh_namespace_is_described_node_by_node(p: P, bed: Bed) -> None:
    p.login_many({"uid": f"u{number}"} for number in range(200))
    health = p.health()
    assert len(health.nodes) == (3 if bed.is_cluster else 1)
    for node in health.nodes:
        assert node.kind == ("Redis" if bed.backend.server == "redis7" else "Valkey")
        assert node.version is not None
        assert re.match(r"7\.0|9\.", node.version), "Valkey's own, not the redis_version that it also answers"
        assert node.role == "master"
        assert node.used_memory is not None
        assert node.used_memory > 500_000
        assert (node.maxmemory, node.maxmemory_policy) == (0, "noeviction")
        assert (node.aof_enabled, node.snapshots, node.aof_ok, node.save_ok) == (False, False, True, True)
        assert node.time is not None
        assert node.clock_offset is not None
        assert node.latency_ms is not None
        assert 0 < node.latency_ms < 2000
        assert node.clients
        assert (node.replicas, node.link_up) == (2 if bed.backend.server == "sentinel" else 0, None)
    assert (health.schema, health.shards) == (1, 64 if bed.is_cluster else 1)
    assert sum(node.shards or 0 for node in health.nodes) == health.shards
    assert (health.users, health.sessions) == (200, 200)
    assert health.sessions_per_shard is not None
    assert health.sessions_per_shard.mean * health.shards == pytest.approx(200)
    assert health.indexes == health.indexes_wanted == ("uid", "name", "alias", "ip", "idp")
    assert health.disagreeing == ()
    assert (health.worker, health.swept_at, health.lag_seconds) == (None, None, 0)
    is_sentinel = bed.backend.server == "sentinel"
    assert health.level == ("error" if is_sentinel else "warning")
    assert (health.sentinels is not None) == is_sentinel
    wrong = {finding.subject for finding in health.findings if finding.level in ("warning", "error")}
    fenced = {"sentinel"} if is_sentinel else set()
    assert wrong == {"persistence", "worker"} | fenced, "nothing kept on disk, no worker, no min-replicas-to-write"
    assert "a restart logs everybody out" in said(health, "persistence")
    assert "No worker has ever run here" in said(health, "worker")
    worst_first = [LEVELS.index(finding.level) for finding in health.findings]
    assert worst_first == sorted(worst_first, reverse=True)
    assert levels(health, "permissions") == levels(health, "version") == ["ok"]
    assert levels(health, "spread") == (["ok"] if bed.is_cluster else [])


@on("valkey-async", "cluster-sync", soak=("valkey",))
def test_health_changes_nothing(p: P, bed: Bed) -> None:
    p.login("ada", name="Ada")
    before = bed.dump()
    p.health()
    assert bed.dump() == before


def test_health_raises_an_error_while_redis_is_down(anywhere: Bed) -> None:
    p = anywhere.connect_to("redis://user:s3cret@127.0.0.1:1", timeout=0.1)
    with pytest.raises(Unavailable) as away:
        p.health()
    assert away.value.server == "127.0.0.1:1"
    assert "s3cret" not in str(away.value)


@on("cluster-sync")
def test_health_reports_the_distribution_of_shards_and_keys_over_cluster_nodes(bed: Bed, p: P) -> None:
    p.login_many({"uid": f"u{number}"} for number in range(200))
    health = p.health()
    tags = [shard.tag for shard in p.context.keys.shards]
    served = Counter(f"127.0.0.1:{bed.raw.get_node_from_key(tag).port}" for tag in tags)
    assert {node.address: node.shards for node in health.nodes} == served
    assert sorted(served.values()) == [21, 21, 22]
    assert health.shards_per_node == Spread(21, 64 / 3, 22)
    assert [slot(tag) for tag in tags] == [bed.raw.keyslot(tag) for tag in tags]
    lying = Counter(slot(key.decode("utf-8", "replace")) for key in bed.raw.scan_iter(count=5000))
    keys = [lying[slot(tag)] for tag in tags]
    assert health.keys_per_shard == Spread(min(keys), sum(keys) / 64, max(keys))
    assert min(keys) > 0
    sizes = health.sessions_per_shard
    assert sizes is not None
    text = "\n".join(health_lines(health))
    assert f"200 sessions on 64 shards: {sizes.least} to {sizes.most} per shard" in text
    assert f"{min(keys):,} to {max(keys):,} keys per shard" in text
    assert said(health, "spread").startswith("64 shards on 3 nodes")


@on("cluster-sync")
def test_a_cluster_node_that_is_down_is_reported_with_the_others(bed: Bed) -> None:
    p = bed.connect(timeout=2)
    transport = p._transport
    looking = asking.health(
        p.context, [*transport.nodes(), "127.0.0.1:1"], transport.server_of, time.perf_counter, time.time
    )
    health = transport.run(looking)
    assert len(health.nodes) == 3
    assert levels(health, "cluster") == ["error"]
    assert "127.0.0.1:1" in said(health, "cluster")
    assert health.sessions == 0


def test_a_server_version_below_the_minimum_is_reported_and_nothing_else_is_checked() -> None:
    ids = iter(range(9))
    ctx = Context(
        Settings(), False, new_id=lambda: str(next(ids)), new_secret=lambda: b"", random=int, clock=float, server_of=str
    )
    op = asking.health(ctx, ["old:6379"], lambda _: "old:6379", lambda: 0.0, lambda: 1000.0)
    next(op)
    op.send([b"redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\naof_last_write_status:ok\r\n"])
    for _ in range(3):
        op.send([b"PONG"])
    with pytest.raises(StopIteration) as done:
        op.send([[b"1000", b"0"]])
    health: Health = done.value.value
    assert health.level == "error"
    assert said(health, "version") == "This is Redis 6.2.14. Use Redis 7.0 or Valkey 7.2, or newer."
    assert health.sessions is None


# -- the servers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "maxmemory", "record_ttl", "level"),
    [
        ("allkeys-lru", "0", True, "warning"), ("allkeys-random", "1000000000", False, "error"),
        ("volatile-lru", "0", True, "warning"), ("volatile-ttl", "1000000000", True, "error"),
        ("volatile-lru", "1000000000", False, "note"), ("noeviction", "1000000000", True, "ok"),
    ],
)  # fmt: skip
@on("valkey-sync", "redis7-sync")
def test_eviction_is_a_finding(bed: Bed, policy: str, maxmemory: str, record_ttl: bool, level: str) -> None:
    p = bed.connect(record_ttl=record_ttl)
    with configured(bed.raw, maxmemory_policy=policy, maxmemory=maxmemory):
        health = p.health()
    assert levels(health, "eviction") == [level]
    assert (policy in said(health, "eviction")) or level == "ok"
    assert ("record_ttl=False" in said(health, "eviction")) == policy.startswith("volatile")


@on("valkey-sync", "redis7-sync")
def test_nearly_full_memory_is_a_finding(p: P, bed: Bed) -> None:
    used = bed.raw.info("memory")["used_memory"]
    with configured(bed.raw, maxmemory=str(round(used / 0.87))):
        assert levels(p.health(), "memory") == ["warning"]


@on("valkey-sync", "redis7-sync")
def test_persistence_settings_are_findings(p: P, bed: Bed) -> None:
    with configured(bed.raw, save="3600 1"):
        health = p.health()
        assert levels(health, "persistence") == ["note"]
        assert "only snapshots" in said(health, "persistence")
    with configured(bed.raw, appendonly="yes"):
        assert levels(p.health(), "persistence") == ["ok"]


@on("sentinel")
def test_the_first_report_of_a_client_waits_for_each_sentinel_and_counts_those_that_are_down(bed: Bed) -> None:
    names, _, master = bed.url.removeprefix("redis+sentinel://").partition("/")
    first, second, third = (int(name.rpartition(":")[2]) for name in names.split(","))
    with Proxy(third, bed.loop) as slow:
        slow.delay = 0.2
        url = f"redis+sentinel://{HOST}:{first},{HOST}:{second},{slow.address}/{master}"
        p = bed.connect_to(url, timeout=PATIENT)
        health = p.health()
        p.close()  # the next client asks them again: open clients share the answers
    assert health.sentinels is not None
    assert (health.sentinels.named, health.sentinels.answering) == (3, 3)
    assert "do not reply" not in said(health, "sentinel")
    health = bed.connect_to(url, timeout=PATIENT).health()  # nothing listens where the proxy did
    assert health.sentinels is not None
    assert (health.sentinels.named, health.sentinels.answering) == (3, 2)
    assert "1 of 3 Sentinels do not reply" in said(health, "sentinel")


@on("sentinel")
def test_a_master_behind_sentinel_without_fencing_is_an_error(bed: Bed, p: P, raw: Any) -> None:
    p.login("ada")
    health = p.health()
    assert levels(health, "sentinel") == ["error"]
    assert "Set min-replicas-to-write 1 and min-replicas-max-lag 1 on every server." in said(health, "sentinel")
    assert health.sentinels == SentinelHealth(named=3, answering=3, known=3, down_after=1.5)
    with configured(raw, min_replicas_to_write="1"):
        health = p.health()
        assert (health.nodes[0].max_lag, levels(health, "sentinel")) == (10, ["error"]), "Redis's default"
        assert "min-replicas-max-lag is 10 s, but Sentinels may replace a master after 1.5 s" in said(
            health, "sentinel"
        )
        with configured(raw, min_replicas_max_lag="1"):
            assert levels(p.health(), "sentinel") == ["ok"]
            raw.execute_command("ACL", "SETUSER", bed.namespace, "on", ">s", "~*", "&*", "+@all", "-config")
            first, *_ = bed.url.removeprefix("redis+sentinel://").partition("/")[0].split(",")
            p = bed.connect_to(f"redis+sentinel://{bed.namespace}:s@{first}/mymaster")
            health = p.health()
            raw.execute_command("ACL", "DELUSER", bed.namespace)
            assert sorted(levels(health, "sentinel")) == ["note", "warning"]
            assert "min-replicas-max-lag could not be checked" in said(health, "sentinel")
            assert "The URL names 1 of 3 Sentinels" in said(health, "sentinel")


@on("valkey-sync")
def test_a_master_that_refuses_writes_without_a_replica_is_an_error(p: P, raw: Any) -> None:
    p.login("ada")
    with configured(raw, min_replicas_to_write="1"):
        assert "no replica is online: logins and kicks are refused" in said(p.health(), "replication")
        assert levels(p.health(), "replication") == ["error"]


@on("valkey-sync")
def test_a_clock_that_is_wrong_is_a_note(p: P) -> None:
    transport = p._transport

    def looked(ahead: float) -> Health:
        return transport.run(
            asking.health(
                p.context, transport.nodes(), transport.server_of, time.perf_counter, lambda: time.time() + ahead
            )
        )

    health = looked(3600)
    assert levels(health, "clock") == ["note"]
    assert "behind this machine's" in said(health, "clock")
    assert health.nodes[0].clock_offset == pytest.approx(-3600, abs=4)
    assert "ahead of" in said(looked(-60), "clock")


# -- the namespace -----------------------------------------------------------------------------------------------------


@on("valkey-sync", "cluster-sync")
def test_a_worker_is_reported_as_running_paused_or_gone(p: P, bed: Bed) -> None:
    p.login("ada")
    worker = Worker(p)
    worker._turn()
    health = p.health()
    assert levels(health, "worker") == ["ok"]
    assert health.worker is not None
    assert health.worker.alive
    assert health.swept_at is not None
    key = p.context.keys.common.worker
    bed.raw.hset(key, "paused", "Redis's clock went forward by 3600 s.")
    health = p.health()
    assert levels(health, "worker") == ["error"]
    assert "went forward by 3600 s. Check which clock is right" in said(health, "worker")
    bed.raw.hset(key, "paused", "")
    worker._leave()
    health = p.health()
    assert levels(health, "worker") == ["warning"]
    assert "the last report was at" in said(health, "worker")


@on("valkey-sync")
def test_sweep_lag_is_a_finding(p: P) -> None:
    now = p.freeze()
    p.login("ada", idle_timeout=60)
    worker = Worker(p)
    worker._turn()
    p.set_now(now + 190_000)
    health = p.health()
    assert health.lag_seconds == pytest.approx(130)
    assert (health.sessions, health.users) == (0, 0)


@on("valkey-sync", "cluster-sync", soak=("redis7-sync",))
def test_lists_that_lost_an_entry_are_found_and_repaired(p: P, bed: Bed) -> None:
    session = p.login("ada", device="phone").session
    p.login("bob", device="phone")
    shard = p.context.keys.shard("ada")
    bed.raw.zrem(shard.deadlines, session.ref)
    health = p.health()
    assert health.disagreeing == (shard.index,)
    assert levels(health, "indexes") == ["warning"]
    assert f"shard {shard.index} name different sessions. Run presence repair." in said(health, "indexes")
    p.repair()
    bed.raw.delete(shard.facets)
    health = p.health()
    assert health.disagreeing == (shard.index,)
    assert f"facets of shard {shard.index} do not match the sessions" in said(health, "indexes")
    p.repair()
    assert p.health().disagreeing == ()


@on("valkey-sync", "cluster-sync")
def test_incomplete_indexes_are_findings(bed: Bed) -> None:
    bed.connect(indexes=("uid", "ip")).login("ada")
    health = bed.connect(indexes=("uid", "name")).health()
    assert (health.indexes, health.indexes_wanted) == (("uid", "ip"), ("uid", "name"))
    assert sorted(levels(health, "indexes")) == ["note", "warning"]
    assert "Index incomplete: name. " in said(health, "indexes")
    assert "not in these settings: ip." in said(health, "indexes")


@on("valkey-sync")
def test_a_foreign_key_in_the_namespace_is_a_finding(p: P, bed: Bed) -> None:
    p.login("ada")
    totals = p.context.keys.shards[0].totals
    bed.raw.delete(totals)
    bed.raw.set(totals, "x")
    health = p.health()
    assert levels(health, "data") == ["error"]
    assert "Another program uses this namespace" in said(health, "data")


# -- permissions -------------------------------------------------------------------------------------------------------


def _rights() -> list[str]:
    """The rights that docs/run/acl.md lists, read as test_acl.py does."""
    section = DOCUMENT.read_text("utf-8").split("## A user with all rights")[1].split("\n## ")[0]
    return re.findall(r"\+[@a-z_]+(?:\|[a-z]+)?", section)


@contextmanager
def user(bed: Bed, *rules: str, **settings: Any) -> Iterator[Presence]:
    """A client of an ACL user of its own."""
    name, raw = f"user-{bed.namespace}", bed.raw
    raw.execute_command("ACL", "SETUSER", name, "reset", "on", ">s3cret", *rules)
    url = f"unix://{name}:s3cret@{raw.connection_pool.connection_kwargs['path']}"
    try:
        with Presence.from_url(url, Settings(namespace=bed.namespace, **settings, timeout=PATIENT)) as presence:
            yield presence
    finally:
        raw.execute_command("ACL", "DELUSER", name)


@on("valkey-sync", "redis7-sync")
def test_the_sites_acl_user_gets_its_health_and_leaves_no_entry_in_the_acl_log(p: P, bed: Bed) -> None:
    p.login("ada")
    keys = f"~{{{bed.namespace}:*}}*", f"~{{{bed.namespace}}}*"
    with user(bed, *keys, *_rights()) as ours:
        health = ours.health()
        assert levels(health, "permissions") == ["ok"]
        assert health.sessions == 1
        assert health.nodes[0].snapshots is None, "CONFIG is for admins"
        assert levels(health, "persistence") == ["note"]
    before = bed.dump()
    with user(bed, *keys, *_rights(), "-zadd", "-xtrim") as ours:
        ours.is_online("ada")
        bed.raw.execute_command("ACL", "LOG", "RESET")
        health = ours.health()
        [finding] = [finding for finding in health.findings if finding.subject == "permissions"]
        assert finding.level == "error"
        assert finding.text.startswith(
            f"The ACL user may not run xtrim, zadd on keys that begin with {{{bed.namespace}:1:0}}"
        )
        assert "docs/run/acl.md" in (finding.advice or "")
        assert health.sessions == 1, "what it may see it sees"
        asked = {entry["object"] for entry in bed.raw.acl_log()}
        assert asked <= {"config|get"}, "nothing was tried that changes anything"
    with user(bed, f"~{{{bed.namespace}:*}}*", f"%R~{{{bed.namespace}}}*", *_rights()) as ours:
        assert "changes of the worker's keys" in said(ours.health(), "permissions"), "keys count, too"
    assert bed.dump() == before


@on("valkey-sync", "redis7-sync")
def test_information_that_a_server_refuses_is_a_note(p: P, bed: Bed) -> None:
    p.login("ada")
    with user(bed, "~*", *_rights(), "-info") as ours:
        health = ours.health()
    [node] = health.nodes
    known = {name for name, value in dataclasses.asdict(node).items() if value is not None}
    assert known == {"address", "latency_ms", "time", "clock_offset", "shards"}
    assert levels(health, "version") == ["note"]
    assert levels(health, "persistence") == levels(health, "eviction") == []
    assert health.sessions == 1


@on("valkey-sync", "redis7-sync")
def test_a_user_without_scripts_or_keys_learns_which_right_is_missing(p: P, bed: Bed) -> None:
    p.login("ada")
    with user(bed, "~*", *_rights(), "-evalsha_ro") as ours:
        health = ours.health()
        assert levels(health, "permissions") == ["error"]
        assert "evalsha_ro" in said(health, "permissions")
        assert health.sessions is None
        assert health.nodes[0].version is not None
    with user(bed, "~elsewhere:*", *_rights()) as ours:
        assert levels(ours.health(), "permissions") == ["error"]


@on("valkey-sync")
def test_a_client_that_is_declared_read_only_gets_a_note(p: P, bed: Bed) -> None:
    p.login("ada")
    with user(
        bed, "%R~*", "+@read", "+@connection", "+evalsha_ro", "+script|load", "+info", "+time", heal=False
    ) as ours:
        assert levels(ours.health(), "permissions") == ["note"]
    with user(bed, "%R~*", "+@read", "+@connection", "+evalsha_ro", "+script|load", "+info", "+time") as ours:
        assert levels(ours.health(), "permissions") == ["error"]


@on("valkey-sync")
def test_every_command_that_is_used_is_checked_for_a_right(bed: Bed) -> None:
    known = {name.decode() for name in bed.raw.command_list()}
    code = [script.text for script in EVERY if not script.name.startswith(("trackers/", "reshard/"))]
    code += [
        path.read_text("utf-8")
        for path in OPERATIONS.rglob("*.py")
        if path.parent.name != "reshard" and path.stem not in {"health", "trackers"}
    ]
    words = {word.lower() for text in code for word in re.findall(r"['\"]([A-Z]{3,})['\"]", text)}
    assert words & known - {"info", "readonly", "script", "cluster"} <= set(COMMANDS)  # the last one checks for itself
