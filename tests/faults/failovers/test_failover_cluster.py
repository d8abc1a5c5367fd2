"""A master of a cluster is replaced but still runs: it accepts no session that was kicked on its successor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from presence_core import Login, Presence
from tests.support.faults.failover_harness import (
    SETTINGS,
    Log,
    Validators,
    kick_each,
    live_after_kick,
    stopped,
    summary,
)
from tests.support.servers import HOST, Cluster, Server, missing, redis_binary, valkey_binary, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("failover-cluster")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster in which each test replaces another master."""
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Cluster.start(binary, tmp_path_factory.mktemp("cluster"), masters=3, replicas=1) as running:
        yield running


def _sessions_of(cluster: Cluster, victim: Server) -> list[Login]:
    """Logins of users whom this master serves; its replica has them, too."""
    with Presence.from_url(cluster.url, SETTINGS) as p:
        made = p.login_many({"uid": f"{victim.port}-{n}"} for n in range(300))
        at_home = [
            p._transport.server_of(p.internal.context.keys.shard(f"{victim.port}-{n}").sessions) for n in range(300)
        ]
    replica = _replica_of(cluster, victim)
    wait_for("its replica to have them", lambda: victim.command("DBSIZE") == replica.command("DBSIZE"))
    of_it = [login for login, at in zip(made, at_home, strict=True) if at == f"{victim.host}:{victim.port}"]
    return [login for login in of_it if isinstance(login, Login)][:30]


def _replica_of(cluster: Cluster, master: Server) -> Server:
    return next(node for node in cluster.nodes if node.command("ROLE")[:3] == ["slave", HOST, master.port])


def _is_master(server: Server) -> bool:
    return bool(server.command("ROLE")[0] == "master")


def test_after_a_manual_failover_the_old_master_accepts_no_kicked_session(cluster: Cluster) -> None:
    victim = cluster.masters()[0]
    replica, logins, log = _replica_of(cluster, victim), _sessions_of(cluster, victim), Log()
    with Validators(cluster.url, logins, log) as busy, Validators(cluster.url, logins, log) as quiet:
        with quiet.resting():
            replica.command("CLUSTER", "FAILOVER", "TAKEOVER")
            kick_each(f"redis+cluster://{HOST}:{replica.port}", logins[:20], log, SETTINGS)
        busy.seconds(0.5)
    assert _is_master(replica)
    assert (log.wrong, len(log.kicks)) == ([], 20)
    assert live_after_kick(log, confirmed=False) == [], summary(log)


def test_a_master_that_wakes_after_it_was_replaced_accepts_no_kicked_session(cluster: Cluster) -> None:
    victim = cluster.masters()[-1]
    replica, logins, log = _replica_of(cluster, victim), _sessions_of(cluster, victim), Log()
    with (
        Validators(cluster.url, logins, log) as busy,
        Validators(cluster.url, logins, log, threads=6, tasks=4) as quiet,
    ):
        with quiet.resting(), stopped(victim):
            wait_for("the next master", lambda: _is_master(replica))
            kick_each(f"redis+cluster://{HOST}:{replica.port}", logins[:20], log, SETTINGS)
        busy.seconds(0.5)
    assert (log.wrong, len(log.kicks)) == ([], 20)
    assert live_after_kick(log, confirmed=False) == [], summary(log)
