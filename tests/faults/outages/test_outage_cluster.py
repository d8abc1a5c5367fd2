"""When a part of a cluster is down, or all of it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from presence_core import OutcomeUnknown, Presence, Settings
from tests.conftest import Bed, one_mode
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import PASSWORD, all_at_once, calls, failure
from tests.support.servers import Cluster, Server, missing, redis_binary, valkey_binary, wait_for
from tests.support.soak import size


@one_mode("async")
@pytest.mark.cluster
def test_a_cluster_node_that_is_down_affects_only_its_own_users(anywhere: Bed, tmp_path: Path) -> None:
    any_binary = valkey_binary() or redis_binary() or missing("any Redis server")
    # No node has a replica that takes over, so no node needs to be marked as failed: to be trusted again takes long.
    extra = ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "30000"]
    with Cluster.start(any_binary, tmp_path, masters=3, replicas=0, extra_args=extra) as cluster:
        patient, p = anywhere.connect_to(cluster.url, timeout=PATIENT), anywhere.connect_to(cluster.url, timeout=1)
        tokens = {f"u{number}": patient.login(f"u{number}").token for number in range(30)}
        victim = cluster.master_of(patient.context.keys.shard("u0").sessions)
        away = {uid for uid in tokens if cluster.master_of(patient.context.keys.shard(uid).sessions) is victim}
        assert 0 < len(away) < 30
        near = next(uid for uid in tokens if uid not in away)
        wait_for("connections", lambda: all(p.validate(token) for token in tokens.values()))
        p.context.cache.look_at = math.inf  # otherwise a login may first ask where the sessions are, and fail there

        victim.pause()
        assert isinstance(failure(lambda: p.login("u0"), within=1.8), OutcomeUnknown)
        asked: dict[str, Callable[[], Any]] = {"validate": lambda: p.validate(tokens["u0"]), "counts": p.counts}
        for error in all_at_once(asked, within=1.8).values():
            assert not isinstance(error, OutcomeUnknown)
            assert error.server == f"127.0.0.1:{victim.port}"
        wait_for("the others", lambda: p.validate(tokens[near]))
        victim.resume()

        cluster.wait_ok()
        wait_for("everybody", lambda: all(p.validate(token) for token in tokens.values()))
        victim.kill()
        failure(lambda: p.validate(tokens["u0"]), within=1.8)
        wait_for("the others", lambda: p.validate(tokens[near]))
        victim.restart()
        cluster.wait_ok()
        for token in tokens.values():
            patient.validate(token)  # its connections to that node are closed
        layouts = cluster.master_of(patient.context.keys.layout)
        near = next(uid for uid in tokens if cluster.master_of(patient.context.keys.shard(uid).sessions) is not layouts)
        token = patient.login(near).token
        layouts.pause()
        for _ in range(size(1, 2)):
            p.context.cache.look_at = 0.001  # some seconds later: where are the sessions?
            wait_for("those who are elsewhere", lambda: p.validate(token))
        layouts.resume()
        cluster.wait_ok()
        assert not patient.validate(tokens["u0"]), "this node kept nothing on disk"
        assert patient.validate(patient.login("u0").token)
        wait_for("the client to know", lambda: not p.validate(tokens["u0"]))

        _leave_one_that_refuses(cluster, victim)
        all_at_once({str(number): lambda: p.validate(tokens["u0"]) for number in range(5)}, within=1.8)

        cluster.stop()
        for error in all_at_once(calls(p, tokens["u0"]), within=1.8).values():
            assert "127.0.0.1:" in str(error)


@pytest.mark.cluster
def test_a_callers_own_cluster_client_obeys_our_time_limits(tmp_path: Path) -> None:
    any_binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Cluster.start(any_binary, tmp_path, masters=3, replicas=0) as cluster,
        cluster.client() as own,
        Presence(own, Settings(timeout=PATIENT)) as patient,
        Presence(own, Settings(timeout=1)) as p,
    ):
        token = patient.login("ada").token
        wait_for("connections", lambda: p.validate(token))
        victim = cluster.master_of(p.internal.context.keys.shard("ada").sessions)
        victim.pause()
        failure(lambda: p.validate(token), within=1.8)
        victim.resume()
        wait_for("an answer", lambda: p.validate(token))
        victim.kill()
        failure(lambda: p.validate(token), within=1.8)
        _leave_one_that_refuses(cluster, victim)
        all_at_once({str(number): lambda: p.validate(token) for number in range(5)}, within=1.8)


def _leave_one_that_refuses(cluster: Cluster, server: Server) -> None:
    """All other nodes hang: a client that asks them for the current master waits for each of them in turn."""
    for other in cluster.nodes:
        if other is not server:
            other.pause()
    if server.running:
        server.kill()


def test_a_cluster_that_does_not_exist_is_unavailable(anywhere: Bed) -> None:
    def first_use() -> None:
        anywhere.connect_to(f"redis+cluster://:{PASSWORD}@127.0.0.1:1").counts()

    error = failure(first_use, within=3.5)
    assert "127.0.0.1:1" in str(error)
    assert PASSWORD not in "".join(traceback.format_exception(error))
