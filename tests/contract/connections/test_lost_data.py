"""All data goes while processes run (FLUSHDB, a restart without persistence, another layout), the password changes, or
Redis deletes records: processes go on without a restart, and Health says what happened."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from presence_core import Unavailable
from presence_core.models import Finding
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary


def _some_seconds_later(*clients: P) -> None:
    for p in clients:
        p.context.cache.look_at = 0.001


def _delete_all(bed: Bed) -> None:
    """What FLUSHDB does to this namespace; other tests use the same server."""
    for keys in bed.families().values():
        for key in keys:
            bed.raw.delete(key)


def _found(p: P, subject: str) -> list[Finding]:
    return [finding for finding in p.health().findings if finding.subject == subject and finding.level != "ok"]


@every_topology
def test_after_a_flush_running_processes_go_on_and_health_says_so(bed: Bed) -> None:
    p, other = bed.connect(), bed.connect()
    shards = len((p.counts(), p.context.keys.shards)[1])
    p.login_many([{"uid": f"u{number}"} for number in range(20)])
    end = p.events_end()
    other.counts()
    assert _found(p, "data") == []
    _delete_all(bed)
    _some_seconds_later(p, other)
    token = p.login("ada").token
    assert other.validate(token)
    assert p.counts().sessions == 1
    assert next(event.kind for event in p.events(after=end)) == "gap"
    newcomer = bed.connect()
    for client in (p, other, newcomer):
        [finding] = _found(client, "data")
        assert finding.level == "warning"
        assert "all data of this namespace was gone (FLUSHDB" in finding.text
    assert len(newcomer.context.keys.shards) == shards


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 7), (64, 1)])
@on("valkey-sync", "redis7-async", "cluster-sync")
def test_after_a_flush_and_another_number_of_shards_processes_go_on(bed: Bed, before: int, after: int) -> None:
    old, idle = bed.connect(shards=before), bed.connect()
    old.login_many([{"uid": f"u{number}"} for number in range(20)])
    idle.counts()
    end = idle.events_end()
    _delete_all(bed)
    new = bed.connect(shards=after)
    token = new.login("ada").token
    _some_seconds_later(old, idle)
    assert old.validate(token)
    assert idle.validate(token)
    old.login("bob")
    assert {session.uid for session in idle.list_sessions()} == {"ada", "bob"}
    assert [event.kind for event in idle.events(after=end)] == ["gap"]
    for client in (old, idle, new):
        [finding] = _found(client, "data")
        assert f"and then it had {after} shards instead of {before}" in finding.text


@on("valkey-sync", "redis7-async")
def test_a_layout_with_another_number_of_shards_is_adopted(bed: Bed, raw: Any) -> None:
    p = bed.connect(shards=4)
    p.login("ada")
    raw.hset(p.context.keys.layout, "shards", "8")
    _some_seconds_later(p)
    p.login("bob")
    assert len(p.context.keys.shards) == 8
    assert {session.uid for session in p.list_sessions()} == {"bob"}
    [finding] = _found(p, "data")
    assert "8 shards instead of 4" in finding.text


@on("valkey-sync", "redis7-async", soak=("sync", "async"))
def test_a_flush_of_a_client_that_had_no_time_to_notice_breaks_no_call(bed: Bed) -> None:
    p = bed.connect(shards=3)
    p.login_many([{"uid": f"u{number}", "device": "phone"} for number in range(9)])
    _delete_all(bed)
    assert p.counts().sessions == 0
    assert not p.list_sessions().items
    assert not p.people("u")
    token = p.login("ada", device="phone", name="Ada").token
    _some_seconds_later(p)
    assert p.validate(token)


@on("valkey-sync", "valkey-async", soak=("redis7-sync", "redis7-async"))
def test_another_password_is_reported_although_open_connections_still_work(bed: Bed, tmp_path: Path) -> None:
    binary = (valkey_binary() if bed.backend.server == "valkey" else redis_binary()) or missing("a server")
    with Server.start(binary, tmp_path) as server, server.client() as admin:
        p = bed.connect_to(server.url, timeout=PATIENT)
        p.login("ada")
        assert _found(p, "connections") == []
        admin.config_set("requirepass", "s3cret-new")
        assert p.counts().sessions == 1, "an open connection"
        [finding] = _found(p, "connections")
        assert finding.level == "error"
        assert "A new connection is refused" in finding.text
        assert "refused the user name or password" in finding.text
        assert "s3cret" not in finding.text
        named = bed.connect_to(server.url.replace("unix://", "unix://:wrong-one@"), timeout=PATIENT)
        with pytest.raises(Unavailable, match="refused the user name or password"):
            named.counts()
        admin.config_set("requirepass", "wrong-one")
        assert named.counts().sessions == 1, "without a restart"
        assert _found(named, "connections") == []
        admin.config_set("requirepass", "")
        assert _found(p, "connections") == []
        bed.close()


@on("cluster-sync", "cluster-async", "sentinel-sync", "sentinel-async", "redis7-sync", "redis7-async")
def test_a_new_connection_to_every_server_is_tried(bed: Bed, raw: Any) -> None:
    p = bed.connect()
    assert _found(p, "connections") == []
    if bed.backend.server == "redis7":
        raw.execute_command("ACL", "SETUSER", "brief", "reset", "on", ">s", "~*", "+@all")
        q = bed.connect_to(bed.url.replace("://", "://brief:s@"), timeout=PATIENT)
        assert _found(q, "connections") == []
        raw.execute_command("ACL", "SETUSER", "brief", "resetpass", ">other")
        assert len(_found(q, "connections")) == 1


# -- records that Redis deletes ----------------------------------------------------------------------------------------


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_records_that_redis_deleted_are_reported(bed: Bed, raw: Any) -> None:
    p = bed.connect()
    p.login_many([{"uid": f"u{number}"} for number in range(49)])
    assert _found(p, "data") == []
    for key in bed.families()["session:"]:
        raw.delete(key)
    [finding] = _found(p, "data")
    assert finding.level == "error"
    assert "listed sessions have lost their record" in finding.text


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long ahead(void) {
  long seconds = 0;
  FILE *file = fopen(getenv("AHEAD_FILE"), "r");
  if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
  return seconds;
}
int clock_gettime(clockid_t id, struct timespec *at) {
  static int (*next)(clockid_t, struct timespec *);
  if (!next) next = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = next(id, at);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) at->tv_sec += ahead();
  return failed;
}
int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""


SetAhead = Callable[[int], object]


@contextmanager
def _server_with_a_clock(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, SetAhead]]:
    """A server of its own, and a function that sets its clock so many seconds ahead."""
    compiler = shutil.which("cc") or shutil.which("gcc") or missing("a C compiler")
    (directory / "clock.c").write_text(CLOCK)
    library, ahead = directory / "clock.so", directory / "ahead"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, directory / "clock.c", "-ldl"], check=True)
    ahead.write_text("0")
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("AHEAD_FILE", str(ahead))
        server = Server.start(redis_binary() or missing("redis-server on PATH"), directory)
    with server:
        yield server, lambda seconds: ahead.write_text(str(seconds))


@pytest.mark.parametrize(
    ("days", "record_ttl", "left"),
    [(0.9, True, 49), (2.1, True, 0), (40, True, 0), (2.1, False, 49), (400, False, 49)],
)
@on("redis7-sync")
def test_a_clock_far_ahead_lets_redis_delete_records_that_have_a_time_to_live(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: float, record_ttl: bool, left: int
) -> None:
    with _server_with_a_clock(tmp_path, monkeypatch) as (server, set_ahead), server.client() as raw:
        p = bed.connect_to(server.url, timeout=PATIENT, record_ttl=record_ttl)
        p.login_many([{"uid": f"u{number}"} for number in range(49)])
        set_ahead(round(86_400 * days))
        for _ in range(2):  # Redis deletes a key that a command meets, and some others ten times a second
            raw.exists(*raw.keys("*:session:*"), "none")
            time.sleep(0.2)
        clock = [finding for finding in _found(p, "clock") if finding.level == "error"]
        assert bool(clock) == (days > 1 and record_ttl)
        set_ahead(0)
        assert bool(_found(p, "data")) == (left == 0)
        assert len(p.list_sessions(limit=100)) == left
        bed.close()
