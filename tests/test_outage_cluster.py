"""When a part of a cluster is away, or all of it."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from presence_core import OutcomeUnknown, Presence, Settings
from tests.conftest import Bed
from tests.outages import PASSWORD, all_at_once, calls, failure
from tests.servers import Cluster, missing, redis_binary, valkey_binary


@pytest.mark.cluster
def test_a_cluster_node_that_is_away_takes_only_its_own_users_along(anywhere: Bed, tmp_path: Path) -> None:
    any_binary = valkey_binary() or redis_binary() or missing("any Redis server")
    extra = ["--cluster-require-full-coverage", "no"]
    with Cluster.start(any_binary, tmp_path, masters=3, replicas=0, extra_args=extra) as cluster:
        p = anywhere.connect_to(cluster.url, timeout=0.5)
        tokens = {f"u{number}": p.login(f"u{number}").token for number in range(30)}
        victim = cluster.master_of(p.context.keys.shard("u0").sessions)
        away = {uid for uid in tokens if cluster.master_of(p.context.keys.shard(uid).sessions) is victim}
        assert 0 < len(away) < 30
        near = next(uid for uid in tokens if uid not in away)

        victim.pause()
        error, seconds = failure(lambda: p.login("u0"))
        assert isinstance(error, OutcomeUnknown)
        assert seconds < 0.8
        error, seconds = failure(lambda: p.validate(tokens["u0"]))
        assert not isinstance(error, OutcomeUnknown)
        assert seconds < 0.8
        assert error.server == f"127.0.0.1:{victim.port}"
        assert p.validate(tokens[near])
        error, seconds = failure(p.counts)
        assert seconds < 0.8
        victim.resume()

        cluster.wait_ok()
        assert all(p.validate(token) for token in tokens.values())
        victim.kill()
        error, seconds = failure(lambda: p.validate(tokens["u0"]))
        assert seconds < 0.8
        assert p.validate(tokens[near])
        victim.restart()
        cluster.wait_ok()
        assert not p.validate(tokens["u0"]), "this node kept nothing on disk"
        assert p.validate(p.login("u0").token)

        cluster.stop()
        for error, seconds in all_at_once(calls(p, tokens["u0"])).values():
            assert seconds < 1
            assert "127.0.0.1:" in str(error)


@pytest.mark.cluster
def test_a_callers_own_cluster_client_obeys_our_time_limits(tmp_path: Path) -> None:
    any_binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Cluster.start(any_binary, tmp_path, masters=3, replicas=0) as cluster,
        cluster.client() as own,
        Presence(own, Settings(timeout=0.5)) as p,
    ):
        token = p.login("ada").token
        victim = cluster.master_of(p._ctx.keys.shard("ada").sessions)
        victim.pause()
        _, seconds = failure(lambda: p.validate(token))
        victim.resume()
        assert seconds < 1
        assert p.validate(token)
        victim.kill()
        _, seconds = failure(lambda: p.validate(token))
        assert seconds < 1


def test_a_cluster_that_is_not_there_is_unavailable(anywhere: Bed) -> None:
    def first_use() -> None:
        anywhere.connect_to(f"redis+cluster://:{PASSWORD}@127.0.0.1:1").counts()

    error, seconds = failure(first_use)
    assert seconds < 2.2
    assert "127.0.0.1:1" in str(error)
    assert PASSWORD not in "".join(traceback.format_exception(error))
