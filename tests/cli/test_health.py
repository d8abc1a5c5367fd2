"""`presence doctor`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from presence_core import Worker, __version__
from presence_core.cli.bug_report import without_names
from tests.cli.conftest import Run, table_of
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.servers import Server, redis_binary, valkey_binary


def _row(line: str, column: int = 0) -> str:
    return line.split()[column]


@on("valkey-sync", "cluster-sync")
def test_the_doctor_prints_the_worst_finding_first_with_advice(p: P, bed: Bed, run: Run) -> None:
    p.login("ada")
    code, out, err = run("doctor")
    assert (code, err) == (1, "")
    heading, first, advice = table_of(out)[:3]
    assert heading == ["LEVEL", "SUBJECT", "FINDING AND ADVICE"]
    assert first[0] == "warning"
    assert advice[1].startswith("→ ")
    assert "No worker has ever run here" in out
    assert ["NODE", "SERVER", "ROLE", "PING", "MEMORY", "CLIENTS", "REPLICAS", "SHARDS"] in table_of(out)
    assert ("\n1 session on 64 shards: 0 to 1 per shard, mean 0.0.\n" in out) == bed.is_cluster
    if not bed.is_cluster:
        assert bed.raw.connection_pool.connection_kwargs["path"] in out
    health = json.loads(run("doctor", "--json")[1])
    assert len(health["nodes"]) == (3 if bed.is_cluster else 1)
    assert {finding["level"] for finding in health["findings"]} == {"ok", "warning"}


@on("valkey-sync")
def test_the_doctor_exits_with_0_if_nothing_is_worse_than_a_note(p: P, bed: Bed, run: Run) -> None:
    worker = Worker(p)
    worker._turn()
    bed.raw.config_set("save", "3600 1")
    try:
        code, out, _ = run("doctor")
    finally:
        bed.raw.config_set("save", "")
    assert code == 0
    assert _row(out.splitlines()[1]) == "note"
    assert "error" not in out


@on("valkey-sync")
def test_the_doctor_prints_eviction_first(p: P, bed: Bed, run: Run) -> None:
    p.login("ada")
    bed.raw.config_set("maxmemory", "1gb")
    bed.raw.config_set("maxmemory-policy", "allkeys-lru")
    try:
        code, out, _ = run("doctor")
    finally:
        bed.raw.config_set("maxmemory-policy", "noeviction")
        bed.raw.config_set("maxmemory", "0")
    assert code == 1
    first, advice = out.splitlines()[1:3]
    assert _row(first) == "error"
    assert "allkeys-lru may delete any key" in first
    assert advice.strip() == "→ Set maxmemory-policy noeviction."


@on("valkey-sync")
def test_the_doctor_prints_advice_while_redis_is_unavailable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("redis://ada:s3cret@127.0.0.1:1", "redis+cluster://ada:s3cret@127.0.0.1:1"):
        monkeypatch.setenv("PRESENCE_REDIS_URL", url)
        code, out, err = run("doctor")
        assert (code, out) == (3, "")
        assert "127.0.0.1:1 cannot be reached" in err
        assert "that PRESENCE_REDIS_URL is right (host, port, user, password; " in err
        assert "s3cret" not in err


@on("valkey-sync")
def test_the_doctor_names_a_command_that_the_server_does_not_have(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = valkey_binary() or redis_binary()
    assert binary
    with Server.start(binary, tmp_path, "--rename-command", "UNLINK", "", "--rename-command", "EXPIRE", "x7") as server:
        monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
        code, out, _ = run("doctor")
        assert code == 1
        assert "The server does not have expire, unlink: a call that needs one changes nothing." in out
        assert "rename-command" in out
        code, _, err = run("kick", "ada", "--by", "sam", "--reason", "test")
        assert code != 0
        assert "does not permit this: the server does not have the command 'expire'" in err


@on("valkey-sync", "cluster-sync")
def test_a_report_has_versions_servers_settings_and_findings_and_no_names(
    p: P, bed: Bed, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    p.login("ada", name="Ada Lovelace", ip="198.51.100.7")
    monkeypatch.setenv("PRESENCE_KEEP_EXPIRED", "60")
    monkeypatch.setenv("PRESENCE_ON_LIMIT", "reject")
    code, out, err = run("doctor", "--report")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"presence_core {__version__}, Python 3.")
    assert "redis " in lines[1]
    assert "keep_expired=60" in lines[2]
    assert "on_limit=reject" in lines[2]
    assert "namespace: set" in lines[2]
    assert lines[3].startswith(f"Topology: {'cluster' if bed.is_cluster else 'one server'}; schema ")
    assert any(re.match(r"Node 1: Valkey \d+\.\d+\.\d+, role master, memory \d+", line) for line in lines)
    assert "warning: worker: No worker has ever run here" in out
    addresses = [node.address for node in p.health().nodes]
    assert not [name for name in ("Ada", "198.51", bed.namespace, *addresses) if name in out]
    assert len(json.loads(run("doctor", "--report", "--json")[1])) == len(lines)


def test_a_report_while_redis_is_unavailable_has_the_versions_and_no_address(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://sam:hunter2@127.0.0.1:1")
    code, out, _ = run("doctor", "--report")
    assert code == 0
    assert out.startswith(f"presence_core {__version__}")
    assert out.splitlines()[-1].startswith("Health: Unavailable")
    assert not [name for name in ("sam", "hunter2", "127.0.0.1") if name in out]


@pytest.mark.parametrize(
    "text",
    ["10.1.2.3:6379 is slow", "[fd00::1]:6379 is slow", "cache-1.internal:6379 is slow", "/run/redis.sock is slow"],
)
def test_a_report_leaves_out_what_looks_like_an_address_or_a_path(text: str) -> None:
    assert without_names(text, {}) == "<address> is slow"
